"""Regularizers and constraints of a head's rows."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import head_oracle, heads_by_name, oracle
from tests.support.in_place_models import make_adaptive
from tests.support.models import (
    TREE,
    WIDTH,
    compile_form,
    endpoint_form,
    head_of,
    make_data,
    make_head,
    sampled_head,
    sgd,
    train,
)
from tf_hsm import Tree, optimizers
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.layers.row_options import touched_rows

PINNED = Tree.huffman(heads_by_name.COUNTS, pinned=True)
OPTIONS = {
    "kernel_regularizer": keras.regularizers.L2(0.03),
    "bias_regularizer": keras.regularizers.L1(0.02),
    "kernel_constraint": keras.constraints.MaxNorm(0.2, axis=1),
    "bias_constraint": keras.constraints.NonNeg(),
}


def rows_on_paths(tree, classes):
    """The rows of the groups on the paths of classes, in plain Python."""
    groups = {tree.row_groups[r] for c in classes for r in tree.path(c)}
    return np.flatnonzero(np.isin(tree.row_groups, list(groups)))


@pytest.mark.parametrize(
    "tree",
    [
        TREE,
        Tree.two_level(30),
        Tree.balanced(9, [9]),
        Tree.from_nested([0, [1, [2, 3, 4], [5, [6, 7]]], [8, 9]]),
    ],
)
def test_touched_rows(tree):
    rng = np.random.default_rng(0)
    in_graph = tf.function(
        lambda classes: touched_rows(tree, classes),
        input_signature=[tf.TensorSpec([None], tf.int64)],
    )
    for count in (0, 1, 2, 5, 40):
        classes = rng.integers(tree.num_classes, size=count)
        expected = rows_on_paths(tree, classes)
        for found in (in_graph(classes), touched_rows(tree, classes)):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "form, make",
    [(compile_form, optimizers.SGD), (endpoint_form, keras.optimizers.SGD)],
)
def test_a_step(form, make):
    """The loss, the gradient and the projection, against NumPy.

    No label that is masked or ignored touches anything.
    """
    tokens, labels = make_data(examples=3)
    labels[0, 0] = -1
    model = form(
        optimizer=make(0.5),
        ignore_class=-1,
        bias_initializer="random_normal",
        **OPTIONS,
    )
    head = head_of(model)
    kernel, bias = head.get_weights()
    below = head.input[0] if form is endpoint_form else head.input
    hidden = keras.Model(model.inputs[0], below)(tokens).numpy()
    counted = (tokens != 0) & (labels != -1)
    count = counted.sum()
    problem = oracle.Problem(
        hidden[counted],
        labels[counted],
        kernel,
        bias,
        np.full(count, 1 / count),
    )
    value, _ = oracle.hierarchical_softmax(TREE, problem)
    rows = rows_on_paths(TREE, labels[counted])
    assert 0 < len(rows) < TREE.num_rows
    penalty = 0.03 * np.sum(kernel[rows] ** 2) + 0.02 * np.abs(bias[rows]).sum()
    loss = value.loss.sum() / count + penalty
    data = (tokens, labels) if form is compile_form else ([tokens, labels],)
    evaluated = model.evaluate(*data, verbose=0, return_dict=True)
    np.testing.assert_allclose(evaluated["loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(train(model, *data, epochs=1), loss, rtol=1e-5)
    dw, db = value.dw.copy(), value.db.copy()
    dw[rows] += 0.06 * kernel[rows]
    db[rows] += 0.02 * np.sign(bias[rows])
    stepped, stepped_bias = kernel - 0.5 * dw, bias - 0.5 * db
    # Keras' optimizers project all rows.
    projected = rows if make is optimizers.SGD else slice(None)
    norms = np.linalg.norm(stepped, axis=1, keepdims=True)
    clipped = stepped * np.minimum(norms, 0.2) / norms
    stepped[projected] = clipped[projected]
    stepped_bias[projected] = np.maximum(stepped_bias[projected], 0)
    updated = head.get_weights()
    np.testing.assert_allclose(updated[0], stepped, atol=1e-5)
    np.testing.assert_allclose(updated[1], stepped_bias, atol=1e-5)


HEADS = {
    "hierarchical": ("HierarchicalSoftmax", {}),
    "pinned": ("HierarchicalSoftmax", {"tree": PINNED}),
    "pinned_nodes": (
        "HierarchicalSoftmax",
        {"tree": PINNED, "node_labels": True},
    ),
    "embedding": ("EmbeddingSoftmax", {}),
    "label_tree": ("LabelTree", {}),
    "adaptive": (
        "AdaptiveSoftmax",
        {"tail": ["flat", "two_level"], "counts": np.arange(30) % 7},
    ),
    "no_biases_in_tails": ("AdaptiveSoftmax", {"use_bias": "head"}),
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 7, 12], [29, 29, 17]])
def test_touched_rows_of_heads(name, labels):
    """Rows of all groups on the paths have penalties, and are constrained."""
    kind, options = HEADS[name]
    head = heads_by_name.built(kind, ignore_class=-1, **options, **OPTIONS)
    x, y = heads_by_name.inputs(kind)[:4], np.array([*labels, -1])
    rows = head_oracle.Rows(head)
    its = labels if name == "pinned_nodes" else rows.class_rows[labels]
    is_touched = ((rows.above[its] @ rows.same) > 0).any(0)
    if name.startswith("pinned"):
        is_touched = is_touched[::2]
    y = y[:, np.newaxis] if kind == "LabelTree" else y
    wanted, before, begin = np.sum(head(x, y)) / 3, [], 0
    if kind == "LabelTree":
        wanted *= 3 / 4
    for part in head._tree_heads():
        kernel = part.weights.numpy()
        where = is_touched[begin : begin + len(kernel)]
        before.append((part, kernel, where))
        begin += len(kernel)
        wanted += 0.03 * np.sum(kernel[where] ** 2)
        if part.biases is not None:
            wanted += 0.02 * np.abs(part.biases.numpy()[where]).sum()
    assert begin == is_touched.size > is_touched.sum()
    np.testing.assert_allclose(sum(head.losses), wanted, rtol=1e-5)
    symbol = keras.Input(x.shape[1:], dtype=x.dtype.name)
    model = keras.Model(symbol, head(symbol))
    model.compile(optimizers.SGD(0.5), head.loss, run_eagerly=True)
    model.fit(x, y, verbose=0)
    for part, kernel, where in before:
        after = part.weights.numpy()
        assert np.linalg.norm(after[where], axis=1).max(initial=0) < 0.2 * 1.001
        np.testing.assert_array_equal(after[~where], kernel[~where])


@pytest.mark.parametrize("make", [make_head, make_adaptive, sampled_head])
def test_saving(make, tmp_path):
    head = make(**OPTIONS)
    config = json.loads(json.dumps(head.get_config()))
    assert type(head).from_config(config).get_config() == config
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile(sgd(), head.loss)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[-1]
    for name in OPTIONS:
        kept = getattr(loaded, name)
        assert type(kept) is type(OPTIONS[name])
        assert kept.get_config() == OPTIONS[name].get_config()
    assert loaded.weights[0].constraint is loaded.kernel_constraint
    # By name, and none where none is given.
    assert isinstance(
        make(kernel_regularizer="l1").kernel_regularizer, keras.regularizers.L1
    )
    assert make().kernel_constraint is None


def test_a_frozen_head_has_no_penalty():
    head = make_head(trainable=False, **OPTIONS)
    head(np.zeros([2, WIDTH], "f4"), np.array([1, 2]))
    assert len(head.losses) == 1


@pytest.mark.parametrize("name", OPTIONS)
def test_refused_in_place(name):
    with pytest.raises(
        ValueError, match=f"{name} is not possible in an update"
    ):
        HierarchicalSoftmax(TREE, optimizer="sgd", **{name: OPTIONS[name]})
    assert make_head(optimizer="sgd").losses == []


def test_a_constraint_of_rows_together_is_refused():
    """In the first step, by an optimizer that never sees all rows."""
    model = compile_form(
        optimizer=optimizers.SGD(0.1),
        kernel_constraint=keras.constraints.MaxNorm(1.0),
    )
    tokens, labels = make_data()
    with pytest.raises(ValueError, match=r"rows together .* kernel"):
        train(model, tokens, labels)
