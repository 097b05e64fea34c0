"""How long the parts of a model take on a machine.

A pass over a part takes the longer of its arithmetic and of its memory
(Williams et al., 2009: Roofline), and a moment for each kernel:

    max(flops / F, bytes / M) + ops t + new (1 / M_new - 1 / M) + softmax e

Memory that is new to the process is filled at a rate of its own, M_new: a CPU
meets each page for the first time. A number that passes through a softmax takes
e more, for its exponential. Matrix products whose shapes are known are
timed one by one by `Machine.product`, since small ones reach less than F; the
formula is for the rest. Where that is too simple, a part tells its own seconds
(`Part.seconds`).
"""

from tf_hsm.estimation.setting import BYTES


def seconds(parts, machine, setting):
    """Returns `(forward, backward, update)` in seconds for each `Part`."""
    return [_of_part(part, machine, setting) for part in parts]


def of_work(work, machine, dtype):
    """Returns the seconds of a `Work` on numbers of a type."""
    products = sum(machine.product(p, dtype) for p in work.products)
    flops = work.flops - sum(p.flops for p in work.products)
    moved = work.bytes - BYTES[dtype] * sum(p.numbers for p in work.products)
    rest = max(flops / machine.rate(dtype), moved / machine.read_write, 0)
    new = 1 / machine.fresh - 1 / machine.read_write
    return (
        products
        + rest
        + work.ops * machine.op
        + work.new * max(new, 0)
        + work.softmax * machine.softmax
    )


def _of_part(part, machine, setting):
    passes = tuple(
        of_work(work, machine, dtype)
        for work, dtype in (
            (part.forward, setting.compute_dtype),
            (part.backward, setting.compute_dtype),
            (part.update, setting.dtype),
        )
    )
    if part.seconds is None:
        return passes
    # Known as a whole: the two passes share it as they would by the formula.
    whole, (forward, backward, update) = part.seconds(machine), passes
    share = forward / (forward + backward) if forward + backward else 1 / 3
    return (whole * share, whole * (1 - share), update)
