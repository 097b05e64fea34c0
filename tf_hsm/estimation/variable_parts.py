"""What the variables of a part take: bytes, gradients, slots and updates."""

import dataclasses
import itertools
import math
from typing import NamedTuple

from tf_hsm.cost.gradient_costs import sparse_bytes
from tf_hsm.estimation import slots as all_slots
from tf_hsm.estimation.part import NO_WORK
from tf_hsm.estimation.setting import BYTES, VARIABLE_BYTES
from tf_hsm.layers.initial_values import BLOCK_BYTES, MOST_AT_ONCE

# Copies that a random initializer of Keras makes while it fills a variable: the
# numbers of the generator, scaled and shifted, in tensors of their own.
_INITIAL_COPIES = 2


class Variable(NamedTuple):
    """A variable: its shape, the name of its type, whether it is trained."""

    shape: tuple
    dtype: str
    is_trained: bool = True


def of_rows(rows, width, bias, dtype):
    """Returns the variables `[rows, width]` and, with biases, `[rows]`."""
    return [Variable((rows, width), dtype)] + [Variable((rows,), dtype)] * bias


def part_with(
    variables,
    part,
    setting,
    *,
    own=None,
    index_bytes=4,
    by_blocks=False,
    is_random=True,
):
    """Returns a part with its variables.

    Args:
      variables: a list of `Variable`s.
      part: the `Part` without them, which knows the rows that are `touched`.
      setting: the `Setting`.
      own: the optimizer of `tf_hsm.optimizers` with which the backward updates
        the variables; None: the optimizer of the model does.
      index_bytes: bytes of the number of a row in a sparse gradient.
      by_blocks: whether a layer of this package makes the variables, which
        fills a large one a block of rows at a time.
      is_random: whether the numbers begin at random, not at zero.
    """
    slots = setting.slots if own is None else all_slots.of(own)
    sizes = [math.prod(v.shape) * VARIABLE_BYTES[v.dtype] for v in variables]
    making = max(sizes, default=0)
    if by_blocks and making > MOST_AT_ONCE:
        making = BLOCK_BYTES
    trained = [v[:2] for v in variables if v.is_trained]
    if slots.optimizer is None:
        trained = []
    part = dataclasses.replace(
        part,
        parameters=sum(math.prod(v.shape) for v in variables),
        parameter_bytes=sum(sizes),
        slot_bytes=sum(slots.slot_bytes(*v) for v in trained),
        making_bytes=_INITIAL_COPIES * making * is_random,
        filling_bytes=max(
            (slots.filling_bytes(*v) for v in trained), default=0
        ),
        in_place=own is not None,
    )
    if own is not None or not trained:
        return part
    rows = itertools.chain(part.touched, itertools.repeat(None))
    trained = [(*v, touched) for v, touched in zip(trained, rows, strict=False)]
    return dataclasses.replace(
        part,
        gradient_bytes=sum(_gradient_bytes(*v, index_bytes) for v in trained),
        update_bytes=max(slots.update_bytes(*v) for v in trained),
        update=sum((slots.update(*v) for v in trained), NO_WORK),
        uncounted=part.uncounted + slots.uncounted,
    )


def _gradient_bytes(shape, dtype, rows, index_bytes):
    if rows is None:
        return math.prod(shape) * BYTES[dtype]
    return sparse_bytes(
        rows,
        math.prod(shape[1:]),
        BYTES[dtype],
        bias=False,
        index_bytes=index_bytes,
    )
