"""AdaptiveSoftmax against PyTorch's AdaptiveLogSoftmaxWithLoss."""

import builtins

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_hsm import Tree
from tf_hsm.layers import AdaptiveSoftmax

torch = pytest.importorskip("torch")

WIDTH, NUM_CLASSES, CUTOFFS = 20, 50, [7, 15, 31]


def make_module(div_value=2.0, head_bias=True, cutoffs=CUTOFFS):
    torch.manual_seed(0)
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(
        WIDTH, NUM_CLASSES, cutoffs, div_value, head_bias
    )
    with torch.no_grad():
        for parameter in module.parameters():
            # Logits that differ, and biases other than PyTorch's zeros.
            parameter.copy_(torch.randn(parameter.shape))
    return module


def make_data(shape=(33,), seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=[*shape, WIDTH]).astype("f4")
    return inputs, rng.integers(NUM_CLASSES, size=shape)


def assert_close(actual, expected):
    if hasattr(expected, "detach"):
        expected = expected.detach().numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def gradients_of_torch(module, x, labels, upstream):
    """Losses, and gradients of inputs and parameters by name."""
    inputs = torch.tensor(x, requires_grad=True)
    # Its outputs are log-probabilities, the negative losses.
    losses = -module(inputs, torch.tensor(labels)).output
    (losses * torch.tensor(upstream)).sum().backward()
    named = {name: p.grad for name, p in module.named_parameters()}
    return losses, inputs.grad, named


@pytest.mark.parametrize("head_bias", [False, True])
@pytest.mark.parametrize(
    "div_value, cutoffs", [(4.0, [7, 15]), (2.0, CUTOFFS), (1.0, CUTOFFS)]
)
def test_from_torch(div_value, cutoffs, head_bias):
    """Losses, gradients, log-probabilities and predictions are the same."""
    module = make_module(div_value, head_bias, cutoffs)
    layer = AdaptiveSoftmax.from_torch(module, name="words")
    assert layer.name == "words" and layer.built
    x, labels = make_data()
    upstream = np.random.default_rng(1).normal(size=33).astype("f4")
    losses, dx, named = gradients_of_torch(module, x, labels, upstream)
    variables = [v.value for v in layer.weights]
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        own = layer(inputs, labels)
        total = tf.reduce_sum(upstream * own)
    gradients = tape.gradient(total, [inputs, *variables])
    assert_close(own, losses)
    assert_close(gradients[0], dx)
    by_id = {
        id(v): tf.convert_to_tensor(g)
        for v, g in zip(variables, gradients[1:], strict=True)
    }
    assert_close(by_id[id(layer.head_kernel.value)], named["head.weight"])
    assert (layer.head_bias is not None) == head_bias
    if head_bias:
        assert_close(by_id[id(layer.head_bias.value)], named["head.bias"])
    for j, projection in enumerate(layer.projections):
        kernel = by_id[id(layer.tail_kernels[j].value)]
        assert layer.tail_biases[j] is None
        assert (projection is None) == (div_value == 1)
        if projection is not None:
            assert_close(kernel, named[f"tail.{j}.1.weight"])
            gradient = tf.transpose(by_id[id(projection.value)])
            assert_close(gradient, named[f"tail.{j}.0.weight"])
        else:
            # The product of the two matrices is one here.
            first = module.tail[j][0].weight.detach().numpy()
            expected = kernel.numpy() @ first.T
            assert_close(expected, named[f"tail.{j}.1.weight"])
    tensor = torch.tensor(x)
    assert_close(layer.log_probs(x), module.log_prob(tensor))
    np.testing.assert_array_equal(
        layer.predict_class(x), module.predict(tensor).numpy()
    )
    np.testing.assert_array_equal(
        layer.top_k(x, 9).classes,
        torch.topk(module.log_prob(tensor), 9).indices.numpy(),
    )


@pytest.mark.parametrize("use_bias", [False, "head"])
@pytest.mark.parametrize("div_value", [3.0, 2.0, 1.0])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_to_torch(div_value, use_bias, dtype):
    """A module with the same losses, log-probabilities and gradients."""
    cutoffs = CUTOFFS if div_value < 3 else CUTOFFS[:2]
    layer = AdaptiveSoftmax(
        NUM_CLASSES,
        cutoffs=cutoffs,
        div_value=div_value,
        use_bias=use_bias,
        dtype=dtype,
        kernel_initializer="random_normal",
        bias_initializer="random_normal",
    )
    layer.build([None, WIDTH])
    module = layer.to_torch()
    assert module.cutoffs == [*cutoffs, NUM_CLASSES]
    assert {p.dtype for p in module.parameters()} == {getattr(torch, dtype)}
    module = module.float()
    x, labels = make_data()
    # What a layer of bfloat16 sees, PyTorch sees too.
    x = tf.cast(tf.cast(x, dtype), "float32").numpy()
    output = module(torch.tensor(x), torch.tensor(labels))
    assert_close(-layer(x, labels).numpy(), output.output)
    assert_close(layer.log_probs(x), module.log_prob(torch.tensor(x)))
    output.loss.backward()
    assert all(p.grad is not None for p in module.parameters())
    back = AdaptiveSoftmax.from_torch(module)
    assert_close(back(x, labels), -output.output)


def test_rows_of_a_tail_in_another_order():
    """PyTorch's rows are in the order of the classes."""
    order = np.random.default_rng(0).permutation(NUM_CLASSES - 9)
    tail = Tree([0, order.size], [-1], order)
    layer = AdaptiveSoftmax(
        NUM_CLASSES, cutoffs=[9], div_value=2, tail=[tail], use_bias=False
    )
    layer.build([None, WIDTH])
    x, _ = make_data()
    log_probs = layer.to_torch().log_prob(torch.tensor(x))
    assert_close(layer.log_probs(x), log_probs)


def test_options_of_from_torch():
    """Float64 and leading dimensions; labels to ignore; a tied embedding."""
    module = make_module().double()
    layer = AdaptiveSoftmax.from_torch(
        module, dtype="float64", ignore_class=-100, width=WIDTH
    )
    x, labels = make_data((4, 5))
    x = x.astype("f8")
    labels[1] = -100
    losses = layer(x, labels).numpy()
    assert losses.dtype == np.float64 and not losses[1].any()
    kept = labels != -100
    expected = -module(torch.tensor(x[kept]), torch.tensor(labels[kept])).output
    np.testing.assert_allclose(
        losses[kept], expected.detach().numpy(), rtol=1e-12
    )
    (first, rows), c = module.tail[1], CUTOFFS[1] + 3
    vector = (rows.weight[3] @ first.weight).detach().numpy()
    np.testing.assert_allclose(layer.embed([c])[0], vector, rtol=1e-12)


TYPES = ("float64", "float32", "bfloat16", "float16")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "float64"])
def test_types(dtype, policy):
    """There and back, every weight keeps its type and its bits."""
    module = make_module().to(getattr(torch, dtype))
    keras.config.set_dtype_policy(policy)
    try:
        layer = AdaptiveSoftmax.from_torch(module)
    finally:
        keras.config.set_dtype_policy("float32")
    assert {v.dtype for v in layer.weights} == {dtype}
    is_mixed = policy == "mixed_bfloat16" and dtype == "float32"
    assert layer.compute_dtype == ("bfloat16" if is_mixed else dtype)
    back = layer.to_torch()
    for own, other in zip(module.parameters(), back.parameters(), strict=True):
        assert own.dtype == other.dtype and torch.equal(own, other)


def test_module_keeps_its_own_weights():
    module = make_module()
    layer = AdaptiveSoftmax.from_torch(module)
    kept = module.head.weight.detach().clone()
    layer.head_kernel.assign(tf.zeros_like(layer.head_kernel))
    for kernel in layer.tail_kernels:
        kernel.assign(tf.zeros_like(kernel))
    assert torch.equal(module.head.weight, kept)


@pytest.mark.parametrize(
    "name, value",
    [
        ("num_classes", 50),
        ("cutoffs", [5]),
        ("div_value", 4.0),
        ("use_bias", True),
        ("tail", "two_level"),
        ("counts", np.arange(50)),
    ],
)
def test_the_module_decides(name, value):
    with pytest.raises(ValueError, match=f"{name} is taken from the PyTorch"):
        AdaptiveSoftmax.from_torch(make_module(), **{name: value})


def test_tail_without_width():
    """PyTorch makes one, of no width, in silence."""
    module = make_module(div_value=8.0, cutoffs=[7, 15])
    with pytest.raises(ValueError, match="tail 2 has no width left"):
        AdaptiveSoftmax.from_torch(module)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"cutoffs": []}, "at least one cutoff"),
        ({"counts": np.arange(50)}, "words are not"),
        ({"tail": "two_level"}, "one here is a tree"),
        ({"use_bias": True}, "tails have no biases"),
    ],
)
def test_what_torch_has_not(options, message):
    options = {"cutoffs": [9], "use_bias": "head", "name": "words", **options}
    layer = AdaptiveSoftmax(NUM_CLASSES, **options)
    with pytest.raises(ValueError, match="words has no weights yet"):
        layer.to_torch()
    layer.build([None, WIDTH])
    with pytest.raises(ValueError, match=message):
        layer.to_torch()


def test_without_torch(monkeypatch):
    """An ImportError says what is missing."""
    find = builtins.__import__

    def find_no_torch(name, *arguments, **options):
        if name == "torch":
            raise ImportError("No module named 'torch'")
        return find(name, *arguments, **options)

    layer = AdaptiveSoftmax(NUM_CLASSES, cutoffs=[9], use_bias="head")
    layer.build([None, WIDTH])
    monkeypatch.setattr(builtins, "__import__", find_no_torch)
    with pytest.raises(ImportError, match="PyTorch, which is not installed"):
        layer.to_torch()
