"""What Keras layers do, by formulas: each returns a `Part` without variables.

A formula takes the layer, the shapes of its inputs, the shape of its output and
the `Setting`. All sizes are known.
"""

import dataclasses
import math
from typing import NamedTuple

import keras

from tf_hsm.estimation.body import traced
from tf_hsm.estimation.part import NO_WORK, Part, elementwise, product

layers = keras.layers

# Tensors of the size of the output that an activation keeps beside it, and
# FLOPs of a number.
_ACTIVATIONS = {
    "linear": (0, 0),
    "relu": (0, 1),
    "sigmoid": (0, 4),
    "tanh": (0, 4),
    "softmax": (0, 5),
    "gelu": (4, 10),
    "silu": (2, 5),
    "swish": (2, 5),
    "elu": (0, 3),
    "leaky_relu": (1, 2),
    "softplus": (1, 4),
}
_OTHER_ACTIVATION = (2, 5)


class _Cell(NamedTuple):
    """What a step of a recurrent cell does.

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


# What is kept fits the measured slopes in docs/estimate.md.
_CELLS = {
    layers.LSTM: _Cell(4, 10, 30, 22),
    layers.GRU: _Cell(3, 12, 25, 24),
    layers.SimpleRNN: _Cell(1, 4, 6, 8),
}
# Tensors of the scores `[batch, heads, queries, keys]` that are kept, and that
# there are beside them for a moment; they fit the same slopes.
_SCORES_KEPT, _SCORES_MOMENT = 3, 2


def _activation_of(layer):
    """Returns what `_ACTIVATIONS` has for the activation of a layer."""
    function = getattr(layer, "activation", None) or keras.activations.linear
    name = getattr(function, "__name__", type(function).__name__)
    return _ACTIVATIONS.get(name, _OTHER_ACTIVATION)


def _weighted(layer, shapes, output, setting):
    """2 FLOPs for each output, place of the kernel and channel below it.

    It keeps its output. A Dense layer has a kernel of one place.
    """
    (shape,) = shapes
    size, numbers = setting.compute_itemsize, math.prod(output)
    if isinstance(layer, layers.Dense):
        units, inputs, groups = layer.units, shape[-1], 1
    else:
        channels = shape[1 if layer.data_format == "channels_first" else -1]
        units, groups = layer.filters, layer.groups
        inputs = math.prod(layer.kernel_size) * channels // groups
    kept, flops = _activation_of(layer)
    more = elementwise(numbers, size, flops, 2 * bool(flops), bool(flops))
    if layer.use_bias:
        more += elementwise(numbers, size)
    forward, backward = product(
        numbers // units, units // groups, inputs, size, groups, more
    )
    return Part(
        saved_bytes=numbers * size + kept * numbers * size,
        tensor_bytes=numbers * size,
        backward_bytes=math.prod(shape) * size,
        forward=forward,
        backward=backward,
    )


def _each(copies, flops, passes, ops):
    """Returns the formula of layers that take each number by itself.

    They keep so many copies of their output. The backward does twice the work
    of the forward.
    """

    def formula(layer, shapes, output, setting):
        numbers, size = math.prod(shapes[0]), setting.compute_itemsize
        work = elementwise(numbers, size, flops, passes, ops)
        tensor = math.prod(output) * size
        return Part(
            saved_bytes=copies * tensor,
            tensor_bytes=tensor,
            backward_bytes=numbers * size,
            forward=work,
            backward=work.times(2),
        )

    return formula


def _activation(layer, *call):
    """An activation by itself; keeps its output."""
    kept, flops = _activation_of(layer)
    return _each(1 + kept, flops, 2 * bool(flops), bool(flops))(layer, *call)


def _merged(layer, shapes, output, setting):
    """Layers that join inputs, number by number or one after the other."""
    numbers, size = math.prod(output), setting.compute_itemsize
    work = elementwise(numbers, size, len(shapes) - 1, len(shapes) + 1)
    return Part(
        saved_bytes=numbers * size,
        tensor_bytes=numbers * size,
        forward=work,
        backward=work,
    )


def _embedding(layer, shapes, output, setting):
    """A look-up: no FLOPs. The gradient is one row for each token."""
    part = _merged(layer, shapes, output, setting)
    return dataclasses.replace(part, touched=(math.prod(shapes[0]),))


def _recurrent(layer, shapes, output, setting):
    """2 B T gates units (inputs + units) FLOPs forward.

    On a CPU a `tf.while_loop` takes a step at a time. Its backward finds what
    each step has kept in lists, one for each tensor that the gradient reads.
    """
    batch, length, inputs = shapes[0]
    cell, units = _CELLS[type(layer)], layer.units
    size = setting.compute_itemsize
    numbers, below = batch * length * units, batch * length * inputs
    width = cell.gates * units
    forward, backward = product(batch, width, inputs, size, length)
    more = elementwise(
        numbers, size, cell.flops, 3 * cell.ops, cell.ops * length
    )
    for_states = product(batch, width, units, size, length, more)
    return Part(
        saved_bytes=size * (cell.kept * numbers + below),
        # The gradient of the weights is summed up step by step.
        backward_bytes=size * (2 * width * (inputs + units) + numbers + below),
        forward=forward + for_states[0],
        backward=backward + for_states[1],
    )


def _bidirectional(layer, shapes, output, setting):
    """Both directions, and their merge."""
    one, two = (
        _FORMULAS[type(inner)](inner, shapes, output, setting)
        for inner in (layer.forward_layer, layer.backward_layer)
    )
    numbers, size = math.prod(output), setting.compute_itemsize
    work = elementwise(numbers, size, 1, 3)
    return Part(
        saved_bytes=one.saved_bytes + two.saved_bytes + numbers * size,
        backward_bytes=max(one.backward_bytes, two.backward_bytes),
        forward=one.forward + two.forward + work,
        backward=one.backward + two.backward + work,
    )


def _attention(layer, shapes, output, setting):
    """Attention as Keras runs it: scores in memory (Vaswani et al., 2017).

    Heads may share keys and values (Ainslie et al., 2023).
    """
    config = layer.get_config()
    heads = config.get("num_heads") or config["num_query_heads"]
    groups = config.get("num_key_value_heads", heads)
    key_width = config.get("key_dim") or config["head_dim"]
    value_width = config.get("value_dim") or key_width
    queries, values = shapes[0], shapes[-1]  # keys are made of values too
    size, batch = setting.compute_itemsize, queries[0]
    asked, given = batch * queries[1], batch * values[1]
    width = output[-1]
    # Projections of queries, keys, values and of what comes out.
    projections = [
        (asked, heads * key_width, queries[-1]),
        (given, groups * key_width, values[-1]),
        (given, groups * value_width, values[-1]),
        (asked, width, heads * value_width),
    ]
    forward = backward = NO_WORK
    for m, n, k in projections:
        ways = product(m, n, k, size, more=elementwise(m * n, size))
        forward, backward = forward + ways[0], backward + ways[1]
    scores = batch * heads * queries[1] * values[1]
    # All scores are computed, those that a causal mask hides too.
    soft = elementwise(scores, size, 8, 12, 8)
    for n, k in ((values[1], key_width), (value_width, values[1])):
        ways = product(queries[1], n, k, size, batch * heads)
        # One kernel takes all heads of all sequences.
        forward += ways[0]._replace(ops=1)
        backward += ways[1]._replace(ops=2)
    # Queries, keys, values, scaled queries; copies for heads that share; what
    # the heads give, and the output.
    copies = heads // groups > 1
    numbers = asked * (2 * heads * key_width + heads * value_width + width)
    numbers += given * groups * (key_width + value_width)
    numbers += copies * given * heads * (key_width + value_width)
    kept = _SCORES_KEPT + 2 * bool(config["dropout"])
    return Part(
        saved_bytes=size * (numbers + kept * scores),
        tensor_bytes=size * scores,
        forward_bytes=size * _SCORES_MOMENT * scores,
        backward_bytes=size * (_SCORES_MOMENT * scores + 3 * asked * width),
        forward=forward + soft._replace(softmax=scores),
        backward=backward + soft.times(2),
    )


_FORMULAS = {
    getattr(layers, name): formula
    for formula, names in (
        (_weighted, "Dense Conv1D Conv2D Conv3D"),
        (_embedding, "Embedding"),
        (_recurrent, "LSTM GRU SimpleRNN"),
        (_attention, "MultiHeadAttention GroupQueryAttention"),
        (_each(2, 8, 20, 9), "LayerNormalization"),
        (_each(2, 5, 6, 5), "RMSNormalization"),
        (_each(1, 8, 8, 8), "BatchNormalization"),
        (_each(2, 3, 4, 4), "Dropout"),
        (_activation, "Activation ReLU"),
        (_each(1, 5, 6, 3), "Softmax"),
        (_merged, "Add Subtract Multiply Average Maximum Minimum Concatenate"),
        # They give numbers another shape, and compute nothing.
        (lambda *call: Part(), "Reshape Flatten Permute Identity RepeatVector"),
        (lambda *call: Part(), "Cropping1D ZeroPadding1D"),
        # They keep their output.
        (_each(1, 1, 2, 1), "MaxPooling1D MaxPooling2D"),
        (_each(1, 1, 2, 1), "AveragePooling1D AveragePooling2D"),
        (_each(1, 1, 2, 1), "GlobalMaxPooling1D GlobalMaxPooling2D"),
        (_each(1, 1, 2, 1), "GlobalAveragePooling1D GlobalAveragePooling2D"),
    )
    for name in names.split()
}


def formula_of(layer, shapes, dtypes, output, setting, fill=None):
    """Returns the `Part` of one call of a layer, without its variables.

    The classes above have formulas, those that inherit from them do not: they
    may compute something else. `traced.formula` counts them, and all others.
    """
    kind = type(layer)
    # Masks may be among the inputs of attention, and axes may be several.
    is_plain = _FORMULAS.get(kind) is not _attention or (
        len(shapes) < 3 and all(len(shape) == 3 for shape in shapes)
    )
    if kind in _FORMULAS and is_plain:
        return _FORMULAS[kind](layer, shapes, output, setting)
    if kind is layers.Bidirectional and type(layer.forward_layer) in _FORMULAS:
        return _bidirectional(layer, shapes, output, setting)
    if kind is layers.TimeDistributed and type(layer.layer) in _FORMULAS:
        inner, outer = (
            (math.prod(shape[:2]), *shape[2:]) for shape in (shapes[0], output)
        )
        formula = _FORMULAS[type(layer.layer)]
        return formula(layer.layer, [inner], outer, setting)
    return traced.formula(layer, shapes, dtypes, fill)
