"""The best classes of PyTorch's adaptive softmax, in a process of its own."""

import time

import numpy as np
import torch

from benchmarks.common import torch_softmax
from benchmarks.heads import peaked_inputs


class Implementation:
    """`predict` and `log_prob` of `torch.nn.AdaptiveLogSoftmaxWithLoss`.

    The spec has "num_classes", "width", "cutoffs" and "div_value"; "k"; "peak",
    the fields of a `Peak`, or None for inputs of no class; and "labels", the
    path of an array `[1, n]`: the class of each input.
    """

    def __init__(self, spec):
        """Makes weights and inputs."""
        self._softmax = torch_softmax.make(spec)
        (labels,) = np.load(spec["labels"])
        width = spec["width"]
        if spec["peak"] is None:
            inputs = torch.randn(len(labels), width) / width**0.5
        else:
            inputs = self._peaked(labels, peaked_inputs.Peak(*spec["peak"]))
        self._inputs = inputs
        self._k = spec["k"]
        self.facts = torch_softmax.facts(self._softmax)

    def run(self, phase, turn):
        """Times calls one by one.

        Args:
          phase: "predict" or "log_prob", the inputs of a call, and how many
            calls.
          turn: the number of the first call.
        """
        what, batch, count = phase
        samples = []
        for call in range(turn, turn + count):
            at = torch.arange(call * batch, (call + 1) * batch)
            inputs = self._inputs[at % len(self._inputs)]
            start = time.perf_counter()
            with torch.inference_mode():
                if what == "predict":
                    self._softmax.predict(inputs)
                else:
                    self._softmax.log_prob(inputs).topk(self._k)
            samples.append(time.perf_counter() - start)
        return {
            "seconds": sum(samples),
            "pairs": batch * count,
            "samples": samples,
        }

    def _peaked(self, labels, peak):
        """Returns inputs `[n, D]` that point to their classes."""
        softmax = self._softmax
        with torch.inference_mode():
            head = softmax.head.weight.numpy()
            cuts = np.array([0, *softmax.cutoffs])
            clusters = np.searchsorted(cuts, labels, side="right") - 1
            in_tail = clusters > 0
            shortlist = softmax.shortlist_size
            rows = np.where(in_tail, shortlist + clusters - 1, labels)
            depths = 1 + in_tail
            inputs = peaked_inputs.noise(
                (len(labels), head.shape[1]), np.square(head).mean(), peak
            )
            inputs += peaked_inputs.signal(
                head[rows], np.full(len(rows), len(head)), depths, peak
            )
            for number, (down, up) in enumerate(softmax.tail, 1):
                here = np.flatnonzero(clusters == number)
                ids = labels[here] - cuts[number]
                values = up.weight[ids].numpy() @ down.weight.numpy()
                inputs[here] += peaked_inputs.signal(
                    values,
                    np.full(len(here), len(up.weight)),
                    depths[here],
                    peak,
                )
        return torch.tensor(inputs, dtype=torch.float32)
