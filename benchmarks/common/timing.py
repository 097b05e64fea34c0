"""Times the implementations of cases side by side."""

import collections
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.common import (
    floors,
    implementations,
    limits,
    machine,
    workbench,
    workloads,
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
    phases: tuple[str, ...] = implementations.PHASES


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
    bench = workbench.Workbench(limits.of(settings))
    probe = floors.Probe(settings.threads, cases[0].dtype)
    rates = [probe.sample()]
    tree = workloads.make_tree(cases[0])
    points = [_Point(case, tree, settings.repetitions) for case in cases]
    for phase in settings.phases:
        turns = {}
        for number, point in enumerate(points):
            for name in settings.implementations:
                step, refusal = point.prepare(bench, name, phase, rates[0])
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
    rates = floors.median(rates)
    return [point.result(rates) for point in points]


class _Point:
    """A case with its labels and inputs, and what was measured of it."""

    def __init__(self, case, tree, repetitions):
        """Draws labels for each turn, and for one before to warm up."""
        self._case = case
        self.phases = collections.defaultdict(dict)
        self._tree = tree
        self._inputs = implementations.make_inputs(case)
        labels = workloads.draw_labels(case, 1 + repetitions)
        self._labels = [tf.constant(row) for row in labels]
        self._work = floors.work(tree, labels[1])

    def prepare(self, bench, name, phase, rates):
        """Returns (step, None), or (None, why it is refused)."""
        case, tree = self._case, self._tree
        part = limits.part_of(name, phase, tree, case)
        implementation = implementations.IMPLEMENTATIONS[name]
        parameters = workbench.parameters(
            implementation.num_rows(tree), case, not implementation.sparse
        )
        return bench.prepare(
            [parameters],
            limits.step_bytes(part),
            limits.step_seconds(part, rates, case.dtype),
            lambda made: implementations.make_step(
                implementation.loss, phase, made, tree, case
            ),
        )

    def turns_of(self, step):
        """Returns a function that times one turn, of the number it is given."""
        return lambda turn: seconds_of(step, self._labels[turn], self._inputs)

    def result(self, rates):
        """What `time_case` returns, with the floors at these rates."""
        sizes, work, tree = self._case.sizes, self._work, self._tree
        least = floors.floors(
            work,
            sizes.batch,
            sizes.width,
            implementations.itemsize(self._case),
            rates,
        )
        return {
            **conditions(tree, work, rates, least),
            "phases": dict(self.phases),
        }


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
      work: `floors.Work` of a batch.
      rates: `floors.Rates`.
      floors: a dict of `floors.Floor`.
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
