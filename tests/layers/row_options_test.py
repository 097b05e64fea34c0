"""Regularizers and constraints of a head's rows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import head_oracle, heads_by_name
from tests.support.models import (
    NUM_CLASSES,
    WIDTH,
    compile_form,
    make_data,
    make_head,
    sampled_head,
    train,
)
from tf_hsm import Tree, optimizers
from tf_hsm.layers import LabelTree

PINNED = Tree.huffman(heads_by_name.COUNTS, pinned=True)
OPTIONS = {
    "kernel_regularizer": keras.regularizers.L2(0.03),
    "bias_regularizer": keras.regularizers.L1(0.02),
    "kernel_constraint": keras.constraints.MaxNorm(0.2, axis=1),
    "bias_constraint": keras.constraints.NonNeg(),
}


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


def touched(head, labels):
    """Which rows of weights of each part are on paths of labels."""
    rows, found, begin = head_oracle.Rows(head), [], 0
    its = labels if head.node_labels else rows.class_rows[labels]
    is_touched = ((rows.above[its] @ rows.same) > 0).any(0)
    assert is_touched.any() and not is_touched.all()
    for part in head._tree_heads():
        end = begin + part.tree.num_rows
        found.append(is_touched[begin : end : 2 if part.tree.pinned else 1])
        begin = end
    return found


def penalized(head, hidden, labels):
    """The mean of the losses, and the penalties of touched rows."""
    losses = head_oracle.losses(head, hidden, labels[:, np.newaxis])
    counted = labels[labels >= 0]
    count = counted.size
    if isinstance(head, LabelTree):
        count = labels.size
    total = tf.reduce_sum(losses) / count
    pairs = zip(head._tree_heads(), touched(head, counted), strict=True)
    for part, where in pairs:
        kernel = tf.boolean_mask(part.weights.value, where)
        total += 0.03 * tf.reduce_sum(kernel**2)
        if part.biases is not None:
            bias = tf.boolean_mask(part.biases.value, where)
            total += 0.02 * tf.reduce_sum(abs(bias))
    return total


def model_of(head, x, y, form):
    """A model of a head alone, and its data."""
    symbols = [
        keras.Input(a.shape[1:], dtype=a.dtype.name) for a in (x.numpy(), y)
    ]
    if form == "endpoint":
        return keras.Model(symbols, head(*symbols)), {"x": [x, y]}
    return keras.Model(symbols[0], head(symbols[0])), {"x": x, "y": y}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize(
    "form, make, eager",
    [
        ("compile", optimizers.SGD, False),
        ("endpoint", keras.optimizers.SGD, True),
    ],
)
def test_a_step(name, form, make, eager):
    """The loss, the gradient and the projection, by the formulas.

    No label that is masked or ignored touches anything.
    """
    kind, options = HEADS[name]
    head = heads_by_name.built(
        kind, dtype="float64", ignore_class=-1, **options, **OPTIONS
    )
    x, labels = heads_by_name.inputs(kind)[:5], np.array([0, 7, 7, -1, 12])
    x = tf.cast(x, "float64") if x.dtype.is_floating else x
    y = labels[:, np.newaxis] if kind == "LabelTree" else labels
    with tf.GradientTape(persistent=True) as tape:
        total = penalized(
            head, head.embed(x) if x.dtype.is_integer else x, labels
        )
    if kind != "LabelTree":
        head(x, np.where(labels < 0, 20, labels), inputs_mask=labels >= 0)
        np.testing.assert_allclose(sum(head.losses), total, rtol=1e-6)
    parts, before = head._tree_heads(), []
    for part, where in zip(
        parts, touched(head, labels[labels >= 0]), strict=True
    ):
        for v in part.variables():
            slope = tf.convert_to_tensor(tape.gradient(total, v.value))
            before.append((v, v.numpy() - 0.5 * slope.numpy(), where))
    model, data = model_of(head, x, y, form)
    loss = {"loss": head.loss} if form == "compile" else {}
    model.compile(make(0.5), run_eagerly=eager, **loss)
    found = model.evaluate(**data, verbose=0)
    np.testing.assert_allclose(found, total, rtol=1e-6)
    found = model.fit(**data, verbose=0).history["loss"]
    np.testing.assert_allclose(found, total, rtol=1e-6)
    for variable, stepped, where in before:
        # Keras' optimizers project all rows.
        where = where if make is optimizers.SGD else slice(None)
        if stepped.ndim == 2:
            norms = np.linalg.norm(stepped, axis=1, keepdims=True)
            projected = stepped * np.minimum(norms, 0.2) / norms
        else:
            projected = np.maximum(stepped, 0)
        stepped[where] = projected[where]
        np.testing.assert_allclose(variable, stepped, atol=1e-6)


def test_penalties_of_sampled_rows():
    """A tape sees the gathered rows once; without one, all rows count."""
    head = sampled_head(
        kernel_regularizer=OPTIONS["kernel_regularizer"],
        bias_regularizer=OPTIONS["bias_regularizer"],
        bias_initializer="random_normal",
        ignore_class=-1,
    )
    x = np.random.default_rng(0).normal(size=[5, WIDTH]).astype("f4")
    labels = np.array([4, 4, 11, -1, 29])
    head.build(x.shape)
    kernel, bias, _ = head.get_weights()

    def penalty(rows):
        return (
            0.03 * np.sum(kernel[rows] ** 2) + 0.02 * np.abs(bias[rows]).sum()
        )

    rows = np.union1d([4, 11, 29], head._draws.draw(3, 0))
    assert rows.size < NUM_CLASSES
    with tf.GradientTape() as tape:
        losses = head(x, labels)
        total = sum(head.losses)
    np.testing.assert_allclose(total, np.sum(losses) / 4 + penalty(rows), 1e-5)
    gradient = tape.gradient(total, head.kernel.value)
    np.testing.assert_array_equal(gradient.indices, rows)
    losses = head(x, labels)
    total = np.sum(losses) / 4 + penalty(slice(None))
    np.testing.assert_allclose(sum(head.losses), total, 1e-5)


def test_a_frozen_head_has_no_penalty():
    head = make_head(trainable=False, **OPTIONS)
    head(np.zeros([2, WIDTH], "f4"), np.array([1, 2]))
    assert len(head.losses) == 1


def test_a_constraint_of_rows_together_is_refused():
    """In the first step, by an optimizer that never sees all rows."""
    model = compile_form(
        optimizer=optimizers.SGD(0.1),
        kernel_constraint=keras.constraints.MaxNorm(1.0),
    )
    tokens, labels = make_data()
    with pytest.raises(ValueError, match=r"rows together .* kernel"):
        train(model, tokens, labels)
