"""The metrics, over uneven batches; and those of Keras, which are refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import models
from tests.support.pairs import all_pairs
from tf_hsm.metrics import Perplexity, TopKAccuracy


def test_of_losses():
    """Losses in nats, weights and a mask, in batches of several sizes."""
    metric = Perplexity()
    assert float(metric.result()) == 1
    for losses, weights, mask in [
        ([1.0, 2.0, 6.0], None, [True, True, False]),
        ([3.0], [2.0], None),
        ([5.0, 9.0], [[1.0], [0.0]], [True, True]),
    ]:
        losses = tf.constant(losses)
        if mask:
            losses._keras_mask = tf.constant(mask)
        metric.update_state(None, losses, weights)
    mean = (1 + 2 + 2 * 3 + 5) / (1 + 1 + 2 + 1)
    np.testing.assert_allclose(metric.result(), np.exp(mean), rtol=1e-6)
    metric.reset_state()
    assert float(metric.result()) == 1


def test_sample_weight_broadcasts_from_the_left():
    """One weight for a sequence is one for each of its labels."""
    metric = Perplexity()
    metric.update_state(None, np.array([[1.0, 2.0], [3.0, 5.0]]), [1.0, 0.0])
    np.testing.assert_allclose(metric.result(), np.exp(1.5), rtol=1e-6)


def test_scores_are_refused():
    """The outputs of another model's softmax are no losses."""
    with pytest.raises(ValueError, match=r"\(4, 30\), is neither .* \(4,\)"):
        Perplexity().update_state(np.zeros(4, int), np.zeros([4, 30]))


@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_mean_over_uneven_batches(form):
    """Each label counts the same, whatever the batch that it is in."""
    tokens, labels = models.make_data()
    labels[:9, 0] = -1
    compiling = {"metrics": [Perplexity()]}
    reference = models.endpoint_form(ignore_class=-1)
    losses = reference([tokens, labels]).numpy()
    mean = losses.sum() / ((tokens != 0) & (labels != -1)).sum()
    if form == "compile":
        model, x = models.compile_form(ignore_class=-1), tokens
        y = labels
    else:
        model = models.endpoint_form(ignore_class=-1, compiling=compiling)
        x, y = [tokens, labels], None
    model.set_weights(reference.get_weights())
    for batch_size in (8, 5):
        _, perplexity = model.evaluate(x, y, batch_size=batch_size, verbose=0)
        np.testing.assert_allclose(perplexity, np.exp(mean), rtol=1e-5)


def test_weighted_metrics():
    """Keras passes sample weights to `weighted_metrics` alone."""
    tokens, labels = models.make_data()
    model = models.compile_form(
        compiling={
            "metrics": [Perplexity(name="plain")],
            "weighted_metrics": [Perplexity(name="weighted")],
            "run_eagerly": True,
        }
    )
    weights = np.arange(len(tokens), dtype="f4")
    logs = model.evaluate(
        tokens, labels, sample_weight=weights, verbose=0, return_dict=True
    )
    hidden = models.hidden_model(model)(tokens)
    losses = models.head_of(model)(hidden, labels)
    counts = np.where(tokens, 1.0, 0.0)
    for name, by in (
        ("plain", counts),
        ("weighted", counts * weights[:, np.newaxis]),
    ):
        expected = np.exp(np.average(losses, weights=by))
        np.testing.assert_allclose(logs[name], expected, rtol=1e-5)


@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_loss_is_computed_once_a_step(form):
    """The metric takes the losses that the training loss has made."""
    tokens, labels = models.make_data()
    if form == "compile":
        graph = models.train_graph(models.compile_form(), tokens, labels)
    else:
        model = models.endpoint_form(compiling={"metrics": [Perplexity()]})
        graph = models.train_graph(model, [tokens, labels], labels)
    types = [op.type for op in graph.get_operations()]
    types += [
        node.op
        for function in graph.as_graph_def().library.function
        for node in function.node_def
    ]
    ours = sorted(t for t in types if "TfHsm" in t)
    assert ours == ["ResourceTfHsmLoss", "ResourceTfHsmLossGrad"]


@pytest.mark.parametrize("eager", [False, True])
def test_loss_before_the_update(eager):
    """Keras updates metrics after the weights; the losses are from before."""
    tokens, labels = models.make_data()
    model = models.compile_form(compiling={"run_eagerly": eager})
    before = model.evaluate(tokens, labels, batch_size=22, verbose=0)[1]
    logs = model.train_on_batch(tokens, labels, return_dict=True)
    np.testing.assert_allclose(logs["perplexity"], before, rtol=1e-5)


def test_alone():
    """Without a loss in the same step, the metric computes the losses."""
    tokens, labels = models.make_data()
    model = models.compile_form(compiling={"run_eagerly": True})
    metric = Perplexity(name="ppl")
    metric.update_state(labels, model(tokens))
    expected = model.evaluate(tokens, labels, batch_size=22, verbose=0)[1]
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-5)
    assert tf_hsm.metrics.Perplexity.from_config(metric.get_config())


@pytest.mark.parametrize(
    "metric, form, kind, eager",
    all_pairs(
        [
            "accuracy",
            "sparse_categorical_accuracy",
            keras.metrics.SparseTopKCategoricalAccuracy(),
            keras.metrics.sparse_categorical_accuracy,
        ],
        ["compile", "endpoint"],
        ["metrics", "weighted_metrics"],
        [False, True],
    ),
)
def test_metrics_of_keras(metric, form, kind, eager):
    """They would compare labels with hidden units, or with losses."""
    tokens, labels = models.make_data(4)
    x = tokens if form == "compile" else [tokens, labels]
    make = {"compile": models.compile_form, "endpoint": models.endpoint_form}[
        form
    ]
    model = make(compiling={kind: [metric], "run_eagerly": eager})
    before = model.get_weights()
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"TopKAccuracy\(1\)"):
            call(x, labels, verbose=0)
    for now, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, old)
    if form == "compile" and eager:
        assert len(model.predict(x, verbose=0)) == 4


def test_metrics_of_an_earlier_compile():
    """Keras keeps them where `compile` is given none."""
    tokens, labels = models.make_data(4)
    model = models.compile_form(compiling={"metrics": ["accuracy"]})
    for metrics, match in (
        (None, r", or metrics=\[\]: Keras keeps"),
        ([TopKAccuracy(1), "accuracy"], r"TopKAccuracy\(1\)\](?!,)"),
    ):
        model.compile(models.sgd(), model.loss, metrics=metrics)
        with pytest.raises(ValueError, match=match):
            model.fit(tokens, labels, verbose=0)
    model.compile(models.sgd(), model.loss, metrics=[])
    model.fit(tokens, labels, verbose=0)


def test_metrics_of_a_users():
    """They may take losses, but not what `fit` has for a head's output."""

    def bits(labels, losses):
        del labels
        return losses / np.log(2)

    tokens, labels = models.make_data(4)
    model = models.endpoint_form(compiling={"metrics": [bits]})
    model.evaluate([tokens, labels], labels, verbose=0)
    model = models.compile_form(compiling={"metrics": [bits]})
    with pytest.raises(ValueError, match="'bits'"):
        model.fit(tokens, labels, verbose=0)


def test_metrics_of_other_outputs():
    """They are none of the head's business."""
    x = np.ones([8, 5], "f4")
    for wrong in (False, True):
        head = models.make_head(name="head")
        inputs = keras.Input([5])
        hidden = keras.layers.Dense(models.WIDTH)(inputs)
        value = keras.layers.Dense(1, name="value")(hidden)
        model = keras.Model(inputs, {"head": head(hidden), "value": value})
        metrics = {"head": [TopKAccuracy(1)], "value": ["mae"]}
        if wrong:
            metrics["head"].append("accuracy")
        model.compile(
            models.sgd(),
            loss={"head": head.loss, "value": "mse"},
            metrics=metrics,
        )
        y = {"head": np.arange(8), "value": np.ones(8)}
        if wrong:
            with pytest.raises(ValueError, match="'accuracy'"):
                model.fit(x, y, verbose=0)
        else:
            assert "value_mae" in model.fit(x, y, verbose=0).history


def test_accuracy_of_both_forms():
    """The share of labels that are the most probable class."""
    tokens, labels = models.make_data()
    labels[:9, 0] = -1
    fitted = models.compile_form(
        ignore_class=-1, compiling={"metrics": [TopKAccuracy(1)]}
    )
    endpoint = models.endpoint_form(
        ignore_class=-1, compiling={"metrics": [TopKAccuracy(1)]}
    )
    endpoint.set_weights(fitted.get_weights())
    hits = fitted(tokens).numpy() == labels
    expected = hits[(tokens != 0) & (labels != -1)].mean()
    for model, data in (
        (fitted, (tokens, labels)),
        (endpoint, ([tokens, labels],)),
    ):
        options = {"batch_size": 8, "verbose": 0}
        _, accuracy = model.evaluate(*data, **options)
        np.testing.assert_allclose(accuracy, expected, rtol=1e-6)
