"""Formulas of recurrent layers as Keras runs them on a CPU.

A `tf.while_loop` takes a step at a time. Its backward finds what each step has
kept in lists, one for each tensor of the step that the gradient reads.
"""

import math
from typing import NamedTuple

from tf_hsm.estimation.body.layer_part import Formula, elementwise, product


class _Cell(NamedTuple):
    """What a step of a cell does.

    Attributes:
      gates: products that are as wide as the units.
      kept: tensors `[batch, units]` that a step keeps for its backward.
      flops: of a unit, beside the products.
      ops: kernels of a step forward, beside the products.
    """

    gates: int
    kept: float
    flops: int
    ops: int


# The kept numbers fit what `//benchmarks:estimate` of commit a1d0e13d measured.
_CELLS = {
    "LSTM": _Cell(4, 10, 30, 22),
    "GRU": _Cell(3, 12, 25, 24),
    "SimpleRNN": _Cell(1, 4, 6, 8),
}


def recurrent(layer, shapes, setting):
    """2 B T gates units (inputs + units) FLOPs forward."""
    batch, length, inputs = shapes[0]
    kind = next(c.__name__ for c in type(layer).__mro__ if c.__name__ in _CELLS)
    cell, units = _CELLS[kind], layer.units
    size = setting.compute_itemsize
    numbers = batch * length * units
    width = cell.gates * units
    forward, backward = product(batch, width, inputs, size, length)
    more = elementwise(
        numbers, size, cell.flops, 3 * cell.ops, cell.ops * length
    )
    for_states = product(batch, width, units, size, length, more)
    output = (
        (batch, length, units) if layer.return_sequences else (batch, units)
    )
    return Formula(
        output,
        saved=size * (cell.kept * numbers + batch * length * inputs),
        # The gradient of the weights is summed up step by step.
        backward_bytes=size
        * (2 * width * (inputs + units) + numbers + batch * length * inputs),
        forward=forward + for_states[0],
        backward=backward + for_states[1],
    )


def bidirectional(layer, shapes, setting, formula_of):
    """Both directions, and their merge.

    Args:
      layer: a `keras.layers.Bidirectional`.
      shapes: of its inputs.
      setting: the `Setting`.
      formula_of: what gives the formula of a layer within.
    """
    one = formula_of(layer.forward_layer, shapes, setting)
    two = formula_of(layer.backward_layer, shapes, setting)
    shape = one.output
    if layer.merge_mode == "concat":
        shape = (*shape[:-1], 2 * shape[-1])
    numbers, size = math.prod(shape), setting.compute_itemsize
    work = elementwise(numbers, size, 1, 3)
    return Formula(
        shape,
        saved=one.saved + two.saved + numbers * size,
        forward_bytes=max(one.forward_bytes, two.forward_bytes),
        backward_bytes=max(one.backward_bytes, two.backward_bytes),
        forward=one.forward + two.forward + work,
        backward=one.backward + two.backward + work,
        uncounted=one.uncounted + two.uncounted,
    )
