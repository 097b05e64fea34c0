"""Times steps side by side."""

import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.common import machine

# A slow implementation is repeated only as often as fits into this, per phase.
_SECONDS_PER_PHASE = 10.0


class Settings(NamedTuple):
    """How a case is run."""

    implementations: tuple[str, ...]
    repetitions: int
    threads: int
    memory_limit: float | None  # bytes; None: what is available
    time_limit: float  # seconds a step


def interleave(turns, repetitions, between=lambda: None):
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


def seconds_of(step, *args):
    """Returns how long one call takes."""
    start = time.perf_counter()
    step(*args)
    return time.perf_counter() - start


def peak_of(step, labels, inputs):
    """Returns the peak of this process over one step per row of labels."""
    machine.restart_peak()
    for row in labels:
        step(tf.constant(row), inputs)
    return machine.peak_bytes()
