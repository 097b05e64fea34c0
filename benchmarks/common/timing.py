"""Times the implementations of cases side by side."""

import collections
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.common import floors as common_floors
from benchmarks.common import implementations as common_implementations
from benchmarks.common import limits as common_limits
from benchmarks.common import machine, workloads

# A slow implementation is repeated only as often as fits into this, per phase.
_SECONDS_PER_PHASE = 10.0


class Settings(NamedTuple):
    """How a case is run."""

    implementations: tuple[str, ...]
    repetitions: int
    threads: int
    memory_limit: float | None  # bytes; None: what is available
    time_limit: float  # seconds a step
    phases: tuple[str, ...] = common_implementations.PHASES


def time_case(case, settings):
    """Measures rates, floors and all phases of all implementations.

    To be called in a process of its own.

    Returns:
      A dict that JSON can hold: "tree", "rates", "work", "floors" and
      "phases": implementation -> phase -> {"ms", "samples_ms"} or {"refused"}.
    """
    return time_cases([case], settings)[0]


def time_cases(cases, settings):
    """As `time_case`, for cases that differ in the batch and labels only.

    They share one tree and its weights, and take turns with each other.

    Returns:
      A list of what `time_case` returns.
    """
    machine.use_threads(settings.threads)
    limits = common_limits.of(settings)
    probe = common_floors.Probe(settings.threads, cases[0].dtype)
    rates = [probe.sample()]
    tree = workloads.make_tree(cases[0])
    points = [_Point(case, tree, settings.repetitions) for case in cases]
    bench = _Bench(tree, rates[0], limits)
    for phase in settings.phases:
        turns = {}
        for number, point in enumerate(points):
            for name in settings.implementations:
                step, refusal = bench.prepare(point, name, phase)
                if refusal:
                    point.phases[name][phase] = {"refused": refusal}
                else:
                    turns[number, name] = point.turns_of(step)
        samples = interleave(
            turns,
            settings.repetitions,
            lambda: rates.append(probe.sample()),
        )
        for (number, name), seconds in samples.items():
            points[number].phases[name][phase] = milliseconds(seconds)
    rates = common_floors.median(rates)
    return [point.result(rates) for point in points]


class _Point:
    """A case with its labels and inputs, and what was measured of it."""

    def __init__(self, case, tree, repetitions):
        """Draws labels for each turn, and for one before to warm up."""
        self.case = case
        self.phases = collections.defaultdict(dict)
        self._tree = tree
        self._inputs = common_implementations.make_inputs(case)
        labels = workloads.draw_labels(case, 1 + repetitions)
        self._labels = [tf.constant(row) for row in labels]
        self.work = common_floors.work(tree, labels[1])

    def turns_of(self, step):
        """Returns a function that times one turn, of the number it is given."""
        return lambda turn: seconds_of(step, self._labels[turn], self._inputs)

    def result(self, rates):
        """What `time_case` returns, with the floors at these rates."""
        sizes, work, tree = self.case.sizes, self.work, self._tree
        floors = common_floors.floors(
            work,
            sizes.batch,
            sizes.width,
            common_implementations.itemsize(self.case),
            rates,
        )
        return {
            **conditions(tree, work, rates, floors),
            "phases": dict(self.phases),
        }


class _Bench:
    """Prepares steps, on parameters that implementations share if they may."""

    def __init__(self, tree, rates, limits):
        self._tree = tree
        self._rates = rates
        self._limits = limits
        self._parameters = {}

    def prepare(self, point, name, phase):
        """Returns (step, None), or (None, why it is refused)."""
        case, tree = point.case, self._tree
        implementation = common_implementations.IMPLEMENTATIONS[name]
        num_rows = implementation.num_rows(tree)
        # After a sparse read or update, every dense read of a variable copies
        # it: those that read so have a variable of their own.
        key = (num_rows, not implementation.sparse)
        num_bytes = 0
        if key not in self._parameters:
            num_bytes = common_implementations.parameter_bytes(num_rows, case)
        refusal = self._limits.refusal(
            num_bytes,
            common_limits.step_bytes(name, phase, tree, case, point.work),
            common_limits.step_seconds(name, phase, tree, case, self._rates),
        )
        if refusal:
            return None, refusal
        if num_bytes:
            self._limits.take(num_bytes)
            self._parameters[key] = common_implementations.make_parameters(
                num_rows, case
            )
        step = common_implementations.make_step(
            implementation.loss, phase, self._parameters[key], tree, case
        )
        return step, None


def interleave(turns, repetitions, between):
    """Times functions in turn, after one call of each to warm up.

    Another one is the first in each turn: it meets cold caches.

    Args:
      turns: a dict of functions that return the seconds of the turn whose
        number they are given; 0 is to warm up.
      repetitions: how many turns there are.
      between: a function to call before each turn.

    Returns:
      A dict of lists of seconds, shorter ones for slow functions.
    """
    most = {
        key: 1 + int(_SECONDS_PER_PHASE / turn_of(0))
        for key, turn_of in turns.items()
    }
    samples = {key: [] for key in turns}
    for number in range(1, repetitions + 1):
        between()
        first = number % max(len(turns), 1)
        for key in [*turns][first:] + [*turns][:first]:
            if number <= most[key]:
                samples[key].append(turns[key](number))
    return samples


def milliseconds(seconds):
    """What the JSON file says of a list of times: the median, and all."""
    return {
        "ms": 1000 * float(np.median(seconds)),
        "samples_ms": [1000 * s for s in seconds],
    }


def conditions(tree, work, rates, floors):
    """What the JSON file says beside the times.

    Args:
      tree: the `tf_hsm.Tree`.
      work: `_floors.Work` of a batch.
      rates: `_floors.Rates`.
      floors: a dict of `_floors.Floor`.
    """
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
            name: {
                "ms": 1000 * floor.seconds,
                "memory_share": floor.memory_share,
            }
            for name, floor in floors.items()
        },
    }


def seconds_of(step, *args):
    """Returns how long one call takes."""
    start = time.perf_counter()
    step(*args)
    return time.perf_counter() - start
