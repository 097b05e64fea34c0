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


def measure(functions, inputs, batch, repetitions):
    """Times all, after some calls of each to warm up.

    Python collects no garbage meanwhile: it is no part of a call.

    Args:
      functions: name -> a function of inputs `[batch, D]` that has its results
        when it returns.
      inputs: `[n, D]`.
      batch: the inputs of a call.
      repetitions: turns; slow functions take part in fewer.

    Returns:
      Name -> {"p50_ms", "p99_ms", "samples_ms"}.
    """
    samples = {name: [] for name in functions}

    def turns_of(name):
        def seconds(first, count):
            parts = [batch_of(inputs, first + i, batch) for i in range(count)]
            return [timing.seconds_of(functions[name], part) for part in parts]

        # The first call makes what later ones find.
        _, one = seconds(0, 2)
        most = max(1, RUN_INPUTS // batch)
        count = max(1, min(most, int(_RUN_SECONDS / one)))

        def make_calls(turn):
            found = seconds(turn * count, count)
            if turn > 0:  # Turn 0 is to warm up.
                samples[name] += found
            return sum(found)

        return make_calls

    gc.collect()
    gc.disable()
    try:
        turns = {name: turns_of(name) for name in functions}
        timing.interleave(turns, repetitions)
    finally:
        gc.enable()
    return {name: _percentiles(found) for name, found in samples.items()}


def _percentiles(seconds):
    milliseconds = 1000 * np.array(seconds)
    return {
        "p50_ms": float(np.percentile(milliseconds, 50)),
        "p99_ms": float(np.percentile(milliseconds, 99)),
        "samples_ms": milliseconds.tolist(),
    }
