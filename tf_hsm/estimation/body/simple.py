"""Formulas of layers that take each vector, or each number, by itself."""

import math

from tf_hsm.estimation.body.layer_part import (
    Formula,
    activation_of,
    elementwise,
    product,
)

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
_OTHER = (2, 5)


def activated(name, numbers, size):
    """Returns bytes kept by an activation, and its `Work`."""
    kept, flops = _ACTIVATIONS.get(name, _OTHER)
    work = elementwise(numbers, size, flops, 2 * bool(flops), bool(flops))
    return kept * numbers * size, work


def dense(layer, shapes, setting):
    """2 m n k FLOPs; keeps its output."""
    (shape,) = shapes
    return dense_of(
        shape, layer.units, layer.use_bias, activation_of(layer), setting
    )


def dense_of(shape, units, use_bias, activation, setting):
    """The formula of a Dense layer."""
    vectors, size = math.prod(shape[:-1]), setting.compute_itemsize
    numbers = vectors * units
    kept, work = activated(activation, numbers, size)
    if use_bias:
        work += elementwise(numbers, size)
    forward, backward = product(vectors, units, shape[-1], size, more=work)
    return Formula(
        (*shape[:-1], units),
        saved=numbers * size + kept,
        tensor_bytes=numbers * size,
        backward_bytes=vectors * shape[-1] * size,
        forward=forward,
        backward=backward,
    )


def embedding(layer, shapes, setting):
    """A look-up: no FLOPs. The gradient is one row for each token."""
    (shape,) = shapes
    tokens, size = math.prod(shape), setting.compute_itemsize
    numbers = tokens * layer.output_dim
    work = elementwise(numbers, size, 0)
    return Formula(
        (*shape, layer.output_dim),
        saved=numbers * size,
        tensor_bytes=numbers * size,
        forward=work,
        backward=work,
        touched=(tokens,),
    )


def kept(copies, flops, passes, ops):
    """Returns the formula of layers that change no shape.

    Args:
      copies: tensors of the size of the output that they keep.
      flops: of a number.
      passes: over all numbers.
      ops: kernels.
    """

    def formula(layer, shapes, setting):
        del layer
        shape, size = shapes[0], setting.compute_itemsize
        numbers = math.prod(shape)
        work = elementwise(numbers, size, flops, passes, ops)
        return Formula(
            shape,
            saved=copies * numbers * size,
            tensor_bytes=numbers * size,
            backward_bytes=numbers * size,
            forward=work,
            backward=work.times(2),
        )

    return formula


def activation(layer, shapes, setting):
    """An activation by itself; keeps its output."""
    shape, size = shapes[0], setting.compute_itemsize
    numbers = math.prod(shape)
    more, work = activated(activation_of(layer), numbers, size)
    return Formula(
        shape,
        saved=numbers * size + more,
        tensor_bytes=numbers * size,
        backward_bytes=numbers * size,
        forward=work,
        backward=work.times(2),
    )


def reshaped(layer, shapes, setting):
    """Layers that give numbers another shape, and compute nothing."""
    del setting
    shape = layer.compute_output_shape(
        shapes[0] if len(shapes) == 1 else shapes
    )
    total, known = math.prod(shapes[0]), [s for s in shape if s is not None]
    return Formula(
        tuple(
            total // math.prod(known) if size is None else size
            for size in shape
        )
    )


def merged(layer, shapes, setting):
    """Layers that join inputs, number by number or one after the other."""
    shape = tuple(layer.compute_output_shape(shapes))
    numbers, size = math.prod(shape), setting.compute_itemsize
    work = elementwise(numbers, size, len(shapes) - 1, len(shapes) + 1)
    return Formula(
        shape,
        saved=numbers * size,
        tensor_bytes=numbers * size,
        forward=work,
        backward=work,
    )


def pooled(layer, shapes, setting):
    """Pooling: one operation for each input; keeps its output."""
    shape = tuple(layer.compute_output_shape(shapes[0]))
    numbers, size = math.prod(shapes[0]), setting.compute_itemsize
    work = elementwise(numbers, size)
    return Formula(
        shape,
        saved=math.prod(shape) * size,
        tensor_bytes=math.prod(shape) * size,
        backward_bytes=numbers * size,
        forward=work,
        backward=work.times(2),
    )


def convolution(layer, shapes, setting):
    """2 FLOPs for each output, place of the kernel and channel below it."""
    shape = tuple(layer.compute_output_shape(shapes[0]))
    size, numbers = setting.compute_itemsize, math.prod(shape)
    channels = shapes[0][1 if layer.data_format == "channels_first" else -1]
    depth = math.prod(layer.kernel_size) * channels // layer.groups
    kept, work = activated(activation_of(layer), numbers, size)
    if layer.use_bias:
        work += elementwise(numbers, size)
    forward, backward = product(
        numbers // layer.filters,
        layer.filters // layer.groups,
        depth,
        size,
        layer.groups,
        work,
    )
    return Formula(
        shape,
        saved=numbers * size + kept,
        tensor_bytes=numbers * size,
        backward_bytes=math.prod(shapes[0]) * size,
        forward=forward,
        backward=backward,
    )
