"""Times single calls of several functions, which take turns.

A turn is a run of calls in a row, each with other inputs: the caches are then
much as they are where only one of the functions runs.
"""

import gc

import numpy as np
import tensorflow as tf

from benchmarks.common import timing

# A run is as many calls as fit into this time, on this many inputs at most.
_RUN_SECONDS = 1.0
RUN_INPUTS = 25


def num_inputs(batch, repetitions):
    """How many inputs there must be for the calls of all turns to differ."""
    return (1 + repetitions) * max(batch, RUN_INPUTS)


def batch_of(inputs, number, batch):
    """Returns the inputs `[batch, D]` of a call; the calls go round."""
    first = number * batch
    return tf.gather(inputs, np.arange(first, first + batch) % inputs.shape[0])


def on_inputs(function, inputs, batch):
    """Returns what `measure` times: calls of a function of inputs `[batch, D]`.

    Args:
      function: must have its results when it returns.
      inputs: `[n, D]`.
      batch: how many of them a call is given.
    """

    def timed(first, count):
        numbers = range(first, first + count)
        parts = [batch_of(inputs, number, batch) for number in numbers]
        return [timing.seconds_of(function, part) for part in parts]

    return timed


def measure(timed, batch, repetitions):
    """Times all, after some calls of each to warm up.

    Python collects no garbage meanwhile: it is no part of a call.

    Args:
      timed: name -> a function of the number of a call and of how many to make
        from there; returns the seconds of each.
      batch: the inputs of a call.
      repetitions: turns; slow functions take part in fewer.

    Returns:
      Name -> {"p50_ms", "p99_ms", "samples_ms"}.
    """
    gc.collect()
    gc.disable()
    try:
        runs = {name: _Run(each, batch) for name, each in timed.items()}
        timing.interleave(runs, repetitions, lambda: None)
    finally:
        gc.enable()
    return {name: _percentiles(run.samples) for name, run in runs.items()}


class _Run:
    """The calls of one function."""

    def __init__(self, timed, batch):
        self._timed = timed
        self.samples = []
        # The first call makes what later ones find.
        _, seconds = timed(0, 2)
        most = max(1, RUN_INPUTS // batch)
        self._count = max(1, min(most, int(_RUN_SECONDS / seconds)))

    def __call__(self, turn):
        """Makes the calls of a turn; those of turn 0 do not count."""
        samples = self._timed(turn * self._count, self._count)
        if turn > 0:
            self.samples += samples
        return sum(samples)


def _percentiles(seconds):
    milliseconds = 1000 * np.array(seconds)
    return {
        "p50_ms": float(np.percentile(milliseconds, 50)),
        "p99_ms": float(np.percentile(milliseconds, 99)),
        "samples_ms": milliseconds.tolist(),
    }
