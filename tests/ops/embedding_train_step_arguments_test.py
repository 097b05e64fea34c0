"""What the step with a look-up refuses, and that nothing has changed then."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.embedding_training import (
    COUNT,
    draw_indices,
    step,
    variables_of,
)
from tests.support.training import assert_same, states, wide_problem
from tests.support.update_rules import built
from tf_hsm import hierarchical_softmax_embedding_train_step as train_step

TREE = tf_hsm.Tree.huffman(1 / np.arange(1, 61))
PROBLEM = wide_problem(TREE, (12, 20))
INDICES = draw_indices(12)
REFUSED = {
    "an index too large": (
        {"indices": [*INDICES[:11], COUNT]},
        rf"indices\[11\] = {COUNT}",
    ),
    "a negative index": (
        {"indices": [-1, *INDICES[1:]]},
        r"indices\[0\] = -1",
    ),
    "an index of an ignored label": (
        {"indices": [COUNT] * 12, "ignore_class": int(PROBLEM.labels[0])},
        r"indices\[0\]",
    ),
    "an index less": (
        {"indices": INDICES[:11]},
        "indices must have the shape of labels",
    ),
    "indices that are floats": (
        {"indices": INDICES / 2},
        "indices must be integers",
    ),
    "a label too large": ({"labels": [60] * 12}, r"labels\[0\] = 60"),
    "vectors that are a tensor": (
        {"vectors": tf.zeros([COUNT, 20])},
        "vectors must be a variable",
    ),
    "rounding of float32": (
        {"stochastic_rounding": True},
        "stochastic_rounding is for bfloat16",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_arguments(case):
    """They are named, and nothing has changed."""
    changes, message = REFUSED[case]
    w, b, vectors = variables = variables_of(PROBLEM)
    optimizer = built("adagrad", variables)
    before = states(optimizer, variables)
    arguments = {
        "weights": w,
        "biases": b,
        "labels": PROBLEM.labels,
        "vectors": vectors,
        "indices": INDICES,
        "tree": TREE,
        "optimizer": optimizer,
    }
    errors = (tf.errors.InvalidArgumentError, TypeError, ValueError)
    with pytest.raises(errors, match=message):
        train_step(**{**arguments, **changes})
    assert_same(states(optimizer, variables), before)
    assert int(optimizer.iterations) == 0


@pytest.mark.parametrize(
    "vectors, message",
    [
        (np.zeros([COUNT, 19], np.float32), "vectors must have the width"),
        (np.zeros([COUNT, 20]), "vectors must be float, but is double"),
        (np.zeros([20], np.float32), "vectors must have the shape"),
    ],
)
def test_vectors_that_do_not_fit(vectors, message):
    """They are named, and the tree has not changed."""
    w, b, _ = variables_of(PROBLEM)
    variables = [w, b, tf.Variable(vectors)]
    optimizer = built("sgd", variables)
    before = states(optimizer, variables)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        step(variables, PROBLEM, INDICES, TREE, optimizer)
    if vectors.dtype == np.float32:
        with pytest.raises(ValueError):  # when traced already
            tf.function(
                lambda: step(variables, PROBLEM, INDICES, TREE, optimizer)
            ).get_concrete_function()
    assert_same(states(optimizer, variables), before)


def test_weights_as_vectors():
    """A variable in two places is an error."""
    w, b, _ = variables_of(PROBLEM)
    optimizer = built("sgd", [w, b])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="must be different variables"
    ):
        step([w, b, w], PROBLEM, INDICES, TREE, optimizer)


def test_an_optimizer_of_other_variables():
    """One that does not know the vectors."""
    variables = variables_of(PROBLEM)
    optimizer = built("sgd", variables[:2])
    for unfit in (optimizer, tf_hsm.optimizers.SGD(), "sgd"):
        with pytest.raises(ValueError, match="optimizer must be built"):
            step(variables, PROBLEM, INDICES, TREE, unfit)


@pytest.mark.parametrize("name", ["weights", "vectors"])
def test_variables_on_another_device(monkeypatch, name):
    """The error says what to use there."""
    w, b, vectors = variables_of(PROBLEM)
    elsewhere = {"weights": w, "vectors": vectors}[name]
    device = "/job:localhost/replica:0/task:0/device:GPU:0"
    kind, here = type(w), w.device
    monkeypatch.setattr(
        kind, "device", property(lambda v: device if v is elsewhere else here)
    )
    optimizer = built("sgd", [w, b, vectors])
    with pytest.raises(ValueError, match=rf"{name} must be on a CPU.*gather"):
        step([w, b, vectors], PROBLEM, INDICES, TREE, optimizer)
