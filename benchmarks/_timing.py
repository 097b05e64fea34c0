"""Times the implementations of one case side by side."""

import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks import (
    _floors,
    _implementations,
    _limits,
    _machine,
    _workloads,
)

# A slow implementation is repeated only as often as fits into this, per phase.
_SECONDS_PER_PHASE = 10.0


class Settings(NamedTuple):
    """How a case is run."""

    implementations: tuple[str, ...]
    repetitions: int
    threads: int
    memory_limit: float | None  # bytes; None: what is available
    time_limit: float  # seconds a step


def time_case(case, settings):
    """Measures rates, floors and all phases of all implementations.

    To be called in a process of its own.

    Returns:
      A dict that JSON can hold: "tree", "rates", "work", "floors" and
      "phases": implementation -> phase -> {"ms", "samples_ms"} or {"refused"}.
    """
    _machine.use_threads(settings.threads)
    limits = _limits.Limits(
        settings.memory_limit or _machine.available_bytes(),
        settings.time_limit,
    )
    probe = _floors.Probe(settings.threads, case.dtype)
    rates = [probe.sample()]
    tree = _workloads.make_tree(case)
    labels = _workloads.draw_labels(case, 1 + settings.repetitions)
    work = _floors.work(tree, labels[1])
    bench = _Bench(case, tree, work, rates[0], limits)
    phases = {name: {} for name in settings.implementations}
    for phase in _implementations.PHASES:
        steps = {}
        for name in settings.implementations:
            step, refusal = bench.prepare(name, phase)
            if refusal:
                phases[name][phase] = {"refused": refusal}
            else:
                steps[name] = step
        samples = _interleave(
            steps,
            labels,
            _implementations.make_inputs(case),
            lambda: rates.append(probe.sample()),
        )
        for name, seconds in samples.items():
            phases[name][phase] = {
                "ms": 1000 * float(np.median(seconds)),
                "samples_ms": [1000 * s for s in seconds],
            }
    rates = _floors.median(rates)
    floors = _floors.floors(
        work,
        case.sizes.batch,
        case.sizes.width,
        _implementations.itemsize(case),
        rates,
    )
    return {
        "tree": {
            "rows": tree.num_rows,
            "groups": tree.num_groups,
            "depth": tree.depth,
        },
        "rates": rates._asdict(),
        "work": {
            "scored_rows": work.scored_rows.tolist(),
            "touched_rows": work.touched_rows.tolist(),
            "touched_groups": work.touched_groups,
        },
        "floors": {
            phase: {
                "ms": 1000 * floor.seconds,
                "memory_share": floor.memory_share,
            }
            for phase, floor in floors.items()
        },
        "phases": phases,
    }


class _Bench:
    """Prepares steps, on parameters that implementations share if they may."""

    def __init__(self, case, tree, work, rates, limits):
        self._case = case
        self._tree = tree
        self._work = work
        self._rates = rates
        self._limits = limits
        self._parameters = {}

    def prepare(self, name, phase):
        """Returns (step, None), or (None, why it is refused)."""
        implementation = _implementations.IMPLEMENTATIONS[name]
        num_rows = implementation.num_rows(self._tree)
        # After a sparse update, every dense read of a variable copies it: an
        # implementation that reads so then has a variable of its own.
        dense = not implementation.sparse
        key = (num_rows, dense and (phase == "sgd" or implementation.flat))
        num_bytes = 0
        if key not in self._parameters:
            num_bytes = _implementations.parameter_bytes(num_rows, self._case)
        refusal = self._limits.refusal(
            num_bytes,
            _limits.step_bytes(name, phase, self._tree, self._case, self._work),
            _limits.step_seconds(
                name, phase, self._tree, self._case, self._rates
            ),
        )
        if refusal:
            return None, refusal
        if num_bytes:
            self._limits.take(num_bytes)
            self._parameters[key] = _implementations.make_parameters(
                num_rows, self._case
            )
        step = _implementations.make_step(
            implementation.loss,
            phase,
            self._parameters[key],
            self._tree,
            self._case,
        )
        return step, None


def _interleave(steps, labels, inputs, between):
    """Times steps in turn, after one call of each to warm up.

    Args:
      steps: a dict of functions of labels and inputs.
      labels: `[1 + repetitions, B]`: a row to warm up, one per repetition.
      inputs: `[B, D]`.
      between: a function to call once in each repetition.

    Returns:
      A dict of lists of seconds, shorter ones for slow steps.
    """
    warm_up, *labels = [tf.constant(row) for row in labels]
    repetitions = {
        name: 1 + int(_SECONDS_PER_PHASE / seconds_of(step, warm_up, inputs))
        for name, step in steps.items()
    }
    samples = {name: [] for name in steps}
    for number, row in enumerate(labels):
        between()
        for name, step in steps.items():
            if number < repetitions[name]:
                samples[name].append(seconds_of(step, row, inputs))
    return samples


def seconds_of(step, *args):
    """Returns how long one call takes."""
    start = time.perf_counter()
    step(*args)
    return time.perf_counter() - start
