"""What the tests of the benchmarks share."""

import importlib
import json

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from benchmarks.common import limits, machine, peer_process, timing, workloads
from benchmarks.top_k import heads, peaked_inputs
from tests.support import programs
from tf_hsm.estimation import machine_rates

PEAK = peaked_inputs.Peak(0.9, 1.0)
ROOMY = limits.Limits(1e12, 1e9)


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
    monkeypatch.setattr(machine_rates, "STREAM_BYTES", 1 << 20)
    monkeypatch.setattr(machine_rates, "MATRIX_SIZE", 64)


def run_main(command, *arguments):
    """Runs a command in this process, after `measure_here`."""
    programs.run(f"benchmarks.{command}.main", *arguments)


def figures_of(command, folder, *arguments):
    """Runs a command as `run_main`; returns what it writes as JSON."""
    path = folder / "figures.json"
    run_main(command, *arguments, f"--json={path}")
    return json.loads(path.read_text())


def run_command(module, path, *arguments):
    """Calls a command; returns the result for its only head."""
    with flagsaver.flagsaver():
        flags.FLAGS([module.__name__, *arguments, f"--json={path}"])
        module.main(None)
    (entry,) = json.loads(path.read_text())["heads"]
    return entry, entry["result"]


def assert_flag_is_refused(module, argument, message):
    """The flags stay as they are."""
    values = flags.FlagValues()
    values.append_flag_values(flags.FLAGS)
    with (
        flagsaver.flagsaver(),
        pytest.raises(flags.IllegalFlagValueError, match=message),
    ):
        values([module.__name__, argument])


def random_source(distribution="peaked", tree="two_level", **sizes):
    case = workloads.Case("tiny", tree, "uniform", "float32", **sizes)
    return heads.RandomSource(case, distribution, PEAK)


def make_head(source, num_inputs=20):
    head, refusal = source.make(num_inputs, ROOMY)
    assert refusal is None
    return head


def make_settings(memory_limit=None):
    return timing.Settings((), 2, 1, memory_limit, 20.0)


def node_log_probs(head):
    """`[n, rows]` of nodes, in float64, from the definition."""
    tree = head.tree
    logits = head.inputs.numpy().astype(float) @ np.transpose(
        head.parameters.weights.numpy().astype(float)
    )
    log_probs = np.zeros_like(logits)
    for group in range(tree.num_groups):
        rows = slice(*tree.group_offsets[group : group + 2])
        exps = np.exp(logits[:, rows])
        log_probs[:, rows] = np.log(exps / exps.sum(1, keepdims=True))
        if group > 0:
            log_probs[:, rows] += log_probs[:, [tree.group_parents[group]]]
    return log_probs
