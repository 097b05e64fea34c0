"""What a step of an example keeps: the slope of the peak over the batch."""

import statistics
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

from benchmarks.common import units
from benchmarks.estimate import bodies, process
from tf_hsm.estimation import body as estimated_bodies
from tf_hsm.estimation import memory, slots
from tf_hsm.estimation.setting import Setting

_STEPS = 3  # of training; the first is traced
# For each batch; the median counts. TensorFlow's threads have heaps of their
# own, so that the peak depends on which of them ran what.
_PROCESSES = 3
_NAME = 22


class Case(NamedTuple):
    """A body on vectors, a Dense layer of 1, mean squared errors and SGD.

    Attributes:
      body: a function of a KerasTensor.
      width: of the vectors.
      length: of a sequence.
      batches: sequences in a step.
    """

    body: Callable
    width: int
    length: int
    batches: tuple[int, ...]


_RECURRENT = 256, 35, (50, 200, 500)
CASES = {
    "lstm:2x256": Case(bodies.cells("LSTM", [256, 256]), *_RECURRENT),
    "gru:2x256": Case(bodies.cells("GRU", [256, 256]), *_RECURRENT),
    "rnn:2x256": Case(bodies.cells("SimpleRNN", [256, 256]), *_RECURRENT),
    "transformer:4x256:4": Case(
        bodies.attention_blocks(layers=4, width=256, heads=4),
        256,
        128,
        (4, 16, 48),
    ),
}


def run(figures, settings):
    """Measures all cases; prints the table."""
    print(
        "peak bytes of a process beyond those that it begins with; their slope "
        "in numbers of\n4 bytes, for each unit of a layer and each step of an "
        f"example\n\n{'':<{_NAME}}{'':>14}{'peak':>28}{'slope':>22}\n"
        f"{'body':<{_NAME}}{'batches':>14}{'measured':>28}"
        f"{'measured':>11}{'estimated':>11}",
        flush=True,
    )
    for name, case in CASES.items():
        peaks = [
            [
                process.alone(measure, name, batch, settings.threads)
                for _ in range(_PROCESSES)
            ]
            for batch in case.batches
        ]
        entry = {"body": name, "batches": case.batches}
        if any(None in own for own in peaks):
            entry["refused"] = process.KILLED
        else:
            entry |= slopes(case, peaks)
        figures.add("slopes", entry)
        print(line(entry), flush=True)


def slopes(case, peaks):
    """Returns what the JSON file says of the peaks for the batches of a case.

    Args:
      case: a `Case`.
      peaks: for each of its batches, what `measure` returned in each process.
    """
    numbers = 4 * case.width * case.length * np.array(case.batches)
    medians = {
        what: [statistics.median(p[what] for p in own) for own in peaks]
        for what in ("measured", "estimated")
    }
    return {
        "peaks": peaks,
        **medians,
        "slopes": {
            what: float(np.polyfit(numbers, values, 1)[0])
            for what, values in medians.items()
        },
    }


def line(entry):
    """The line of a body."""
    if "refused" in entry:
        return f"{entry['body']}: refused: {entry['refused']}"
    batches = " ".join(map(str, entry["batches"]))
    peaks = " ".join(map(units.of_bytes, entry["measured"]))
    slope = "".join(
        f"{entry['slopes'][what]:>11.1f}" for what in ("measured", "estimated")
    )
    return f"{entry['body']:<{_NAME}}{batches:>14}{peaks:>28}{slope}"


def measure(name, batch, threads):
    """Trains a case with a batch for some steps.

    To be called in a process of its own.

    Returns:
      A dict with the peak in bytes, "measured" and "estimated".
    """
    process.start(threads)
    case = CASES[name]
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((batch, case.length, case.width), np.float32)
    targets = np.zeros([batch, case.length, 1], np.float32)

    def train():
        model = _make(case)
        for _ in range(_STEPS):
            model.train_on_batch(inputs, targets)
        return model

    peak, model = process.peak_of(train)
    setting = Setting(batch, case.length, "float32", "float32", slots.of("sgd"))
    parts = estimated_bodies.of(model).parts(setting, has_head=False)
    return {"measured": peak.beyond, "estimated": memory.peak_bytes(parts)}


def _make(case):
    inputs = keras.Input((case.length, case.width))
    model = keras.Model(inputs, keras.layers.Dense(1)(case.body(inputs)))
    model.compile("sgd", "mse")
    return model
