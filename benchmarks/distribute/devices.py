"""Times steps on virtual devices of one process against one variable."""

import numpy as np
import tensorflow as tf

from benchmarks.common import machine, timing
from benchmarks.distribute import steps
from tf_hsm import distribute

# The first calls of a function make its graph ready.
_WARM_UP = 2


def measure(sizes, kind, counts, repetitions, threads):
    """Times one variable, its top alone, and heads on devices, in turns.

    To be called in a process of its own.

    Args:
      sizes: `steps.Sizes`.
      kind: how labels are drawn, of `steps.LABELS`.
      counts: numbers of devices.
      repetitions: the number of turns, each with labels of its own.
      threads: the number of threads.

    Returns:
      "one", "top" and each number of devices -> {"ms", "samples_ms", "x_one"};
      the last is the median of what the steps of each turn took, over that of
      one variable in the same turn. Devices also have "fullest": the share of
      the batch on the fullest one.
    """
    machine.use_threads(threads)
    cpus = machine.use_cpus(max(counts))
    tree = sizes.tree
    whole = distribute.plan(tree, cpus, counts=steps.counts_of(kind, tree))
    plans = {count: whole.on(cpus[:count]) for count in counts}
    trees = {"one": tree, "top": whole.layout.top} | dict.fromkeys(counts, tree)
    functions = {
        name: steps.make_step(
            steps.make_head(of, sizes.width, plans.get(name)), sizes
        )
        for name, of in trees.items()
    }
    labels = steps.draw_labels(kind, whole, 1 + repetitions, sizes.batch)
    units = steps.units_of(whole, labels)
    inputs = sizes.inputs()

    def turns_of(name, step):
        rows = units if name == "top" else labels
        batches = [tf.constant(row, tf.int64) for row in rows]
        for _ in range(_WARM_UP):
            step(inputs, batches[0])
        return lambda turn: timing.seconds_of(step, inputs, batches[turn])

    samples = timing.interleave(
        {name: turns_of(name, step) for name, step in functions.items()},
        repetitions,
    )
    results = {
        str(name): compared(seconds, samples["one"])
        for name, seconds in samples.items()
    }
    for count, plan in plans.items():
        results[str(count)]["fullest"] = steps.fullest(plan, labels[1:])
    return results


def compared(seconds, others):
    """The times of steps, and the median of their ratios in the same turns."""
    turns = min(len(seconds), len(others))
    ratios = np.divide(seconds[:turns], others[:turns])
    return timing.milliseconds(seconds) | {"x_one": float(np.median(ratios))}
