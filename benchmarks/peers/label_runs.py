"""Runs a tree of many labels, ours or a peer's; needs NumPy alone."""

import time

import numpy as np


class Implementation:
    """See `common.peer_process`; `label_trees` makes the spec.

    A class of this kind has `_train()`, which returns a model, and
    `_find(model)`, which returns the 5 best labels `[n, 5]` of the tests, best
    first; -1 where it finds fewer.
    """

    def __init__(self, spec, version):
        """Reads the examples."""
        self.spec, self.data = spec, dict(np.load(spec["data"]))
        self.facts = {"version": version}

    def run(self, phase, turn):
        """Trains, and finds labels of the tests.

        Returns:
          "seconds" and "cpu_seconds" of training; "ms", the CPU time in which
          an example's labels are found; "pairs", the examples; and "found".
        """
        del phase, turn
        seconds, cpu_seconds = time.perf_counter(), time.process_time()
        model = self._train()
        seconds = time.perf_counter() - seconds
        cpu_seconds = time.process_time() - cpu_seconds
        search = time.process_time()
        found = self._find(model)
        search = time.process_time() - search
        return {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "ms": 1e3 * search / len(found),
            "pairs": len(self.data["train_inputs"]),
            "found": found,
        }
