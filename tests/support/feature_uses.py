"""Uses of heads: each is tried, and must have an effect.

See `feature_options` for what a feature is.
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
    NUM_CLASSES,
    TREE,
    WIDTH,
    built,
    inputs,
    label_sets,
    labels,
)
from tf_hsm import metrics, serving

NEW = 3


def symbol(name):
    """The input of a model that is a head alone."""
    given = inputs(name)
    return keras.Input(given.shape[1:], dtype=given.dtype.name, name="inputs")


def model_of(name, head, **compiling):
    """A compiled model that is a head alone."""
    given = symbol(name)
    model = keras.Model(given, head(given))
    optimizer = tf_hsm.optimizers.SGD(0.5)
    model.compile(optimizer, head.loss, run_eagerly=True, **compiling)
    return model


def evaluate(name, make_metric, given, **options):
    """A head, and what a metric says of it.

    Args:
      name: the name of the head.
      make_metric: a function that takes the head and returns the metric.
      given: labels.
      **options: keywords of the head.
    """
    head = built(name, **options)
    metric = make_metric(head)
    model = model_of(name, head, weighted_metrics=[metric])
    logs = model.evaluate(inputs(name), given, BATCH, 0, return_dict=True)
    return head, logs[metric.name]


def _assert_learns(head, name, fit):
    """Asserts that training lowers the loss of a head."""
    losses = []
    for _ in range(2):
        losses.append(np.mean(head(inputs(name), labels(name))))
        fit()
    assert losses[1] < losses[0] - 0.01


def compiled_loss(name):
    """`fit` minimizes the loss that `compile` was given."""
    head = built(name)
    model = model_of(name, head)

    def fit():
        model.fit(inputs(name), labels(name), BATCH, epochs=3, verbose=0)

    _assert_learns(head, name, fit)


def endpoint(name):
    """`fit` minimizes the loss of a model whose labels are an input."""
    head = built(name)
    given = [symbol(name), keras.Input(labels(name).shape[1:], dtype="int64")]
    model = keras.Model(given, head(*given))
    model.compile(tf_hsm.optimizers.SGD(0.5), run_eagerly=True)
    data = [inputs(name), tf.constant(labels(name))]
    _assert_learns(
        head, name, lambda: model.fit(data, None, BATCH, epochs=3, verbose=0)
    )


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


def masks(name):
    """Masked inputs have no loss, and do not count in the mean."""
    mask = np.arange(BATCH) % 3 != 1
    head = built(name)
    plain = head(inputs(name), labels(name)).numpy()
    found = head(inputs(name), labels(name), inputs_mask=tf.constant(mask))
    np.testing.assert_allclose(found, mask * plain, rtol=1e-4)
    np.testing.assert_allclose(head.losses[0], plain[mask].mean(), rtol=1e-4)


def _metric(kind, *args, of_sets=True):
    """A metric that `evaluate` returns; see `tests/metrics_ranking_test.py`."""

    def feature(name):
        given, options = labels(name), {}
        if of_sets:
            given = label_sets()
            options = {} if name == "LabelTree" else {"several_labels": True}
        head, found = evaluate(
            name, lambda head: kind(head, *args), given, **options
        )
        assert 0 < found < 1 or kind is metrics.Perplexity
        if kind is metrics.Perplexity:
            losses = head._find_losses(given, head(inputs(name)), plain=True)
            mean = np.mean(losses.losses)
            np.testing.assert_allclose(found, np.exp(mean), rtol=1e-4)

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
    """A file of Keras has the head, its options and its weights."""
    head = built(name, ignore_class=5)
    model = model_of(name, head)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
    copy = loaded.layers[-1]
    assert copy is not head and copy.ignore_class == 5
    np.testing.assert_array_equal(
        copy.log_probs(inputs(name)), head.log_probs(inputs(name))
    )


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


FEATURES = {
    "`compile(loss=head.loss)`": compiled_loss,
    "endpoint: `head(inputs, labels)`": endpoint,
    "inputs `[batch, time, width]`": sequences,
    "masks": masks,
    "`Perplexity`": _metric(metrics.Perplexity, of_sets=False),
    "`TopKAccuracy`": _metric(metrics.TopKAccuracy, 12, of_sets=False),
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
