"""Optimizers: the temporary tables of an update, and its passes over memory.

T is the table of the variable: what a step has at most beside variable, slots
and gradient is measured in such tables, and its time in passes, the bytes that
memory moves in that time by T.
"""

import statistics
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.estimate import process
from tf_hsm.estimation import machine_rates, machine_times, slots, step_time
from tf_hsm.estimation.machine import Machine

_RATE = 0.01
OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(_RATE),
    "momentum": lambda: keras.optimizers.SGD(_RATE, momentum=0.9),
    "Adagrad": lambda: keras.optimizers.Adagrad(_RATE),
    "Adam": lambda: keras.optimizers.Adam(_RATE),
    "AdamW": lambda: keras.optimizers.AdamW(_RATE),
    "RMSprop": lambda: keras.optimizers.RMSprop(_RATE),
    "Lion": lambda: keras.optimizers.Lion(_RATE),
    "RowwiseAdagrad": lambda: tf_hsm.optimizers.RowwiseAdagrad(_RATE),
    "LazyAdam": lambda: tf_hsm.optimizers.LazyAdam(_RATE),
}
_NAME = 18


class Sizes(NamedTuple):
    """A float32 table `[rows, width]`, and the rows of a sparse gradient."""

    rows: int = 1_000_000
    width: int = 128
    touched: int = 1_000

    @property
    def bytes(self):
        """T."""
        return 4 * self.rows * self.width


def run(figures, settings, sizes=None):
    """Measures all optimizers; prints the table."""
    sizes = sizes or Sizes()
    print(
        f"a table T of {sizes.rows:,} x {sizes.width} float32; a sparse "
        f"gradient has {sizes.touched:,} rows\n\n"
        f"{'':<{_NAME}}{'':<9}{'temporary tables':>22}"
        f"{'passes, malloc':>22}{'passes, oneDNN':>22}\n"
        f"{'optimizer':<{_NAME}}{'gradient':<9}"
        + f"{'measured':>11}{'estimated':>11}"
        * 3,
        flush=True,
    )
    for name in OPTIMIZERS:
        arguments = name, sizes, settings.threads, settings.repetitions
        malloc = process.alone(measure, *arguments)
        onednn = malloc and process.alone_with_onednn(measure, *arguments)
        if onednn is None:
            figures.add("optimizers", {"name": name, "refused": process.KILLED})
            print(f"{name}: {process.KILLED}", flush=True)
            continue
        for kind in malloc:
            entry = {
                "name": name,
                "gradient": kind,
                "malloc": malloc[kind],
                "onednn": onednn[kind],
            }
            figures.add("optimizers", entry)
            print(line(entry), flush=True)


def line(entry):
    """The line of an optimizer and a kind of gradient."""
    malloc, onednn = entry["malloc"], entry["onednn"]
    numbers = [f"{tables:>11.2f}" for tables in malloc["tables"].values()]
    numbers += [
        f"{passes:>11.1f}"
        for took in (malloc, onednn)
        for passes in took["passes"].values()
    ]
    return f"{entry['name']:<{_NAME}}{entry['gradient']:<9}{''.join(numbers)}"


def measure(name, sizes, threads, repetitions):
    """Measures and estimates the steps of one optimizer.

    To be called in a process of its own.

    Returns:
      For "dense" and "sparse" a dict of "tables" and "passes", each with what
      is "measured" and "estimated".
    """
    process.start(threads)
    known, optimizer = slots.of(OPTIMIZERS[name]()), OPTIMIZERS[name]()
    shape = sizes.rows, sizes.width
    table = keras.Variable(tf.zeros(shape))
    optimizer.build([table])
    found = {}
    # A sparse update changes how TensorFlow reads the variable from then on.
    for kind, make, touched in (
        ("dense", _dense_steps, None),
        ("sparse", _sparse_steps, sizes.touched),
    ):
        step, make_gradient = make(optimizer, table, sizes)
        update = known.update(shape, "float32", touched)
        temporary = known.update_bytes(shape, "float32", touched)
        moments = _moments(step, make_gradient, threads, repetitions)
        found[kind] = {
            "tables": {
                "measured": max(m.temporary for m in moments) / sizes.bytes,
                "estimated": temporary / sizes.bytes,
            },
            "passes": {
                "measured": statistics.median(
                    m.passes(m.seconds, sizes.bytes) for m in moments
                ),
                "estimated": statistics.median(
                    m.passes(
                        step_time.of_work(update, m.machine, "float32"),
                        sizes.bytes,
                    )
                    for m in moments
                ),
            },
        }
    return found


class _Moment(NamedTuple):
    """A step, and the machine at that moment, as others use it too.

    Attributes:
      temporary: the most bytes that the step had beside its gradient.
      seconds: that it took.
      machine: a `Machine` of which memory alone matters.
    """

    temporary: int
    seconds: float
    machine: Machine

    def passes(self, seconds, table):
        """How often memory moves the bytes of a table in some seconds."""
        return seconds * self.machine.read_write / table


def _moments(step, make_gradient, threads, repetitions):
    """Repeats a step, and what makes its gradient alone, in turns."""
    probe = machine_rates.Probe(threads, "float32")
    for warm_up in (make_gradient, step):
        warm_up()
    moments = []
    for _ in range(repetitions):
        rates = probe.sample()
        here = Machine(
            "here",
            flops={"float32": rates.flops},
            read=rates.read,
            read_write=rates.read_write,
            op=0.0,
            fresh=machine_times.fresh(rates.read_write),
        )
        own, first = process.peak_of(_seconds_of(make_gradient))
        whole, second = process.peak_of(_seconds_of(step))
        moments.append(_Moment(whole.beyond - own.beyond, second - first, here))
    return moments


def _seconds_of(function):
    return lambda: machine_rates.seconds_of(function)


def _dense_steps(optimizer, table, sizes):
    """Returns a step, and what makes its gradient alone."""
    column = tf.random.stateless_normal([sizes.rows, 1], [0, 0])
    row = tf.random.stateless_normal([1, sizes.width], [0, 1])

    def make_gradient():
        return column * row

    @tf.function
    def step():
        optimizer.apply([make_gradient()], [table])

    return step, tf.function(make_gradient)


def _sparse_steps(optimizer, table, sizes):
    """As `_dense_steps`; the gradient is there before."""
    rows = np.random.default_rng(0).choice(sizes.rows, sizes.touched, False)
    values = tf.random.stateless_normal([sizes.touched, sizes.width], [0, 2])
    gradient = tf.IndexedSlices(
        values, tf.constant(np.sort(rows)), tf.constant([*table.shape])
    )

    @tf.function
    def step():
        optimizer.apply([gradient], [table])

    return step, lambda: None
