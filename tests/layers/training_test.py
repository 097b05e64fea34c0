"""HierarchicalSoftmax in training, against NumPy and Keras' full softmax."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import models, oracle
from tf_hsm.heads.tree_head import TreeHead


def numpy_training(weights, tokens, labels, sample_weight, ignore_class):
    """Two epochs of batches of 8, as `train` does, written out in NumPy.

    Returns the mean losses of the epochs and the weights.
    """
    embeddings, w, b, kernel, bias = (a.astype(float) for a in weights)
    epochs = []
    for start in 2 * list(range(0, len(tokens), 8)):
        batch = slice(start, start + 8)
        x, y = tokens[batch], labels[batch].ravel()
        counts = (x.ravel() != 0) & (y != ignore_class)
        embedded = embeddings[x].reshape(-1, models.WIDTH)
        hidden = np.tanh(embedded @ w + b)
        upstream = sample_weight[batch].ravel() * counts / counts.sum()
        problem = oracle.Problem(hidden, y, kernel, bias, upstream)
        value, _ = oracle.hierarchical_softmax(
            models.TREE, problem, ignore_class
        )
        epochs.append((len(x), value.loss @ upstream))
        dz = value.dx * (1 - hidden**2)
        np.subtract.at(embeddings, x.ravel(), dz @ w.T)
        w -= embedded.T @ dz
        b -= dz.sum(0)
        kernel -= value.dw
        bias -= value.db
    losses = np.array(epochs).reshape(2, -1, 2)
    means = (losses[..., 0] * losses[..., 1]).sum(1) / len(tokens)
    return means, [embeddings, w, b, kernel, bias]


@pytest.mark.parametrize(
    "ignore_class, weighted, eager",
    [(None, False, True), (4, True, False), (-1, False, True)],
)
def test_both_forms_train_as_the_oracle(ignore_class, weighted, eager):
    """Masked and ignored labels count neither in the sum nor in the mean."""
    tokens, labels = models.make_data()
    if ignore_class == -1:
        labels[:, 1] = -1
    rng = np.random.default_rng(1)
    weights = rng.uniform(size=tokens.shape).astype("f4")
    given = weights if weighted else None

    fitted = models.compile_form(ignore_class=ignore_class)
    endpoint = models.endpoint_form(
        ignore_class=ignore_class, weighted=weighted
    )
    endpoint.set_weights(fitted.get_weights())
    fitted.run_eagerly = endpoint.run_eagerly = eager
    means, expected = numpy_training(
        fitted.get_weights(),
        tokens,
        labels,
        weights if weighted else np.ones(tokens.shape),
        ignore_class,
    )
    inputs = [tokens, labels, weights] if weighted else [tokens, labels]
    losses = models.train(fitted, tokens, labels, sample_weight=given)
    np.testing.assert_allclose(losses, means, rtol=1e-5)
    np.testing.assert_allclose(models.train(endpoint, inputs), means, rtol=1e-5)
    for model in (fitted, endpoint):
        for mine, its in zip(model.get_weights(), expected, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "form, eager", [("compile", False), ("compile", True), ("endpoint", False)]
)
def test_labels_stay_exact_integers(form, eager, monkeypatch):
    """Keras' own losses cast y_true to float32, exact only to 2^24."""
    label = 2**53 + 1
    seen = []

    def spy(head, batch):
        labels = batch.labels
        seen.append(labels.dtype)
        counted = tf.reduce_all(labels[..., tf.newaxis] != batch.ignored, -1)
        tf.debugging.assert_equal(labels[counted], tf.constant(label, tf.int64))
        return tf.reduce_sum(batch.inputs * head.weights[0], -1)

    monkeypatch.setattr(TreeHead, "losses", spy)
    tokens, labels = models.make_data()
    labels = np.full_like(labels, label)
    compiling = {"run_eagerly": eager}
    if form == "compile":
        model = models.compile_form(compiling=compiling, use_bias=False)
        models.train(model, tokens, labels, epochs=1)
    else:
        model = models.endpoint_form(compiling=compiling, use_bias=False)
        models.train(model, [tokens, labels], epochs=1)
    assert set(seen) == {tf.int64}


@pytest.mark.parametrize(
    "form, policy, variable, loss, eager",
    [
        ("compile", "mixed_bfloat16", "float32", "float32", False),
        ("endpoint", "mixed_float16", "float32", "float32", False),
        ("endpoint", "bfloat16", "bfloat16", "float32", True),
        ("compile", "float64", "float64", "float64", True),
    ],
)
def test_policies(form, policy, variable, loss, eager):
    """The kernel has the variables' type; losses are float32 at least."""
    tokens, labels = models.make_data()
    options = {"dtype": policy, "compiling": {"run_eagerly": eager}}
    if form == "compile":
        model, x, y = models.compile_form(**options), tokens, labels
    else:
        model, x, y = models.endpoint_form(**options), [tokens, labels], None
        assert model.output.dtype == loss
        assert model.predict(x, verbose=0).dtype == loss
    head = models.head_of(model)
    assert head.kernel.dtype == head.bias.dtype == variable
    losses = models.train(model, x, y)
    assert losses[-1] < losses[0]
    inputs = np.ones([2, models.WIDTH])
    assert head(inputs).dtype == head.compute_dtype
    assert head(inputs, np.array([1, 2])).dtype == loss


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_kernel_is_neither_cast_nor_copied(policy):
    """Nothing but the loss, its gradient and the update touch the kernel."""
    tokens, labels = models.make_data()
    model = models.compile_form(dtype=policy, compiling={"metrics": []})
    graph = models.train_graph(model, tokens, labels)
    kernel = models.head_of(model).kernel.value
    handle = next(i for outer, i in graph.captures if outer is kernel.handle)
    assert sorted(op.type for op in handle.consumers()) == [
        "ResourceScatterSub",
        "ResourceTfHsmLoss",
        "ResourceTfHsmLossGrad",
    ]


def test_gradient_accumulation():
    """Two batches of 11 make the update of one of 22, all labels counting."""
    _, labels = models.make_data()
    tokens = labels + 0
    tokens[tokens == 0] = 1
    whole = models.compile_form(compiling={"run_eagerly": True})
    halves = models.compile_form(
        optimizer=models.sgd(gradient_accumulation_steps=2)
    )
    halves.set_weights(whole.get_weights())
    models.train(whole, tokens, labels, batch_size=22)
    models.train(halves, tokens, labels, batch_size=11)
    models.assert_same_weights(halves, whole)


def test_xla_stays_off():
    """It has no such op; Keras would turn it on where there is a GPU."""
    assert not models.compile_form().jit_compile
    with pytest.warns(UserWarning, match="doesn't support `jit_compile"):
        model = models.compile_form(compiling={"jit_compile": True})
    models.train(model, *models.make_data(), epochs=1)
