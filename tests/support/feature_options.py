"""Options of the constructors of heads: each is tried, and must have an effect.

A feature is a function that takes the name of a head (`heads_by_name.NAMES`).
Where the head lacks the feature, it raises a TypeError or a ValueError. Where
another test checks the effect on every head, the feature is the call alone.
"""

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support.feature_uses import model_of
from tests.support.heads_by_name import (
    BATCH,
    COUNTS,
    NUM_CLASSES,
    TREE,
    WIDTH,
    built,
    inputs,
    label_sets,
    labels,
    make,
)
from tests.support.training import layer_step

Tree = tf_hsm.Tree


def losses(name, **options):
    """The losses of a head with some options, in NumPy."""
    return built(name, **options)(inputs(name), labels(name)).numpy()


def _taken(**options):
    """An option; `tests/layers/conformance_test.py` tests its effect."""
    return lambda name: losses(name, **options)


def several_labels(name, *weights):
    several = {} if name == "LabelTree" else {"several_labels": True}
    built(name, **several)(inputs(name), label_sets(), *weights)


def counts(name):
    """Biases begin such that frequent classes are probable."""
    given = COUNTS
    if name == "LabelTree":
        examples = int(COUNTS.sum())
        given = tf_hsm.LabelCounts.expected(TREE, COUNTS, examples=examples)
    best = []
    for options in ({}, {"counts": given}):
        head = make(name, kernel_initializer="zeros", **options)
        head(inputs(name))
        pair = head.log_prob([[0, NUM_CLASSES - 1]] * BATCH, inputs(name))
        best.append((pair[:, 1] - pair[:, 0]).numpy())
    # The last class is 842 times as frequent as the first one.
    assert (best[1] > np.log(100)).all()
    assert (np.abs(best[0] - best[1]) > 1e-4).all()


def stochastic_rounding(name):
    """By default, rows of bfloat16 are rounded as the seed says."""

    def step(seed=0, is_stochastic=None):
        head = built(
            name,
            optimizer=tf_hsm.optimizers.SGD(0.5),
            dtype="bfloat16",
            stochastic_rounding=is_stochastic,
            seed=seed,
        )
        layer_step(head, inputs(name), labels(name))
        after = [v.numpy() for v in head.row_variables()]
        return np.concatenate([v.astype("f4").ravel() for v in after])

    np.testing.assert_array_equal(step(), step(is_stochastic=True))
    assert (step() != step(seed=1)).any()
    assert (step() != step(is_stochastic=False)).any()


def regularizers(name):
    """The losses of a layer have the penalties of the touched rows."""
    totals = []
    for factor in (0.0, 0.1, 0.2):
        head = built(
            name,
            kernel_regularizer=keras.regularizers.L2(factor),
            bias_regularizer=keras.regularizers.L1(factor),
        )
        head(inputs(name), labels(name))
        totals.append(float(sum(head.losses)))
    penalty = totals[1] - totals[0]
    assert penalty > 0.1
    np.testing.assert_allclose(totals[2] - totals[0], 2 * penalty, rtol=1e-4)


def constraints(name):
    """The optimizer constrains the rows that it has moved."""
    head = built(
        name,
        kernel_constraint=keras.constraints.MaxNorm(0.05, axis=1),
        bias_constraint=keras.constraints.NonNeg(),
    )
    table = getattr(head, "embeddings", None)
    rows = [v for v in head.row_variables() if v is not table]
    before = [v.numpy() for v in rows]
    model = model_of(name, head)
    model.fit(inputs(name), labels(name), batch_size=BATCH, verbose=0)
    for old, variable in zip(before, rows, strict=True):
        new = variable.numpy()
        if new.ndim == 2:
            moved = (new != old).any(1)
            assert np.linalg.norm(new[moved], axis=1).max() < 0.05 + 1e-6
        else:
            moved = new != old
            assert (new[moved] >= 0).all()
        assert moved.any()


def pinned_trees(name):
    trees = [Tree.balanced(9, 2).pin(), Tree.balanced(16, 2).pin()]
    options = {"tree": Tree.huffman(COUNTS, pinned=True)}
    losses(name, **{"tail": trees} if name == "AdaptiveSoftmax" else options)


def tied(name):
    """The weights are the rows of an `Embedding`."""
    embedding = keras.layers.Embedding(NUM_CLASSES, WIDTH)
    options = {"tree": Tree.flat(NUM_CLASSES)} if "Hier" in name else {}
    head = built(name, tied_to=embedding, **options)
    assert head.row_variables()[0] is embedding.embeddings


def sixteen_bits(name):
    """Rows of bfloat16, and losses of float32."""
    head = built(name, dtype="bfloat16")
    assert all(v.dtype == "bfloat16" for v in head.row_variables())
    found = head(inputs(name), labels(name))
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, losses(name), rtol=0.1, atol=0.1)


FEATURES = {
    "`ignore_class`": _taken(ignore_class=int(label_sets()[0, 0])),
    "several labels for each input": several_labels,
    "weights of several labels": lambda name: several_labels(
        name, np.ones([BATCH, 3], "f4")
    ),
    "`node_labels`": _taken(node_labels=True),
    "`label_smoothing`": _taken(label_smoothing=0.3),
    "`smoothing_prior`": _taken(label_smoothing=0.3, smoothing_prior=COUNTS),
    "`class_weights`": _taken(class_weights=COUNTS),
    "`focal_gamma`": _taken(focal_gamma=2.0),
    "`counts` for the first biases": counts,
    "`optimizer`, a step in place": _taken(optimizer="sgd"),
    "`stochastic_rounding` in place": stochastic_rounding,
    "regularizers": regularizers,
    "constraints": constraints,
    "pinned trees": pinned_trees,
    "`devices`": _taken(devices=["CPU:0", "CPU:0"]),
    "`tied_to` an `Embedding`": tied,
    "bfloat16 weights": sixteen_bits,
}
