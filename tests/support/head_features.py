"""Features of heads: each is tried, and must have an effect.

A feature is a function that takes the name of a head (`heads_by_name.NAMES`).
Where the head lacks the feature, it raises a TypeError or a ValueError. Where
another test checks the effect on every head, the feature is the call alone.
"""

import inspect
import pathlib
import tempfile

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
from tf_hsm import Tree, metrics, serving

NEW = 3


def symbol(name):
    """The input of a model that is a head alone."""
    given = inputs(name)
    return keras.Input(given.shape[1:], dtype=given.dtype.name, name="inputs")


def model_of(name, head):
    """A compiled model that is a head alone."""
    given = symbol(name)
    model = keras.Model(given, head(given))
    optimizer = tf_hsm.optimizers.SGD(0.5)
    model.compile(optimizer, head.loss, run_eagerly=True)
    return model


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


OPTIONS = {
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
    # tests/layers/row_options_test.py tests these.
    "regularizers": _taken(kernel_regularizer="l2", bias_regularizer="l1"),
    "constraints": constraints,
    "pinned trees": pinned_trees,
    "`devices`": _taken(devices=["CPU:0", "CPU:0"]),
    "`tied_to` an `Embedding`": tied,
    "bfloat16 weights": sixteen_bits,
}


def compiled_loss(name):
    """`tests/layers/conformance_test.py` tests what it minimizes."""
    model_of(name, built(name)).evaluate(inputs(name), labels(name), verbose=0)


def sequences(name):
    """Inputs, labels and losses have several leading dimensions."""
    shape = [2, BATCH // 2]
    head, flat = built(name), labels(name)
    found = head(
        tf.reshape(inputs(name), shape + inputs(name).shape[1:]),
        flat.reshape(shape + list(flat.shape[1:])),
    )
    expected = np.reshape(head(inputs(name), flat), shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def _metric(kind, *args):
    """A metric; `tests/metrics_ranking_test.py` tests what it is."""

    def feature(name):
        given, options = labels(name), {}
        if kind is not metrics.TopKAccuracy and name != "LabelTree":
            given, options = label_sets(), {"several_labels": True}
        head = built(name, **options)
        kind(head, *args).update_state(given, head(inputs(name)))

    return feature


def functional_answers(name):
    """An answer is an output of a functional model."""
    head, given = built(name), symbol(name)
    model = keras.Model(given, list(head.top_k(given, 3)))
    for one, other in zip(
        model(inputs(name)), head.top_k(inputs(name), 3), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def saving(name):
    """A config; the conformance test loads a file of each head."""
    head = built(name, ignore_class=5)
    assert type(head).from_config(head.get_config()).ignore_class == 5


def growth(name):
    """Old classes lose no more than the share of the new ones."""
    head = built(name)
    argument, *_ = inspect.signature(head.grow).parameters
    total = NUM_CLASSES + NEW
    more = getattr(head, "tree", TREE).grow(NEW, max_fanout=total)
    grown = head.grow({"tree": more, "num_classes": total}[argument])
    assert grown.num_classes == total
    old, new = (np.array(h.log_probs(inputs(name))) for h in (head, grown))
    lost = np.abs(old - new[:, :NUM_CLASSES])
    assert lost.max() < 1 and lost.mean() < 0.2
    # A head that had learned nothing would be further off.
    assert np.abs(old - np.log(1 / NUM_CLASSES)).max() > 1
    assert np.isfinite(new).all()


def pruning(name):
    """Classes that go leave their probability to the others."""
    head = built(name)
    keep = np.arange(0, NUM_CLASSES, 2)
    pruned = tf_hsm.prune(model_of(name, head), keep, merge=False)
    copy = pruned.model.layers[-1]
    assert copy.num_classes == keep.size and head.num_classes == NUM_CLASSES
    old, new = (np.array(h.log_probs(inputs(name))) for h in (head, copy))
    gained = new - old[:, keep]
    assert (gained > -1e-4).all()
    # Each label of a label tree has a probability of its own.
    assert (gained.max() < 1e-4) == (name == "LabelTree")


def regrouping(name):
    """The probabilities in other groups are nearer than without a fit."""
    head = built(name)
    old = getattr(head, "tree", TREE)
    new = old.regroup(np.random.default_rng(0).normal(size=[NUM_CLASSES, 3]))

    def probs(tree):
        head._set_tree(tree)
        return np.exp(head.log_probs(inputs(name)))

    head.regroup(old, inputs(name))
    before, unfitted = probs(old), probs(new)
    head._set_tree(old)
    head.regroup(new, inputs(name))
    assert head.tree is new != old
    errors = [np.abs(p - before).sum() for p in (probs(new), unfitted)]
    assert errors[0] < 0.5 * errors[1]


def export(name):
    """A SavedModel answers as the head does."""
    head = built(name)
    model = model_of(name, head)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "1")
        serving.export(model, path, k=3)
        loaded = tf.saved_model.load(path)
        found = loaded.signatures["serving_default"](inputs=inputs(name))
    expected = head.top_k(inputs(name), 3)
    np.testing.assert_array_equal(found["classes"], expected.classes)
    np.testing.assert_allclose(found["log_probs"], expected.log_probs, 1e-5)


def estimate(name):
    """The estimate has the parameters that the layer has."""
    head = built(name)
    given = {} if name == "EmbeddingSoftmax" else {"width": WIDTH}
    found = tf_hsm.estimate(None, head, batch=BATCH, **given)
    parameters = [v for v in head.variables if v.dtype == "float32"]
    assert found.parameters == sum(np.prod(v.shape) for v in parameters)
    assert sum(found.flops) > 0


USES = {
    "`compile(loss=head.loss)`": compiled_loss,
    "endpoint: `head(inputs, labels)`": lambda name: built(name)(
        inputs(name), labels(name)
    ),
    "inputs `[batch, time, width]`": sequences,
    "masks": lambda name: built(name)(
        inputs(name), labels(name), inputs_mask=np.full(BATCH, True)
    ),
    "`Perplexity`": _metric(metrics.Perplexity),
    "`TopKAccuracy`": _metric(metrics.TopKAccuracy, 12),
    "`PrecisionAtK`": _metric(metrics.PrecisionAtK, 5),
    "`RecallAtK`": _metric(metrics.RecallAtK, 12),
    "`NDCGAtK`": _metric(metrics.NDCGAtK, 12),
    "`MeanReciprocalRank`": _metric(metrics.MeanReciprocalRank),
    "`PropensityScoredPrecisionAtK`": _metric(
        metrics.PropensityScoredPrecisionAtK,
        np.full(NUM_CLASSES, 5),
        400,
        12,
    ),
    "answers in functional models": functional_answers,
    "saving": saving,
    "`grow`": growth,
    "`prune`": pruning,
    "`regroup`": regrouping,
    "`tf_hsm.serving.export`": export,
    "`tf_hsm.estimate`": estimate,
}
