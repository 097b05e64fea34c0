"""AdaptiveSoftmax with an optimizer of its own, in training."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import in_place_models
from tests.support.adaptive_layers import make, make_inputs
from tests.support.in_place_models import (
    arguments,
    fit,
    make_adaptive,
)
from tests.support.models import head_of, make_data
from tests.support.training import assert_same, layer_step
from tests.support.update_rules import OPTIMIZERS

make_model = functools.partial(in_place_models.make_model, make=make_adaptive)
# Faster where a graph would show nothing more.
EAGERLY = {"run_eagerly": True}


@pytest.mark.parametrize("labels", [np.full(9, -1), [0, 2, 4], [9, 20, 11]])
def test_clusters_without_a_label(labels):
    """They do not move, and neither does their state; the step counts."""
    layer = make("narrow", optimizer=OPTIMIZERS["lazy_adam"](), ignore_class=-1)
    tables = [
        (v, *layer.optimizer.slots(v))
        for v in (layer.head_kernel, *layer.tail_kernels)
    ]
    before = [[v.numpy() for v in table] for table in tables]
    layer_step(layer, make_inputs(len(labels)), np.array(labels))
    after = [[v.numpy() for v in table] for table in tables]
    moved = [
        not np.array_equal(new[0], old[0])
        for new, old in zip(after, before, strict=True)
    ]
    is_class = np.array(labels) >= 0
    tails = {j for j in np.searchsorted([5, 9, 21], labels, "right") if j}
    assert moved == [is_class.any(), *(j in tails for j in (1, 2, 3))]
    for has_moved, new, old in zip(moved, after, before, strict=True):
        if not has_moved:
            assert_same(new, old)
    assert int(layer.optimizer.iterations) == 1


def test_a_wrong_number_of_labels_moves_nothing():
    """Known when the function runs, and not before."""
    layer = make(optimizer="adagrad")
    step = tf.function(
        functools.partial(layer_step, layer),
        input_signature=[
            tf.TensorSpec([None, 12]),
            tf.TensorSpec([None], tf.int64),
        ],
    )
    x, labels = make_inputs(31), np.arange(31)
    before = [v.numpy() for v in layer.variables]
    for wrong in (labels[:30], np.arange(32)):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="labels must have the shape"
        ):
            step(x, wrong)
        assert_same([v.numpy() for v in layer.variables], before)
    step(x, labels)
    assert int(layer.optimizer.iterations) == 1


def test_variables_are_not_the_models():
    """Its optimizer keeps nothing of their size, but has the projections."""
    model = make_model("compile", "lazy_adam", compiling=EAGERLY)
    head = head_of(model)
    shapes = [v.shape for v in head.trainable_weights]
    assert shapes == [(6, 4), (6, 2)]
    fit(model, arguments("compile", *make_data()), epochs=1)
    rows = [v.shape for v in head.row_variables()]
    assert len(rows) == 6
    assert not {v.shape for v in model.optimizer.variables} & set(rows)
    assert {v.shape for v in head.optimizer.variables} > set(rows)
