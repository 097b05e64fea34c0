"""What a trained head answers, in a model and by itself."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    TREE,
    WIDTH,
    compile_form,
    evaluated_ops,
    head_of,
    hidden_model,
    make_data,
    make_head,
    sgd,
    train,
)
from tf_hsm.metrics import TopKAccuracy


@pytest.mark.parametrize("use_bias", [False, True])
def test_methods_are_the_functions(use_bias):
    """They pass the layer's parameters, and all their arguments, on."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=[3, STEPS, WIDTH]).astype("f4")
    classes = rng.integers(NUM_CLASSES, size=[3, STEPS, 4])
    head = make_head(use_bias=use_bias, bias_initializer="random_normal")
    head.build(x.shape)
    own = (head.kernel, head.bias)
    for nodes in (False, True):
        np.testing.assert_array_equal(
            head.log_probs(x, nodes=nodes),
            tf_hsm.hierarchical_softmax_log_probs(*own, x, TREE, nodes=nodes),
        )
    np.testing.assert_array_equal(
        head.log_prob(classes, x),
        tf_hsm.hierarchical_softmax_log_prob(*own, classes, x, TREE),
    )
    options = {"beam_width": 2, "return_pruned": True}
    for mine, theirs in zip(
        head.top_k(x, 3, **options),
        tf_hsm.hierarchical_softmax_top_k(*own, x, TREE, 3, **options),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
    options = {"seed": 3, "temperature": 2.0, "top_k": 9, "top_p": 0.8}
    np.testing.assert_array_equal(
        head.sample(x, 7, **options),
        tf_hsm.hierarchical_softmax_sample(*own, x, TREE, 7, **options),
    )
    np.testing.assert_array_equal(head(x), np.argmax(head.log_probs(x), -1))


def test_without_weights():
    with pytest.raises(ValueError, match="words has no weights yet"):
        make_head(name="words").top_k(np.zeros([2, WIDTH]), 1)


def test_evaluate_looks_for_no_class():
    """TensorFlow leaves the search out where nobody asks for its result."""
    tokens, labels = make_data()
    model = compile_form()
    model.evaluate(tokens, labels, verbose=0)
    types = evaluated_ops(model, tokens, labels)
    assert "ResourceTfHsmLoss" in types and "ResourceTfHsmTopK" not in types


def test_predict_answers_after_training():
    """A model that has learned its labels predicts them."""
    tokens, labels = make_data()
    model = compile_form(optimizer=keras.optimizers.Adam(0.05), mask_zero=False)
    labels = tokens * 7 % NUM_CLASSES
    train(model, tokens, labels, epochs=40)
    predicted = model.predict(tokens, verbose=0)
    assert predicted.shape == tokens.shape and predicted.dtype == np.int64
    assert np.mean(predicted == labels) > 0.95


@pytest.mark.parametrize("k", [1, 4, NUM_CLASSES + 5])
def test_top_k_accuracy(k):
    """Masked and ignored labels do not count; weights do."""
    tokens, labels = make_data()
    labels[:9, 0] = -1
    weights = np.random.default_rng(0).random(len(tokens)).astype("f4")
    model = compile_form(
        ignore_class=-1,
        compiling={
            "metrics": [TopKAccuracy(k)],
            "weighted_metrics": [TopKAccuracy(k, name="weighted")],
        },
    )
    logs = model.evaluate(
        tokens,
        labels,
        sample_weight=weights,
        batch_size=8,
        verbose=0,
        return_dict=True,
    )
    hidden = hidden_model(model).predict(tokens, verbose=0)
    log_probs = head_of(model).log_probs(hidden).numpy()
    own = np.take_along_axis(log_probs, np.maximum(labels, 0)[..., None], -1)
    hits = np.sum(log_probs > own, -1) < k
    counts = ((tokens != 0) & (labels != -1)).astype("f4")
    name = f"top_{k}_accuracy"
    np.testing.assert_allclose(
        logs[name], np.average(hits, weights=counts), rtol=1e-6
    )
    counts *= weights[:, np.newaxis]
    np.testing.assert_allclose(
        logs["weighted"], np.average(hits, weights=counts), rtol=1e-6
    )


def test_top_k_accuracy_by_itself():
    """It starts anew after a reset, and is rebuilt from its config."""
    metric = TopKAccuracy.from_config(TopKAccuracy(2).get_config())
    assert (metric.k, metric.name) == (2, "top_2_accuracy")
    assert float(metric.result()) == 0
    head = make_head()
    x = np.random.default_rng(0).normal(size=[6, WIDTH]).astype("f4")
    outputs = head(x)
    metric.update_state(outputs[:, np.newaxis], outputs)
    assert float(metric.result()) == 1
    metric.reset_state()
    metric.update_state((outputs.numpy() + 1) % NUM_CLASSES, outputs)
    assert float(metric.result()) < 1
    with pytest.raises(ValueError, match="k = 0 is below 1"):
        TopKAccuracy(0)
    with pytest.raises(ValueError, match="does not come from a tf_hsm head"):
        metric.update_state(np.zeros(6, int), x)


def test_training_through_log_probs():
    """The gradient of a loss on all log-probabilities trains the head."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=[20, WIDTH]).astype("f4")
    target = rng.dirichlet(np.ones(NUM_CLASSES), size=20).astype("f4")
    head = make_head(kernel_initializer="zeros")
    head.build(x.shape)
    optimizer = sgd()
    losses = []
    for _ in range(30):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(
                tf.reduce_sum(target * head.log_probs(x), -1)
            )
        optimizer.apply_gradients(
            [
                (gradient, variable.value)
                for gradient, variable in zip(
                    tape.gradient(loss, [v.value for v in head.weights]),
                    head.weights,
                    strict=True,
                )
            ]
        )
        losses.append(float(loss))
    assert losses[-1] < losses[0] - 0.1
