"""Answers with minus infinity under tf.debugging.enable_check_numerics."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import heads_by_name
from tests.support.heads_by_name import BATCH, WIDTH

CLASSES = np.tile([1, 5], [BATCH, 1])
ANSWERS = {
    "predict_class": lambda head, x: head.predict_class(x),
    "log_probs": lambda head, x: head.log_probs(x),
    "allowed": lambda head, x: head.top_k(x, 3, allowed=[1, 5]),
    "threshold": lambda head, x: head.top_k(x, 3, threshold=0.9),
    "threshold of 0": lambda head, x: head.top_k(x, 3, threshold=0.0),
    "bounds": lambda head, x: head.top_k(x, 3, bounds=tf.fill([BATCH], -2.0)),
    "log_prob": lambda head, x: head.log_prob(CLASSES, x, allowed=[1]),
    "sample": lambda head, x: head.sample(x, 2, seed=1, allowed=[1, 5]),
    "top_p": lambda head, x: head.sample(x, 2, seed=1, top_p=0.9, top_k=3),
    "renormalize": lambda head, x: head.top_k(
        x, 3, allowed=[1, 5], renormalize=True
    ),
}
# What a label tree does not answer.
OF_SOFTMAXES = ("sample", "top_p", "renormalize")


@contextlib.contextmanager
def checked():
    tf.debugging.enable_check_numerics()
    try:
        yield
    finally:
        tf.debugging.disable_check_numerics()


def assert_equal(found, expected):
    for one, two in zip(
        tf.nest.flatten(found), tf.nest.flatten(expected), strict=True
    ):
        assert one.dtype == two.dtype
        np.testing.assert_allclose(one, two, rtol=1e-6)


@pytest.mark.parametrize(
    "graph, dtype",
    [(False, "float32"), (True, "float64"), (True, "float16")],
)
@pytest.mark.parametrize("name", [*heads_by_name.NAMES, "devices", "pinned"])
def test_answers(name, graph, dtype):
    """They are what they are eagerly without the checks."""
    options = {
        "devices": {"devices": ["CPU:0"] * 2},
        "pinned": {"tree": tf_hsm.Tree.balanced(30, 2, pinned=True)},
    }.get(name, {})
    if options:
        name = "HierarchicalSoftmax"
    head = heads_by_name.built(name, dtype=dtype, **options)
    x = heads_by_name.inputs(name)
    if x.dtype.is_floating:
        x = tf.cast(x, dtype)
    shape = tf.TensorSpec([None, *x.shape[1:]], x.dtype)
    infinite = 0
    for answer, ask in ANSWERS.items():
        if name == "LabelTree" and answer in OF_SOFTMAXES:
            continue

        def finite(x, ask=ask):
            return tf.nest.map_structure(without_infinity, ask(head, x))

        expected = ask(head, x)
        infinite += np.isinf(tf.nest.flatten(expected)[0]).any()
        with checked():
            # TensorFlow checks what a function returns, too.
            traced = tf.function(finite, input_signature=[shape])
            found = traced(x) if graph else ask(head, x)
        assert_equal(found, finite(x) if graph else expected)
    assert infinite >= 2


def without_infinity(values):
    if not values.dtype.is_floating:
        return values
    return tf.where(tf.math.is_inf(values), tf.cast(-999, values.dtype), values)


@pytest.mark.parametrize("graph", [False, True])
def test_decoding(graph):
    head = heads_by_name.built("HierarchicalSoftmax")
    vectors = tf.random.stateless_normal([30, WIDTH], [1, 2])

    def step(classes, state):
        return tf.gather(vectors, classes), state

    def decode():
        sampler = tf_hsm.decoding.Sampler(seed=1)
        return (
            tf_hsm.decoding.beam_search(
                step, tf.zeros([2, 1]), head, beam_width=3, length=4, end=2
            ),
            sampler(step, tf.zeros([2, 1]), head, length=4, end=2),
        )

    expected = decode()
    with checked():
        assert_equal((tf.function(decode) if graph else decode)(), expected)


def test_losses_are_checked():
    """Also after an answer."""
    head = heads_by_name.built("HierarchicalSoftmax")
    x = heads_by_name.inputs("HierarchicalSoftmax")
    with checked():
        head.top_k(x, 2, allowed=[1])
        with pytest.raises(tf.errors.InvalidArgumentError, match="NaN"):
            head(x * np.nan, heads_by_name.labels("HierarchicalSoftmax"))
