"""PyTorch's linear layer and cross-entropy, in a process of its own."""

import re
import time

import numpy as np
import torch


class Implementation:
    """`F.cross_entropy(F.linear(inputs, weights, biases), labels)`.

    The spec has "num_classes", "width", "batch", "dtype", "threads" and
    "labels", the path of an array `[turns, B]`.
    """

    def __init__(self, spec):
        """Makes weights and inputs, both random."""
        torch.set_num_threads(spec["threads"])
        torch.manual_seed(1)
        dtype = getattr(torch, spec["dtype"])
        width, count = spec["width"], spec["num_classes"]
        self._labels = torch.from_numpy(np.load(spec["labels"]))
        self._inputs = torch.randn(spec["batch"], width, dtype=dtype)
        self._inputs /= width**0.5
        self._inputs.requires_grad_()
        self._weights = torch.rand(
            count, width, dtype=dtype, requires_grad=True
        )
        self._biases = torch.zeros(count, dtype=dtype, requires_grad=True)
        own = [self._weights, self._biases]
        self._optimizer = torch.optim.SGD(own, 1e-3)
        self.facts = {
            "version": torch.__version__,
            "parameters": sum(p.numel() for p in own),
        }
        self._resident = _status("VmRSS")

    def run(self, phase, turn):
        """Makes one step of one of `implementations.PHASES`.

        Returns:
          Also "loss", and "extra_bytes": the peak beyond the memory of the
          process with its parameters.
        """
        labels = self._labels[turn]
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # Restarts the peak.
        start = time.perf_counter()
        if phase == "forward":
            with torch.inference_mode():
                loss = self._loss(labels).item()
        else:
            loss = self._loss(labels)
            loss.backward()
            if phase == "sgd":
                self._optimizer.step()
            # Frees the gradients, as our step does.
            self._optimizer.zero_grad()
            self._inputs.grad = None
            loss = loss.item()
        return {
            "seconds": time.perf_counter() - start,
            "pairs": len(labels),
            "loss": loss,
            "extra_bytes": _status("VmHWM") - self._resident,
        }

    def _loss(self, labels):
        logits = torch.nn.functional.linear(
            self._inputs, self._weights, self._biases
        )
        return torch.nn.functional.cross_entropy(logits, labels)


def _status(name):
    """A number of bytes of this process, by its name in /proc."""
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(rf"{name}:\s*(\d+)", file.read())[1])
