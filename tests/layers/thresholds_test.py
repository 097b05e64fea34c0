"""`top_k(threshold=)` of every softmax layer: as bounds of its logarithm."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import heads_by_name

BATCH, N = heads_by_name.BATCH, heads_by_name.NUM_CLASSES
NAMES = [name for name in heads_by_name.NAMES if name != "LabelTree"]


def some_thresholds(head, inputs):
    """Between two probabilities; below all of them; above all."""
    probs = np.exp(np.float64(head.log_probs(inputs)))
    ranked = np.sort(probs, 1)
    thresholds = (ranked[:, -4] + ranked[:, -5]) / 2
    thresholds[:2] = 0, 1.1
    return probs, thresholds


@pytest.mark.parametrize("options", [{}, {"allowed": [0, 3, 4, 17, 28, 29]}])
@pytest.mark.parametrize("name", NAMES)
def test_threshold(name, options):
    head, inputs = heads_by_name.built(name), heads_by_name.inputs(name)
    probs, thresholds = some_thresholds(head, inputs)
    allowed = np.isin(np.arange(N), options.get("allowed", np.arange(N)))
    found = head.top_k(inputs, N, threshold=thresholds, **options)
    for row, its, least in zip(
        found.classes.numpy(), probs, thresholds, strict=True
    ):
        above = np.flatnonzero(allowed & (its >= least))
        assert set(row[row >= 0]) == set(above)
        assert (row[above.size :] == -1).all()
    with np.errstate(divide="ignore"):
        bounds = np.log(thresholds)
    same = head.top_k(inputs, N, bounds=bounds, **options)
    for one, other in zip(found, same, strict=True):
        np.testing.assert_array_equal(one, other)
    # A scalar is for all inputs.
    each = head.top_k(inputs, 3, threshold=[0.07] * BATCH, **options)
    both = head.top_k(inputs, 3, threshold=0.07, **options)
    for one, other in zip(both, each, strict=True):
        np.testing.assert_array_equal(one, other)
    assert 0 < np.sum(both.classes >= 0) < 3 * BATCH


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_wrong_thresholds(name):
    head, inputs = heads_by_name.built(name), heads_by_name.inputs(name)
    wrong = ValueError, tf.errors.InvalidArgumentError
    for threshold in (np.nan, [np.nan] * BATCH):
        with pytest.raises(wrong, match="must not be NaN"):
            head.top_k(inputs, 3, threshold=threshold)
    with pytest.raises(ValueError, match="threshold and bounds are both"):
        head.top_k(inputs, 3, threshold=0.5, bounds=np.zeros(BATCH))
    with pytest.raises(wrong, match="threshold"):
        head.top_k(inputs, 3, threshold=[0.5, 0.5])
