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
    cells = [malloc["tables"], malloc["passes"], onednn["passes"]]
    numbers = [f"{v[w]:>11.1f}" for v in cells for w in v]
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
    table = keras.Variable(tf.zeros([sizes.rows, sizes.width]))
    optimizer.build([table])
    found = {}
    # A sparse update changes how TensorFlow reads the variable from then on.
    for kind, make, touched in (
        ("dense", _dense_steps, None),
        ("sparse", _sparse_steps, sizes.touched),
    ):
        step, make_gradient = make(optimizer, table, sizes)
        took = _Took.of(step, make_gradient, threads, repetitions)
        arguments = (sizes.rows, sizes.width), "float32", touched
        seconds = step_time.of_work(
            known.update(*arguments), _machine(took.rates), "float32"
        )
        found[kind] = {
            "tables": {
                "measured": took.temporary / sizes.bytes,
                "estimated": known.update_bytes(*arguments) / sizes.bytes,
            },
            "passes": {
                "measured": took.moved / sizes.bytes,
                "estimated": seconds * took.rates.read_write / sizes.bytes,
            },
        }
    return found


class _Took(NamedTuple):
    """What steps took.

    Attributes:
      temporary: the most bytes that one had beside its gradient.
      moved: bytes that memory moves in the time of a step.
      rates: the `Rates` of the machine meanwhile.
    """

    temporary: int
    moved: float
    rates: machine_rates.Rates

    @classmethod
    def of(cls, step, make_gradient, threads, repetitions):
        """Repeats a step, and what makes its gradient alone, in turns.

        A shared machine is slower at times, so its rates are sampled beside
        each step.
        """
        probe = machine_rates.Probe(threads, "float32")
        for warm_up in (make_gradient, step):
            warm_up()
        temporary, moved, rates = [], [], []
        for _ in range(repetitions):
            rates.append(probe.sample())
            (own, first), (whole, second) = (
                process.peak_of(lambda f=f: machine_rates.seconds_of(f))
                for f in (make_gradient, step)
            )
            temporary.append(whole.beyond - own.beyond)
            moved.append((second - first) * rates[-1].read_write)
        return cls(
            max(temporary),
            statistics.median(moved),
            machine_rates.median(rates),
        )


def _machine(rates):
    """A `Machine` of which memory alone matters."""
    return Machine(
        "here",
        {"float32": rates.flops},
        rates.read,
        rates.read_write,
        op=0.0,
        fresh=machine_times.fresh(rates.read_write),
    )


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
