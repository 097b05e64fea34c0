"""`tf_hsm.estimation.largest`: whether the batch fits, and a larger one not.

A GRU on vectors and a softmax over all classes, with Adam.
"""

from typing import NamedTuple

import tf_hsm
from benchmarks.common import machine, units
from benchmarks.estimate import bodies, heads, process, trained
from benchmarks.estimate.models import Model

_MORE = 1.1  # a batch that is to take more than there is
_STEPS = 3  # of training; the first is traced


class Sizes(NamedTuple):
    """Sizes of the GRU and the softmax, and of memory that they must fit.

    Attributes:
      units: of the GRU, and the width of its inputs.
      classes: of the softmax.
      length: of a sequence.
      memories: bytes of processes.
    """

    units: int = 512
    classes: int = 20_000
    length: int = 35
    memories: tuple[float, ...] = (2e9, 4e9)


def run(figures, settings, sizes=None):
    """Trains the answers; prints the table."""
    sizes = sizes or Sizes()
    print(
        f"gru:{sizes.units}, full softmax over {sizes.classes:,} classes, "
        f"length {sizes.length}, Adam\n\n{'memory':>9}{'largest batch':>15}"
        f"{'process peaks at':>18}{'a tenth more':>14}{'peaks at':>10}",
        flush=True,
    )
    for memory in sizes.memories:
        batch = answer(memory, sizes)
        batches = [batch, round(_MORE * batch)]
        entry = {"memory": memory, "batches": batches}
        if _MORE * memory > machine.available_bytes():
            entry["refused"] = "not so much memory is available"
        else:
            entry["peaks"] = [
                process.alone(measure, b, sizes, settings.threads)
                for b in batches
            ]
        figures.add("largest", entry)
        print(line(entry), flush=True)


def line(entry):
    """The line of an amount of memory."""
    first, more = entry["batches"]
    start = f"{units.of_bytes(entry['memory']):>9}{first:>15}"
    if "refused" in entry:
        return f"{start}  refused: {entry['refused']}"
    of_first, of_more = (
        "killed" if peak is None else units.of_bytes(peak)
        for peak in entry["peaks"]
    )
    return f"{start}{of_first:>18}{more:>14}{of_more:>10}"


def answer(memory, sizes):
    """The largest batch for so many bytes."""
    return tf_hsm.estimation.largest(
        f"gru:{sizes.units}",
        "full",
        num_classes=sizes.classes,
        length=sizes.length,
        optimizer="adam",
        memory=memory,
    )


def measure(batch, sizes, threads):
    """Trains with a batch, in a process of its own; returns its peak bytes."""
    process.start(threads)
    model = Model(
        "largest",
        batch,
        sizes.length,
        None,
        bodies.cells("GRU", [sizes.units]),
        heads.full(sizes.classes),
        optimizer="adam",
        width=sizes.units,
    )
    batches = trained.batches_of(model, 1) * _STEPS
    peak, _ = process.peak_of(lambda: trained.train(model, batches))
    return peak.total
