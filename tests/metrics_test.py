"""Perplexity: the exponential of the mean loss over uneven batches."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import (
    compile_form,
    endpoint_form,
    make_data,
    train_graph,
)
from tf_hsm.metrics import Perplexity


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
    tokens, labels = make_data()
    labels[:9, 0] = -1
    compiling = {"metrics": [Perplexity()]}
    reference = endpoint_form(ignore_class=-1)
    losses = reference.predict([tokens, labels], verbose=0)
    mean = losses.sum() / ((tokens != 0) & (labels != -1)).sum()
    if form == "compile":
        model, x = compile_form(ignore_class=-1), tokens
        y = labels
    else:
        model = endpoint_form(ignore_class=-1, compiling=compiling)
        x, y = [tokens, labels], None
    model.set_weights(reference.get_weights())
    for batch_size in (8, 22, 5):
        _, perplexity = model.evaluate(x, y, batch_size=batch_size, verbose=0)
        np.testing.assert_allclose(perplexity, np.exp(mean), rtol=1e-5)


def test_weighted_metrics():
    """Keras passes sample weights to `weighted_metrics` alone."""
    tokens, labels = make_data()
    model = compile_form(
        compiling={
            "metrics": [Perplexity(name="plain")],
            "weighted_metrics": [Perplexity(name="weighted")],
        }
    )
    weights = np.arange(len(tokens), dtype="f4")
    logs = model.evaluate(
        tokens, labels, sample_weight=weights, verbose=0, return_dict=True
    )
    one_by_one = [
        model.evaluate(tokens[i : i + 1], labels[i : i + 1], verbose=0)[0]
        for i in range(len(tokens))
    ]
    counts = np.count_nonzero(tokens, axis=1)
    for name, by in (("plain", counts), ("weighted", counts * weights)):
        expected = np.exp(np.average(one_by_one, weights=by))
        np.testing.assert_allclose(logs[name], expected, rtol=1e-5)


@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_loss_is_computed_once_a_step(form):
    """The metric takes the losses that the training loss has made."""
    tokens, labels = make_data()
    if form == "compile":
        graph = train_graph(compile_form(), tokens, labels)
    else:
        model = endpoint_form(compiling={"metrics": [Perplexity()]})
        graph = train_graph(model, [tokens, labels], labels)
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
    tokens, labels = make_data()
    model = compile_form(compiling={"run_eagerly": eager})
    before = model.evaluate(tokens, labels, batch_size=22, verbose=0)[1]
    logs = model.train_on_batch(tokens, labels, return_dict=True)
    np.testing.assert_allclose(logs["perplexity"], before, rtol=1e-5)


def test_alone():
    """Without a loss in the same step, the metric computes the losses."""
    tokens, labels = make_data()
    model = compile_form()
    metric = Perplexity(model.layers[-1], name="ppl")
    metric.update_state(labels, model(tokens))
    expected = model.evaluate(tokens, labels, batch_size=22, verbose=0)[1]
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-5)
    assert tf_hsm.metrics.Perplexity.from_config(metric.get_config())
