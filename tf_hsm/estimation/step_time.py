"""How long the parts of a model take on a machine.

A pass over a part takes the longer of its arithmetic and of its memory, and a
moment for each kernel (Williams et al., 2009: Roofline):

    max(flops / F, bytes / M) + ops t

Where that is too simple, a part tells its own seconds (`Part.seconds`).
"""


def seconds(parts, machine, setting):
    """Returns `(forward, backward, update)` in seconds for each part.

    Args:
      parts: a list of `Part`s.
      machine: a `Machine`.
      setting: a `Setting`.
    """
    return [_of_part(part, machine, setting) for part in parts]


def of_work(work, machine, dtype):
    """Returns the seconds of a `Work` on numbers of a type."""
    arithmetic = work.flops / machine.rate(dtype)
    return (
        max(arithmetic, work.bytes / machine.read_write) + work.ops * machine.op
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
    # Known as a whole: the passes share it as they would by the formula.
    whole, total = part.seconds(machine), sum(passes)
    if not total:
        return (whole / 3, whole * 2 / 3, 0.0)
    return tuple(whole * one / total for one in passes)
