"""The adaptive softmax of PyTorch, which takes turns with ours."""

import pathlib
import tempfile

import numpy as np

from benchmarks.common import peer_process, workloads

# Name in the table -> what it is to the other process.
_NAMES = {
    "PyTorch adaptive, log_prob + topk": "log_prob",
    "PyTorch adaptive, predict (k = 1)": "predict",
}
# Tensors of a number for each class and input that are alive at once.
_TENSORS = 3


class Peer:
    """A process with its own weights, and inputs that are drawn alike.

    It takes part where there are cutoffs for a workload. Use as a context.
    """

    def __init__(self, source, head, question, threads):
        """Starts the process and waits until it is prepared."""
        self._sizes = sizes = head.sizes
        self._process = None
        self._missing = None
        if not sizes.cutoffs:
            return
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "labels.npy")
            case = source.inputs_case(sizes.batch)
            np.save(path, workloads.draw_labels(case, 1))
            spec = {
                "threads": threads,
                "num_classes": sizes.num_classes,
                "width": sizes.width,
                "cutoffs": sizes.cutoffs,
                "div_value": workloads.DIV_VALUE,
                "k": question.k,
                "labels": str(path),
                "peak": source.peak if source.is_peaked else None,
            }
            try:
                self._process = peer_process.Process(
                    "top_k.torch_adaptive", spec, question.python
                )
            except ModuleNotFoundError as error:
                self._missing = f"pip install {error.name}"

    def __enter__(self):
        """Returns itself."""
        return self

    def __exit__(self, *_):
        """Ends the process."""
        if self._process:
            self._process.close()

    def calls(self, batch, limits):
        """Returns name -> what `calls.measure` times, or why there is none."""
        if self._missing:
            return {name: {"missing": self._missing} for name in _NAMES}
        if not self._process:
            return {}
        num_bytes = _TENSORS * 4 * batch * self._sizes.num_classes
        refusal = limits.refusal(0, num_bytes, 0)
        if refusal:
            return {name: {"refused": refusal} for name in _NAMES}

        def timed(what):
            return lambda first, count: self._process.run(
                [what, batch, count], first
            )["samples"]

        return {name: timed(what) for name, what in _NAMES.items()}
