"""The metrics, over uneven batches; and those of Keras, which are refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import models
from tests.support.in_place_models import arguments, make_model
from tests.support.pairs import all_pairs
from tf_hsm.metrics import Perplexity, TopKAccuracy


def test_of_losses():
    """Losses in nats, weights and a mask, in batches of several sizes."""
    metric = Perplexity(None)
    assert float(metric.result()) == 1
    for losses, weights, mask in [
        ([1.0, 2.0, 6.0], None, [True, True, False]),
        ([3.0], [2.0], None),
        ([5.0, 9.0], [[1.0], [0.0]], [True, True]),
        # One weight for a sequence is one for each of its losses.
        ([[1.0, 2.0], [3.0, 5.0]], [[1.0], [0.0]], None),
    ]:
        losses = tf.constant(losses)
        if mask:
            losses._keras_mask = tf.constant(mask)
        metric.update_state(None, losses, weights)
    mean = (1 + 2 + 2 * 3 + 5 + 1 + 2) / (1 + 1 + 2 + 1 + 1 + 1)
    np.testing.assert_allclose(metric.result(), np.exp(mean), rtol=1e-6)
    metric.reset_state()
    assert float(metric.result()) == 1


@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_mean_over_uneven_batches(form):
    """Each label counts the same, whatever the batch that it is in."""
    tokens, labels = models.make_data()
    labels[:9, 0] = -1
    reference = models.endpoint_form(ignore_class=-1)
    losses = reference([tokens, labels]).numpy()
    mean = losses.sum() / ((tokens != 0) & (labels != -1)).sum()
    compiling = {} if form == "compile" else {"metrics": [Perplexity(None)]}
    model = make_model(form, own=False, compiling=compiling, ignore_class=-1)
    model.set_weights(reference.get_weights())
    data = arguments(form, tokens, labels)
    for batch_size in (8, 5):
        _, perplexity = model.evaluate(**data, batch_size=batch_size, verbose=0)
        np.testing.assert_allclose(perplexity, np.exp(mean), rtol=1e-5)


def ops_of_a_step(model, x, y):
    """The types of the package's ops in a training step, sorted."""
    graph = models.train_graph(model, x, y)
    types = [op.type for op in graph.get_operations()]
    types += [
        node.op
        for function in graph.as_graph_def().library.function
        for node in function.node_def
    ]
    return sorted(t for t in types if "TfHsm" in t)


def test_losses_in_a_step():
    """`Perplexity(head)` computes a second loss, `Perplexity(None)` none."""
    tokens, labels = models.make_data()
    once = ["ResourceTfHsmLoss", "ResourceTfHsmLossGrad"]
    model = models.compile_form(compiling={"metrics": []})
    assert ops_of_a_step(model, tokens, labels) == once
    model = models.compile_form()
    assert ops_of_a_step(model, tokens, labels) == once[:1] + once
    model = models.endpoint_form(compiling={"metrics": [Perplexity(None)]})
    assert ops_of_a_step(model, [tokens, labels], labels) == once


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
    compiling = {kind: [metric], "run_eagerly": eager}
    model = make_model(form, own=False, compiling=compiling)
    data = arguments(form, tokens, labels)
    before = model.get_weights()
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"TopKAccuracy\(head, 1"):
            call(**data, verbose=0)
    for now, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, old)


def test_metrics_of_an_earlier_compile():
    """Keras keeps them where `compile` is given none."""
    tokens, labels = models.make_data(4)
    eager = {"run_eagerly": True}
    model = models.compile_form(compiling={"metrics": ["accuracy"], **eager})
    head = models.head_of(model)
    for metrics in (None, [TopKAccuracy(head, 1), "accuracy"]):
        model.compile(models.sgd(), model.loss, metrics=metrics, **eager)
        with pytest.raises(ValueError, match=r"metrics=\[\] drops"):
            model.fit(tokens, labels, verbose=0)
    model.compile(models.sgd(), model.loss, metrics=[], **eager)
    model.fit(tokens, labels, verbose=0)


def test_metrics_of_a_users():
    """They may take losses, or hidden vectors to ask the head for losses."""

    def bits(labels, losses):
        del labels
        return losses / np.log(2)

    def bits_of_hidden(labels, hidden):
        return bits(labels, head.label_losses(labels, hidden))

    tokens, labels = models.make_data(4)
    model = models.endpoint_form(mask_zero=False, compiling={"metrics": [bits]})
    model.evaluate([tokens, labels], labels, verbose=0)
    model = models.compile_form(
        mask_zero=False, compiling={"metrics": [bits_of_hidden]}
    )
    head = models.head_of(model)
    loss, found = model.evaluate(tokens, labels, verbose=0)
    np.testing.assert_allclose(found, loss / np.log(2), rtol=1e-5)
