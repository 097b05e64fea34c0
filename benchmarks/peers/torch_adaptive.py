"""The adaptive softmax of PyTorch, in a process of its own."""

import time

import numpy as np
import torch


class Implementation:
    """`torch.nn.AdaptiveLogSoftmaxWithLoss`, which needs ids by frequency.

    The spec has "num_classes", "width", "batch", "cutoffs", "div_value" and
    "labels", the path of an array `[turns, B]`.
    """

    def __init__(self, spec):
        """Makes weights and inputs, both random."""
        torch.set_num_threads(spec["threads"])
        torch.manual_seed(1)
        self._softmax = torch.nn.AdaptiveLogSoftmaxWithLoss(
            spec["width"],
            spec["num_classes"],
            spec["cutoffs"],
            div_value=spec["div_value"],
        )
        self._inputs = torch.randn(spec["batch"], spec["width"])
        self._inputs /= spec["width"] ** 0.5
        self._inputs.requires_grad_()
        self._labels = torch.from_numpy(np.load(spec["labels"]))
        self.facts = {
            "version": torch.__version__,
            "parameters": sum(p.numel() for p in self._softmax.parameters()),
        }

    def run(self, phase, turn):
        """Times one step: the loss and, if asked for, all gradients."""
        labels = self._labels[turn]
        start = time.perf_counter()
        if phase == "forward":
            with torch.inference_mode():
                self._softmax(self._inputs, labels).loss.item()
        else:
            self._softmax(self._inputs, labels).loss.backward()
            # Frees the gradients, as our step does.
            self._softmax.zero_grad()
            self._inputs.grad = None
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "pairs": len(labels)}
