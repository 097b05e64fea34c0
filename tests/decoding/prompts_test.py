"""Prompts of unequal lengths, against each one read alone."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.decoding_models import Recurrent
from tf_hsm.decoding import read_prompts

PROMPTS = [[4], [3, 0, 7, 2, 2], [0, 8]]
PADDED = [[-1, -1, -1, -1, 4], [3, 0, 7, 2, 2], [-1, -1, -1, 0, 8]]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "prompts", [PROMPTS, PADDED, np.array(PADDED), tf.ragged.constant(PROMPTS)]
)
def test_each_as_if_alone(prompts, traced):
    recurrent = Recurrent(9, batch=3)

    def read():
        return read_prompts(recurrent.step, recurrent.state, prompts)

    if traced and isinstance(prompts, np.ndarray):
        given = tf.TensorSpec([None, None], tf.int64)  # of unknown lengths
        read_given = tf.function(
            lambda p: read_prompts(recurrent.step, recurrent.state, p), [given]
        )
        state, start = read_given(prompts)
    else:
        state, start = (tf.function(read) if traced else read)()
    np.testing.assert_array_equal(start, [4, 2, 8])
    assert start.dtype == tf.int64
    for entry, classes in enumerate(PROMPTS):
        wanted = recurrent.hidden_after(entry, classes[:-1])
        np.testing.assert_allclose(state["hidden"][entry], wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "prompts, error, message",
    [
        ([[1], []], ValueError, "must have at least one class"),
        ([[], []], ValueError, "must have at least one class"),
        ([], TypeError, "prompts must be integers"),
        ([1, 2], ValueError, r"\[batch, length\], but have .* \(2,\)"),
        ([[1], 2], ValueError, "must be lists of classes"),
        ([1, [2]], ValueError, "must be lists of classes"),
        ([[-1, 1], [2, -1]], ValueError, "only stand to the left"),
        ([[1, -1, 2], [1, 2, 3]], ValueError, "only stand to the left"),
        ([[1.0], [2.5]], TypeError, "prompts must be integers"),
        (
            np.array([1, 2]),
            ValueError,
            r"\[batch, length\], but have .* \(2,\)",
        ),
        ([[1], [2], [3]], ValueError, "as their first axis"),
    ],
)
def test_wrong_prompts(prompts, error, message):
    recurrent = Recurrent(9, batch=2)
    with pytest.raises(error, match=message):
        read_prompts(recurrent.step, recurrent.state, prompts)
