"""Options of the constructors of heads: each is tried, and must have an effect.

A feature is a function that takes the name of a head (`heads_by_name.NAMES`).
Where the head lacks the feature, it raises a TypeError or a ValueError.
"""

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
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


def losses(name, given=None, **options):
    """The losses of a head with some options, in NumPy."""
    given = labels(name) if given is None else given
    return built(name, **options)(inputs(name), given).numpy()


def training_losses(name, **options):
    """The losses that a gradient is asked of: a `SampledSoftmax` samples."""
    with tf.GradientTape():
        return losses(name, **options)


def differ(one, other):
    """Whether no number is the same but for rounding."""
    return (np.abs(one - other) > 1e-4).all()


def _effect_of(default=None, **options):
    """A feature that changes losses, with a gradient and without.

    `tests/layers/conformance_test.py` tests what they are.
    """

    def feature(name):
        for losses_of in (losses, training_losses):
            found = losses_of(name, **options)
            plain = losses_of(name, **(default or {}))
            assert (np.abs(found - plain) > 1e-4).any()

    return feature


def _several(name):
    return {} if name == "LabelTree" else {"several_labels": True}


def several_labels(name):
    """A loss of labels `[B, M]`."""
    found = losses(name, given=label_sets(), **_several(name))
    assert found.shape == (BATCH,)
    assert differ(found[1:2], losses(name)[1:2]) or name == "LabelTree"


def weights_of_labels(name):
    """The loss is a weighted sum, as of a teacher's probabilities."""
    weights = np.random.default_rng(3).uniform(size=[BATCH, 3]).astype("f4")
    head = built(name, **_several(name))
    found = [head(inputs(name), label_sets(), c * weights) for c in (1, 2)]
    np.testing.assert_allclose(2 * found[0], found[1], rtol=1e-5)


def node_labels(name):
    """A label may be an inner node, with the loss -log p(node)."""
    row = int(np.flatnonzero(TREE.row_classes < 0)[0])
    head = built(name, node_labels=True)
    found = head(inputs(name), np.full(BATCH, row)).numpy()
    log_prob = head.log_prob(np.full([BATCH, 1], row), inputs(name), nodes=True)
    np.testing.assert_allclose(found, -log_prob[:, 0], rtol=1e-4)


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
    assert differ(*best)


def _stepped(name, **options):
    """The rows before and after a step of a head's own optimizer."""
    head = built(name, **options)
    before = [v.numpy() for v in head.row_variables()]
    layer_step(head, inputs(name), labels(name))
    return head, before, [v.numpy() for v in head.row_variables()]


def in_place(name):
    """A gradient of the losses moves the rows, and has none for them."""
    head, before, after = _stepped(name, optimizer=tf_hsm.optimizers.SGD(0.5))
    for one, other in zip(before, after, strict=True):
        assert (np.abs(one - other) > 1e-4).any()
    trained = {id(v) for v in head.trainable_variables}
    assert not trained & {id(v) for v in head.row_variables()}


def stochastic_rounding(name):
    """Rows of bfloat16 are rounded as the seed says."""

    def step(seed=0, is_stochastic=True):
        *_, after = _stepped(
            name,
            optimizer=tf_hsm.optimizers.SGD(0.5),
            dtype="bfloat16",
            stochastic_rounding=is_stochastic,
            seed=seed,
        )
        return np.concatenate([v.astype("f4").ravel() for v in after])

    np.testing.assert_array_equal(step(), step())
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
    is_table = [v is getattr(head, "embeddings", None) for v in head.variables]
    rows = [
        v
        for v, is_one in zip(head.variables, is_table, strict=True)
        if not is_one and ("kernel" in v.name or "bias" in v.name)
    ]
    before = [v.numpy() for v in rows]
    symbol = keras.Input(inputs(name).shape[1:], dtype=inputs(name).dtype.name)
    model = keras.Model(symbol, head(symbol))
    optimizer = tf_hsm.optimizers.SGD(0.5)
    model.compile(optimizer, loss=head.loss, run_eagerly=True)
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
    """A pinned tree has one row of weights for each group."""
    if name == "AdaptiveSoftmax":
        trees = [Tree.balanced(9, 2).pin(), Tree.balanced(16, 2).pin()]
        head = built(name, tail=trees)
        kernels = head.tail_kernels
    else:
        trees = [Tree.huffman(COUNTS, pinned=True)]
        head = built(name, tree=trees[0])
        kernels = [head.kernel]
    for tree, kernel in zip(trees, kernels, strict=True):
        assert kernel.shape[0] == tree.num_groups < tree.num_rows
    total = np.exp(head.log_probs(inputs(name))).sum(1)
    np.testing.assert_allclose(total, 1, rtol=1e-4)


def devices(name):
    """Rows lie in several variables, on devices that must be there."""
    head = built(name, devices=["CPU:0", "CPU:0"])
    kernels = [v for v in head.row_variables() if len(v.shape) == 2]
    assert len(kernels) > 1
    total = np.exp(head.log_probs(inputs(name))).sum(1)
    np.testing.assert_allclose(total, 1, rtol=1e-4)
    try:
        built(name, devices=["CPU:0", "GPU:99"])
    except ValueError as error:
        assert "GPU:99" in str(error)
        return
    raise AssertionError("a device that is not there is not missed")


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
    "`ignore_class`": _effect_of(ignore_class=int(label_sets()[0, 0])),
    "several labels for each input": several_labels,
    "weights of several labels": weights_of_labels,
    "`node_labels`": node_labels,
    "`label_smoothing`": _effect_of(label_smoothing=0.3),
    "`smoothing_prior`": _effect_of(
        {"label_smoothing": 0.3}, label_smoothing=0.3, smoothing_prior=COUNTS
    ),
    "`class_weights`": _effect_of(class_weights=np.linspace(2, 3, NUM_CLASSES)),
    "`focal_gamma`": _effect_of(focal_gamma=2.0),
    "`counts` for the first biases": counts,
    "`optimizer`, a step in place": in_place,
    "`stochastic_rounding` in place": stochastic_rounding,
    "regularizers": regularizers,
    "constraints": constraints,
    "pinned trees": pinned_trees,
    "`devices`": devices,
    "`tied_to` an `Embedding`": tied,
    "bfloat16 weights": sixteen_bits,
}
