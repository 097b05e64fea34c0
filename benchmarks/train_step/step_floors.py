"""The time that no training step can beat on this machine.

In the terms of `floors`, with S_l the bytes of the slots of the touched rows:

    sum over l of max(6 K_l D / F, (n W_l + 2 S_l) / M) + 3 B D s / M

n is 3: the weights of a group are read for its softmax, then read and written
by the update, as no row's gradient is known before all of its group are scored.
Where a group stays in a cache between the two, n is 2; this floor is given too.
S_l is nothing for SGD, a number per row for row-wise Adagrad, and in float32
W_l for Adagrad and 2 W_l for Adam; read and written once. A gradient of the
weights and the probabilities need never be in memory.

M is the rate of reading and writing, or that of reading where it is higher.
"""

from benchmarks.common import implementations
from benchmarks.common.floors import floor
from benchmarks.train_step import steps

# How often the touched weights pass through memory.
PASSES = (3, 2)


def floors(work, rule, case, rates):
    """Computes a `floors.Floor` for each of `PASSES`, as a dict.

    Args:
      work: `floors.Work`.
      rule: one of `steps.RULES`.
      case: a `Case`.
      rates: `floors.Rates`.
    """
    batch, width = case.sizes.batch, case.sizes.width
    itemsize = implementations.itemsize(case)
    moved = max(rates.read, rates.read_write)
    slots = steps.RULES[rule].slots_per_row(width)
    slot_row = slots * steps.slot_itemsize(case)
    return {
        passes: floor(
            6 * width * work.scored_rows / rates.flops,
            (passes * width * itemsize + 2 * slot_row)
            * work.touched_rows
            / moved,
            3 * batch * width * itemsize / moved,
        )
        for passes in PASSES
    }
