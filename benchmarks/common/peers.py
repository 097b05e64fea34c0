"""Other libraries among the implementations, in processes of their own."""

import contextlib
import pathlib
import tempfile

import numpy as np

from benchmarks.common import implementations, peer_process, workbench

# Name -> module below `benchmarks`; they have a row for each class.
PEERS = {"torch": "common.torch_linear"}


class Peer:
    """An implementation of another library for one case.

    Args:
      name: one of `PEERS`.
      case: a `Case`.
      labels: `[turns, B]`.
      settings: `timing.Settings`.
    """

    def __init__(self, name, case, labels, settings):
        """See the class."""
        self._module = PEERS[name]
        self._labels = labels
        self._python = settings.python
        self._spec = {
            "num_classes": case.sizes.num_classes,
            "width": case.sizes.width,
            "batch": case.sizes.batch,
            "dtype": case.dtype,
            "threads": settings.threads,
        }
        self._num_bytes = implementations.parameter_bytes(
            case.sizes.num_classes, case
        )
        self._open = contextlib.ExitStack()

    def shared(self):
        """Returns the process, which starts once it is known to fit."""
        return workbench.Shared(id(self), self._num_bytes, self.start)

    def start(self):
        """Starts the process and waits until it is prepared.

        Raises:
          ModuleNotFoundError: the interpreter lacks the library.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "labels.npy")
            np.save(path, self._labels)
            process = peer_process.Process(
                self._module, self._spec | {"labels": str(path)}, self._python
            )
        self._open.callback(process.close)
        return process

    def close(self):
        """Ends the process, if there is one."""
        self._open.close()

    def memory(self, phases):
        """Measures the peak memory of phases, as `memory.measure` does."""
        process, extra = self.start(), {}
        for phase in phases:
            steps = range(len(self._labels))
            extra[phase] = max(
                process.run(phase, turn)["extra_bytes"] for turn in steps
            )
        self.close()
        return {"parameters": self._num_bytes, "extra": extra}
