"""The losses of PyTorch that the GPU benchmark compares."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
losses = pytest.importorskip("benchmarks.gpu.losses")
LOSSES, Sizes = losses.LOSSES, losses.Sizes

SIZES = Sizes(103, 20, 13, (10, 40))
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
# Relative to the largest number of a result.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}


def make_loss(name, dtype=torch.float64, device="cpu", sizes=SIZES):
    torch.manual_seed(0)
    loss = LOSSES[name](sizes, dtype, device)
    # Logits that are far from equal.
    for parameter in loss.parameters():
        parameter.data.mul_(3 if name == "adaptive" else 20)
    return loss


def make_data(dtype=torch.float64, device="cpu"):
    """Inputs, and labels with the first and last class and repetitions."""
    rng = np.random.default_rng(0)
    inputs = torch.tensor(rng.uniform(-1, 1, [SIZES.batch, SIZES.width]))
    labels = rng.integers(SIZES.num_classes, size=SIZES.batch)
    labels[:6] = [0, 102, 50, 3, 3, 39]
    return inputs.to(device, dtype), torch.tensor(labels, device=device)


def numbers(tensor):
    return tensor.detach().to_dense().double().cpu().numpy()


def cross_entropy(logits, label):
    """The loss, and its gradient with respect to `[K]` logits."""
    shifted = np.exp(logits - logits.max())
    probabilities = shifted / shifted.sum()
    gradient = probabilities.copy()
    gradient[label] -= 1
    return -np.log(probabilities[label]), gradient


class Oracle:
    """Losses, dx and the gradients by name, one example after another."""

    def __init__(self, parameters, inputs):
        self.values = {name: numbers(p) for name, p in parameters}
        self.grads = {n: np.zeros(v.shape) for n, v in self.values.items()}
        self.inputs = inputs
        self.losses = np.zeros(len(inputs))
        self.dx = np.zeros(inputs.shape)

    def softmax(self, b, label, weights, biases=None, at=()):
        """Adds a softmax over rows `at` of the arrays with these names."""
        w = self.values[weights][at]
        logits = w @ self.inputs[b]
        if biases:
            logits = logits + self.values[biases][at].reshape(len(w))
        loss, gradient = cross_entropy(logits, label)
        self.losses[b] += loss
        self.dx[b] += gradient @ w
        np.add.at(self.grads[weights], at, np.outer(gradient, self.inputs[b]))
        if biases:
            shape = self.values[biases][at].shape
            np.add.at(self.grads[biases], at, gradient.reshape(shape))


def full(oracle, b, label):
    oracle.softmax(b, label, "weights", "biases", slice(None))


def gather(oracle, b, label):
    groups = np.array_split(np.arange(SIZES.num_classes), 10)
    (group,) = [g for g, classes in enumerate(groups) if label in classes]
    oracle.softmax(b, group, "root", "root_biases", slice(None))
    size, width = len(groups[group]), SIZES.width
    # The group as a problem of its own, of the rows that are no padding.
    part = Oracle([], oracle.inputs)
    part.values = {
        "w": oracle.values["weights"][group].reshape(-1, width)[:size],
        "b": oracle.values["biases"][group][:size],
    }
    part.grads = {n: np.zeros(v.shape) for n, v in part.values.items()}
    part.softmax(b, label - groups[group][0], "w", "b", slice(None))
    oracle.losses[b] += part.losses[b]
    oracle.dx[b] += part.dx[b]
    flat = part.grads["w"].ravel()
    oracle.grads["weights"][group, : flat.size] += flat
    oracle.grads["biases"][group, :size] += part.grads["b"]


def adaptive(oracle, b, label):
    starts = [0, *SIZES.cutoffs]
    cluster = np.searchsorted(starts, label, side="right") - 2
    in_head = label if cluster < 0 else 10 + cluster
    oracle.softmax(b, in_head, "softmax.head.weight", at=slice(None))
    if cluster < 0:
        return
    down, up = (f"softmax.tail.{cluster}.{i}.weight" for i in (0, 1))
    projection = oracle.values[down]
    hidden = projection @ oracle.inputs[b]
    loss, gradient = cross_entropy(
        oracle.values[up] @ hidden, label - starts[cluster + 1]
    )
    back = gradient @ oracle.values[up]
    oracle.losses[b] += loss
    oracle.dx[b] += back @ projection
    oracle.grads[up] += np.outer(gradient, hidden)
    oracle.grads[down] += np.outer(back, oracle.inputs[b])


ORACLES = {
    "adaptive": adaptive,
    "gather": gather,
    "full": full,
}


def assert_close(actual, expected, tolerance):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        numbers(actual), expected, rtol=0, atol=tolerance * scale
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients(name, dtype, device):
    loss = make_loss(name, dtype, device)
    inputs, labels = make_data(dtype, device)
    oracle = Oracle(loss.named_parameters(), numbers(inputs))
    for b, label in enumerate(labels.tolist()):
        ORACLES[name](oracle, b, label)
    assert np.ptp(oracle.losses) > 1
    tolerance = TOLERANCES[dtype]
    with torch.no_grad():
        assert_close(loss(inputs, labels), oracle.losses, tolerance)
    losses, dx = loss.step(inputs, labels)
    assert_close(losses, oracle.losses, tolerance)
    assert_close(dx, oracle.dx, tolerance)
    sparse = {n for n, p in loss.named_parameters() if p.grad.is_sparse}
    for key, parameter in loss.named_parameters():
        assert parameter.grad.dtype == dtype
        assert_close(parameter.grad, oracle.grads[key], tolerance)
    # As README.md says.
    rows = {"weights", "biases"}
    assert sparse == (rows if name == "gather" else set())


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_chunks_add_up(name):
    inputs, labels = make_data()
    whole, parts = make_loss(name), make_loss(name)
    _, dx = whole.step(inputs, labels)
    halves = zip(inputs.split(8), labels.split(8), strict=True)
    dxs = [parts.step(*half)[1] for half in halves]
    assert_close(torch.cat(dxs), numbers(dx), 1e-12)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert_close(other.grad, numbers(one.grad), 1e-12)


@pytest.mark.parametrize("num_classes", [7, 1_000, 1_013, 44_371, 793_471])
def test_the_groups_are_those_of_the_two_level_tree(num_classes):
    tree = pytest.importorskip("tf_hsm.tree").Tree.two_level(num_classes)
    loss = LOSSES["gather"](Sizes(num_classes, 1, 1, ()), torch.float32, "cpu")
    ends = tree.group_offsets[2:] - tree.group_offsets[1]
    np.testing.assert_array_equal(loss.ends, ends)
    padding = torch.isinf(loss.biases).sum().item()
    assert loss.biases.numel() - padding == num_classes
