"""Times the implementations of cases side by side."""

import collections
import sys
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import (
    floors,
    implementations,
    limits,
    machine,
    peers,
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
    python: str = sys.executable  # has the libraries of `peers.PEERS`


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
    points = [_Point(case, tree, settings) for case in cases]
    for phase in settings.phases:
        turns = {}
        for number, point in enumerate(points):
            for name in settings.implementations:
                turn, refusal = point.prepare(bench, name, phase, rates[0])
                if refusal:
                    point.phases[name][phase] = {"refused": refusal}
                else:
                    turns[number, name] = turn
        samples = interleave(
            turns,
            settings.repetitions,
            lambda: rates.append(probe.sample()),
        )
        for (number, name), seconds in samples.items():
            points[number].phases[name][phase] = milliseconds(seconds)
    for point in points:
        point.close()
    rates = floors.median(rates)
    return [point.result(rates) for point in points]


class _Point:
    """A case with its labels and inputs, and what was measured of it."""

    def __init__(self, case, tree, settings):
        """Draws labels for each turn, and for one before to warm up."""
        self._case = case
        self.phases = collections.defaultdict(dict)
        self._tree = tree
        self._inputs = implementations.make_inputs(case)
        labels = workloads.draw_labels(case, 1 + settings.repetitions)
        self._peers = {
            name: peers.Peer(name, case, labels, settings)
            for name in peers.PEERS
        }
        self._labels = [tf.constant(row) for row in labels]
        self._work = floors.work(tree, labels[1])

    def prepare(self, bench, name, phase, rates):
        """Returns (turn, None), or (None, why it is refused).

        `turn` is a function that times a step for the labels of a number.
        """
        part = limits.part_of(name, phase, self._tree, self._case)
        work = (
            limits.step_bytes(part),
            limits.step_seconds(part, rates, self._case.dtype),
        )
        if name in self._peers:
            return self._prepare_peer(bench, name, phase, work)
        implementation = implementations.IMPLEMENTATIONS[name]
        parameters = workbench.parameters(
            implementation.num_rows(self._tree),
            self._case,
            not implementation.sparse,
        )

        def make_turn(made):
            step = implementations.make_step(
                implementation.loss, phase, made, self._tree, self._case
            )
            return lambda turn: seconds_of(
                step, self._labels[turn], self._inputs
            )

        return bench.prepare([parameters], *work, make_turn)

    def _prepare_peer(self, bench, name, phase, work):
        def make_turn(process):
            return lambda turn: process.run(phase, turn)["seconds"]

        try:
            shared = [self._peers[name].shared()]
            return bench.prepare(shared, *work, make_turn)
        except ModuleNotFoundError as error:
            return None, f"{error.name} is not installed"

    def close(self):
        """Ends the processes of other libraries."""
        for peer in self._peers.values():
            peer.close()

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

    Another one is the first in each turn: it meets cold caches. A function that
    is too slow for all turns has a second call to warm up, which says how many
    turns it takes: the first one may have made its memory.

    Args:
      turns: a dict of functions that return the seconds of the turn whose
        number they are given; 0 is to warm up.
      repetitions: how many turns there are.
      between: a function to call before each turn.

    Returns:
      A dict of lists of seconds, shorter ones for slow functions.
    """

    def most_turns(turn_of):
        return 1 + int(_SECONDS_PER_PHASE / turn_of(0))

    most = {key: most_turns(turn_of) for key, turn_of in turns.items()}
    for key, turn_of in turns.items():
        if most[key] < repetitions:
            most[key] = most_turns(turn_of)
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
        "isa": tf_hsm.cpu_isa(),
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


def seconds_of(step, *args, clock=time.perf_counter):
    """Returns how long one call takes."""
    start = clock()
    step(*args)
    return clock() - start
