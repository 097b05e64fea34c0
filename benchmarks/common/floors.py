"""The time that no implementation can beat on this machine.

A step must read the weights W_l of the groups that it touches at each level l,
and it must multiply. With F operations and M bytes per second, B examples of
width D, and K_l rows scored by all examples together at level l:

    forward               sum over l of max(2 K_l D / F, W_l / M) + B D s / M
    forward and backward  sum over l of max(6 K_l D / F, 2 W_l / M)
                          + (8 sum over l of K_l + 3 B D s) / M

s is the bytes of a number; 2 W_l is weights read once and their gradient
written once; 8 is the bytes of a float32 probability, written and read. A step
that also applies plain SGD writes the weights instead of the gradient: as many
bytes.

These formulas let the gradient be written while weights are read. A loss whose
gradient is asked for afterwards cannot do that: it reads all weights before the
first gradient is known. The floor of such a loss is:

    forward, then backward
                          sum over l of max(4 K_l D / F, W_l / M)
                          + sum over l of max(2 K_l D / F, W_l / M) + the same

F is the rate of a large matrix product in TensorFlow. M is a rate of streaming
through memory far larger than the caches: that of reading for the forward pass;
for the others that of reading and writing, where it is higher. F and M are
sampled beside every repetition of the steps, and their medians count, as the
steps' do: a shared machine is slower at times, for all alike.
"""

from typing import NamedTuple

import numpy as np

from tf_hsm.estimation.calibration import Probe, Rates, median  # noqa: F401


class Work(NamedTuple):
    """What a batch of labels asks for, by level of the tree."""

    scored_rows: np.ndarray  # [L], over all examples
    touched_rows: np.ndarray  # [L], once per batch
    touched_groups: int


class Floor(NamedTuple):
    """Seconds, and whose they are."""

    seconds: float
    memory_share: float  # of `seconds`; the rest is arithmetic


def work(tree, labels):
    """Counts the `Work` of labels `[B]`."""
    passed = []
    rows = tree.class_rows[labels]
    while rows.size:
        passed.append(tree.row_groups[rows])
        rows = tree.group_parents[passed[-1]]
        rows = rows[rows >= 0]
    groups, examples = np.unique(np.concatenate(passed), return_counts=True)
    depths = tree.group_depths[groups]
    fanouts = np.diff(tree.group_offsets)[groups]
    return Work(
        np.bincount(depths, fanouts * examples).astype(np.int64),
        np.bincount(depths, fanouts).astype(np.int64),
        groups.size,
    )


def floors(work, batch, width, itemsize, rates):
    """Computes the `Floor` of each formula above, as a dict."""
    row = width * itemsize
    inputs = batch * row
    arithmetic = 2 * width * work.scored_rows / rates.flops
    weights = row * work.touched_rows
    moved = max(rates.read, rates.read_write)
    rest = (8 * work.scored_rows.sum() + 3 * inputs) / moved
    backward = floor(3 * arithmetic, 2 * weights / moved, rest)
    return {
        "forward": floor(arithmetic, weights / rates.read, inputs / rates.read),
        "forward_backward": backward,
        "sgd": backward,
        "forward_then_backward": floor(
            np.concatenate([2 * arithmetic, arithmetic]),
            np.concatenate([weights / rates.read, weights / moved]),
            rest,
        ),
    }


def floor(arithmetic, memory, rest):
    """Sums levels `[L]` of which the larger time counts, and the rest."""
    levels = np.maximum(arithmetic, memory)
    seconds = levels.sum() + rest
    of_memory = levels[memory >= arithmetic].sum() + rest
    return Floor(float(seconds), float(of_memory / seconds))
