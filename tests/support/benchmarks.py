"""What the tests of the benchmarks share."""

import importlib
import json

from benchmarks.common import machine, peer_process
from tests.support import programs
from tf_hsm.estimation import calibration


class PeerHere:
    """A `peer_process.Process` without a process."""

    def __init__(self, module, spec, python=None):
        module = importlib.import_module(f"benchmarks.{module}")
        self._implementation = module.Implementation(spec)
        self.facts = self._implementation.facts

    def run(self, phase, turn):
        return self._implementation.run(phase, turn) | {"other_cpus": 0.0}

    def close(self):
        pass


def measure_here(monkeypatch):
    """Measures in this process, and the machine's rates only roughly."""
    monkeypatch.setattr(machine, "run_alone", lambda f, *args: f(*args))
    monkeypatch.setattr(machine, "use_threads", lambda threads: None)
    monkeypatch.setattr(peer_process, "Process", PeerHere)
    monkeypatch.setattr(calibration, "STREAM_BYTES", 1 << 20)
    monkeypatch.setattr(calibration, "MATRIX_SIZE", 64)


def run_main(command, *arguments):
    """Runs a command in this process, after `measure_here`."""
    programs.run(f"benchmarks.{command}.main", *arguments)


def figures_of(command, folder, *arguments):
    """Runs a command as `run_main`; returns what it writes as JSON."""
    path = folder / "figures.json"
    run_main(command, *arguments, f"--json={path}")
    return json.loads(path.read_text())
