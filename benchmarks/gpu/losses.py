"""Losses over many classes in PyTorch, which `gpu/peers.py` compares.

Each is a module with random parameters, made with `Sizes` and the type and
device of the parameters. Called with inputs `[b, D]` and labels `[b]` it gives
the losses `[b]` in nats; `step` also makes the gradients of their sum.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional


class Sizes(NamedTuple):
    """N, D, B, and where the adaptive softmax cuts the classes."""

    num_classes: int
    width: int
    batch: int
    cutoffs: tuple[int, ...]


class Loss(torch.nn.Module):
    """What the losses have in common."""

    in_chunks = True  # whether it may take the batch in parts

    def step(self, inputs, labels):
        """Returns losses and dx; adds the other gradients to their `grad`."""
        inputs = inputs.detach().requires_grad_()
        losses = self(inputs, labels)
        losses.sum().backward()
        return losses.detach(), inputs.grad


class Adaptive(Loss):
    """`torch.nn.AdaptiveLogSoftmaxWithLoss`, for ids in order of frequency."""

    div_value = 4.0

    def __init__(self, sizes, dtype, device):
        super().__init__()
        self.softmax = torch.nn.AdaptiveLogSoftmaxWithLoss(
            sizes.width,
            sizes.num_classes,
            sizes.cutoffs,
            div_value=self.div_value,
            device=device,
            dtype=dtype,
        )

    def forward(self, inputs, labels):
        return -self.softmax(inputs, labels).output


class Gather(Loss):
    """The two-level softmax of `Tree.two_level`, by a copy of `[B, K, D]`.

    Groups are padded to the widest one; the biases of the padding are -inf.
    """

    in_chunks = False

    def __init__(self, sizes, dtype, device):
        super().__init__()
        count = round(math.sqrt(sizes.num_classes))
        groups = np.array_split(np.arange(sizes.num_classes), count)
        fanouts, widest = np.array([g.size for g in groups]), groups[0].size
        ends = np.cumsum(fanouts)
        self.ends = torch.tensor(ends, device=device)
        self.starts = torch.tensor(ends - fanouts, device=device)
        self.root = _random([count, sizes.width], dtype, device)
        self.root_biases = _random([count], dtype, device)
        self.weights = _random([count, widest * sizes.width], dtype, device)
        self.biases = _random([count, widest], dtype, device)
        # The larger groups come first.
        self.biases.data[np.sum(fanouts == widest) :, -1] = -math.inf

    def forward(self, inputs, labels):
        groups = torch.bucketize(labels, self.ends, right=True)
        copies = self._rows(groups, self.weights)
        copies = copies.view(len(labels), -1, inputs.shape[1])
        biases = self._rows(groups, self.biases)
        logits = torch.bmm(copies, inputs[:, :, None])[:, :, 0] + biases
        root = torch.addmm(self.root_biases, inputs, self.root.t())
        return _cross_entropy(root, groups) + _cross_entropy(
            logits, labels - self.starts[groups]
        )

    def _rows(self, groups, weights):
        return functional.embedding(groups, weights, sparse=True)


class Full(Loss):
    """One softmax over all classes.

    The gradients are written out: they overwrite the probabilities, and the
    matrix product itself adds them to those of earlier chunks. That saves most
    of the memory and traffic of automatic ones.
    """

    def __init__(self, sizes, dtype, device):
        super().__init__()
        shape = [sizes.num_classes, sizes.width]
        self.weights = _random(shape, dtype, device)
        self.biases = _random([sizes.num_classes], dtype, device)

    def forward(self, inputs, labels):
        return -self._log_probs(inputs).gather(1, labels[:, None])[:, 0]

    @torch.no_grad()
    def step(self, inputs, labels):
        log_probs = self._log_probs(inputs)
        losses = -log_probs.gather(1, labels[:, None])
        grads = log_probs.exp_()
        grads.scatter_add_(1, labels[:, None], torch.full_like(losses, -1))
        if self.weights.grad is None:
            self.weights.grad = grads.t() @ inputs
            self.biases.grad = grads.sum(0)
        else:
            self.weights.grad.addmm_(grads.t(), inputs)
            self.biases.grad += grads.sum(0)
        return losses[:, 0], grads @ self.weights

    def _log_probs(self, inputs):
        logits = torch.addmm(self.biases, inputs, self.weights.t())
        return functional.log_softmax(logits, 1)


LOSSES = {
    "adaptive": Adaptive,
    "gather": Gather,
    "full": Full,
}


def _random(shape, dtype, device):
    values = torch.empty(shape, dtype=dtype, device=device)
    return torch.nn.Parameter(values.uniform_(-0.05, 0.05))


def _cross_entropy(logits, labels):
    return functional.cross_entropy(logits, labels, reduction="none")
