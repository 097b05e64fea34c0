"""The part of a Keras layer: its variables, and what a formula says of it."""

import dataclasses
import math

from tf_hsm.estimation.body import shapes as shapes_of
from tf_hsm.estimation.part import INITIAL_COPIES, NO_WORK, Part, Product, Work
from tf_hsm.estimation.setting import BYTES, VARIABLE_BYTES

_INDEX_BYTES = 4  # of a row of a sparse gradient: ids are int32


@dataclasses.dataclass(frozen=True)
class Formula:
    """What a formula says of a layer, beside its variables.

    Attributes:
      output: the shape of its output, all sizes known.
      saved: bytes that its forward keeps for its backward.
      forward_bytes: bytes that its forward has beside these.
      backward_bytes: bytes that its backward has beside those and the
        gradients by its variables.
      tensor_bytes: of a typical tensor among these; 0 for small ones.
      forward: the `Work` of a forward.
      backward: the work of a backward.
      touched: for each variable that is trained, the rows of its gradient;
        None, or nothing, for a dense one.
      uncounted: names of what is not counted, with reasons.
    """

    output: tuple
    saved: float = 0
    forward_bytes: float = 0
    backward_bytes: float = 0
    tensor_bytes: float = 0
    forward: Work = NO_WORK
    backward: Work = NO_WORK
    touched: tuple = ()
    uncounted: tuple = ()


def variables_of(layer, shapes):
    """Returns `(shape, type, whether it is trained)` of each variable.

    A layer that is not built is copied and built without values.

    Args:
      layer: a Keras layer.
      shapes: of its inputs.
    """
    if not layer.built:
        layer = shapes_of.built_without_values(layer, shapes)
    trained = {id(v) for v in layer.trainable_variables}
    # Counters of random seeds are no parameters.
    return [
        (tuple(v.shape), v.dtype, id(v) in trained)
        for v in layer.variables
        if v.dtype in VARIABLE_BYTES
    ]


def part(name, kind, variables, formula, setting):
    """Returns the `Part`.

    Args:
      name: of the layer.
      kind: its class.
      variables: what `variables_of` returns.
      formula: a `Formula`.
      setting: the `Setting`.
    """
    slots, gradient, update = setting.slots, 0.0, NO_WORK
    slot_bytes, updating, filling = 0, 0.0, 0.0
    touched = iter(formula.touched)
    for shape, dtype, is_trained in variables:
        rows = next(touched, None) if is_trained else None
        if not is_trained or slots.optimizer is None:
            continue
        size = math.prod(shape) * BYTES[dtype]
        if rows is not None:
            row_bytes = math.prod(shape[1:]) * BYTES[dtype]
            size = rows * (row_bytes + _INDEX_BYTES)
        gradient += size
        slot_bytes += slots.slot_bytes(shape, dtype)
        update += slots.update(shape, dtype, rows)
        updating = max(updating, slots.update_bytes(shape, dtype, rows))
        filling = max(filling, slots.filling_bytes(shape, dtype))
    sizes = [
        math.prod(shape) * VARIABLE_BYTES[dtype]
        for shape, dtype, _ in variables
    ]
    return Part(
        name,
        kind,
        parameters=sum(math.prod(shape) for shape, _, _ in variables),
        parameter_bytes=sum(sizes),
        gradient_bytes=gradient,
        slot_bytes=slot_bytes,
        saved_bytes=formula.saved,
        forward_bytes=formula.forward_bytes,
        backward_bytes=formula.backward_bytes,
        tensor_bytes=formula.tensor_bytes,
        update_bytes=updating,
        making_bytes=INITIAL_COPIES * max(sizes, default=0),
        filling_bytes=filling,
        is_sparse=any(rows is not None for rows in formula.touched),
        forward=formula.forward,
        backward=formula.backward,
        update=update,
        uncounted=formula.uncounted + (slots.uncounted if gradient else ()),
    )


def product(m, n, k, size, count=1, more=NO_WORK):
    """Returns the `Work` of matrix products forward, and backward.

    Args:
      m: rows of the inputs.
      n: columns of the weights.
      k: rows of the weights.
      size: bytes of a number.
      count: how many there are.
      more: `Work` beside them, once forward and twice backward.
    """

    def work(*products):
        moved = sum(
            p.count * (p.m * p.k + p.k * p.n + p.m * p.n) for p in products
        )
        flops = sum(p.flops for p in products)
        return Work(
            flops, size * moved, count * len(products), products=products
        )

    forward = work(Product(m, n, k, count))
    backward = work(
        Product(m, k, n, count, transposed=True), Product(k, n, m, count)
    )
    return forward + more, backward + more.times(2)


def elementwise(numbers, size, flops=1, passes=2, ops=1):
    """Returns the `Work` of so many FLOPs and passes over numbers."""
    return Work(flops * numbers, passes * size * numbers, ops)


def activation_of(layer):
    """Returns the name of a layer's activation; "linear" for none."""
    function = getattr(layer, "activation", None)
    if function is None:
        return "linear"
    return getattr(function, "__name__", type(function).__name__)
