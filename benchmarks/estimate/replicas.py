"""Data parallel training on two halves of one machine.

An LSTM of 256 units on vectors and a softmax over 5,000 classes, with SGD: on
one device, which has all CPUs, and by `MirroredStrategy` on two logical ones,
which share them.
"""

import dataclasses
import statistics
import time
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import machine, units
from benchmarks.estimate import bodies, process
from benchmarks.estimate.sampled_machine import SampledMachine
from tf_hsm.estimation import machine as machines

_COUNT = 2
_WARM_UP = 2
_NAME = 14


class Sizes(NamedTuple):
    """Sequences `[batch, length]` of vectors, an LSTM's units, and classes."""

    batch: int = 64
    length: int = 35
    units: int = 256
    classes: int = 5_000


def run(figures, settings, sizes=None):
    """Times both; prints the table."""
    sizes = sizes or Sizes()
    print(
        f"lstm:{sizes.units}, full softmax over {sizes.classes:,} classes, "
        f"batch {sizes.batch} x {sizes.length}, SGD\n\n"
        f"{'':<{_NAME}}{'ms':>22}{'ms of CPUs':>12}{'GFLOP':>11}\n"
        f"{'devices':<{_NAME}}{'measured':>11}{'estimated':>11}"
        f"{'measured':>12}{'estimated':>11}",
        flush=True,
    )
    result = process.alone_with_onednn(
        measure,
        sizes,
        settings.threads,
        settings.repetitions,
        settings.calibrates,
    )
    if result is None:
        figures.add("replicas", {"refused": process.KILLED})
        print(f"refused: {process.KILLED}")
        return
    entries = compare(sizes, result)
    for entry in entries:
        figures.add("replicas", entry)
        print(line(entry), flush=True)
    one, two = entries
    print(
        f"\n{_COUNT} replicas take {two['ms'] / one['ms']:.2f} of the time of "
        f"one device, and {two['cpu_ms'] / one['cpu_ms']:.2f} of its CPU time"
    )


def compare(sizes, result):
    """Returns what the JSON file says of one device, and of the replicas.

    Args:
      sizes: `Sizes`.
      result: what `measure` returned.
    """
    whole = machines.of(result["machine"])
    entries = []
    for count in (1, _COUNT):
        found = tf_hsm.estimate(
            f"lstm:{sizes.units}",
            "full",
            num_classes=sizes.classes,
            batch=sizes.batch,
            length=sizes.length,
            optimizer="sgd",
            machine=_share_of(whole, count),
            replicas=count,
            # They exchange gradients in memory.
            network=whole.read_write,
        )
        entries.append(
            {
                "devices": count,
                **result["devices"][count - 1],
                "estimated_ms": found.milliseconds,
                "flops": count * sum(found.flops),
            }
        )
    return entries


def line(entry):
    """The line of a number of devices."""
    name = "one" if entry["devices"] == 1 else f"{entry['devices']} replicas"
    ms = [entry[what] / 1000 for what in ("ms", "estimated_ms", "cpu_ms")]
    wall, estimated, cpu = map(units.of_seconds, ms)
    return (
        f"{name:<{_NAME}}{wall:>11}{estimated:>11}{cpu:>12}"
        f"{entry['flops'] / 1e9:>11.1f}"
    )


def _share_of(whole, count):
    """The machine of each of some that share its rates."""
    return dataclasses.replace(
        whole,
        flops={dtype: f / count for dtype, f in whole.flops.items()},
        read=whole.read / count,
        read_write=whole.read_write / count,
        fresh=whole.fresh / count,
        transpose=whole.transpose * count,
        softmax=whole.softmax * count,
    )


def measure(sizes, threads, repetitions, calibrates):
    """Times steps on one device and on replicas, in turns.

    To be called in a process of its own.

    Returns:
      A dict of "devices": for one and for the replicas "ms" and "cpu_ms",
      medians; and of "machine", the numbers of a `Machine` if it `calibrates`,
      else None.
    """
    names = machine.use_cpus(_COUNT)
    process.start(threads)
    steps = [
        _make_step(sizes, strategy)
        for strategy in (
            tf.distribute.OneDeviceStrategy(names[0]),
            tf.distribute.MirroredStrategy(names),
        )
    ]
    here = SampledMachine()
    for step in steps * _WARM_UP:
        step()
    samples = [[] for _ in steps]
    for _ in range(repetitions):
        here.sample()
        for step, taken in zip(steps, samples, strict=True):
            taken.append(_milliseconds(step))
    medians = [map(statistics.median, zip(*s, strict=True)) for s in samples]
    return {
        "devices": [{"ms": wall, "cpu_ms": cpu} for wall, cpu in medians],
        "machine": here.calibrated().to_dict() if calibrates else None,
    }


def _make_step(sizes, strategy):
    """Returns a function that trains on a batch, each replica on its part."""
    shape = sizes.batch, sizes.length
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((*shape, sizes.units), np.float32)
    labels = rng.integers(sizes.classes, size=shape)
    data = tf.data.Dataset.from_tensors((inputs, labels)).repeat()
    with strategy.scope():
        x = keras.Input((sizes.length, sizes.units))
        hidden = bodies.cells("LSTM", [sizes.units])(x)
        model = keras.Model(x, keras.layers.Dense(sizes.classes)(hidden))
        model.compile(
            "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        )
        model.optimizer.build(model.trainable_variables)
        model.make_train_function()  # what `fit` calls for each step
    batches = iter(strategy.experimental_distribute_dataset(data))
    return lambda: model.train_function(batches)


def _milliseconds(step):
    """Returns what a call takes, and the CPU time of this process meanwhile."""
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return 1000 * wall, 1000 * cpu
