"""HierarchicalSoftmax in training: types, graphs, compilers."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import models
from tests.support.in_place_models import arguments, fit, make_model
from tf_hsm.heads.tree_head import TreeHead


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
    model = make_model(form, own=False, compiling=compiling, use_bias=False)
    fit(model, arguments(form, tokens, labels), epochs=1)
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
    compiling, data = (
        {"run_eagerly": eager},
        arguments(form, *models.make_data()),
    )
    model = make_model(form, own=False, compiling=compiling, dtype=policy)
    if form == "endpoint":
        assert model.output.dtype == loss
        assert model.predict(data["x"], verbose=0).dtype == loss
    head = models.head_of(model)
    assert head.kernel.dtype == head.bias.dtype == variable
    losses = fit(model, data)
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


def test_xla_stays_off():
    """It has no such op; Keras would turn it on where there is a GPU."""
    assert not models.compile_form().jit_compile
    with pytest.warns(UserWarning, match="doesn't support `jit_compile"):
        model = models.compile_form(compiling={"jit_compile": True})
    models.train(model, *models.make_data(), epochs=1)
