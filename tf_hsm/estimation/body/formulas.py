"""Which formula is for which Keras layer."""

import math

import keras

from tf_hsm.estimation.body import (
    attention,
    recurrent_layers,
    simple,
    traced,
)
from tf_hsm.estimation.body.layer_part import Formula

layers = keras.layers

_RECURRENT = (layers.LSTM, layers.GRU, layers.SimpleRNN)
_FORMULAS = {
    layers.Dense: simple.dense,
    layers.Embedding: simple.embedding,
    **dict.fromkeys(_RECURRENT, recurrent_layers.recurrent),
    layers.MultiHeadAttention: attention.multi_head,
    layers.GroupQueryAttention: attention.grouped_query,
    layers.LayerNormalization: simple.kept(2, 8, 20, 9),
    layers.RMSNormalization: simple.kept(2, 5, 6, 5),
    layers.BatchNormalization: simple.kept(1, 8, 8, 8),
    layers.Dropout: simple.kept(2, 3, 4, 4),
    layers.Activation: simple.activation,
    layers.ReLU: simple.activation,
    layers.Softmax: simple.kept(1, 5, 6, 3),
    **dict.fromkeys(
        (layers.Conv1D, layers.Conv2D, layers.Conv3D), simple.convolution
    ),
    **dict.fromkeys(
        (
            *(layers.Add, layers.Subtract, layers.Multiply, layers.Average),
            *(layers.Maximum, layers.Minimum, layers.Concatenate),
        ),
        simple.merged,
    ),
    **dict.fromkeys(
        (
            *(layers.Reshape, layers.Flatten, layers.Permute, layers.Identity),
            *(layers.RepeatVector, layers.Cropping1D, layers.ZeroPadding1D),
        ),
        simple.reshaped,
    ),
    **dict.fromkeys(
        (
            *(layers.MaxPooling1D, layers.MaxPooling2D),
            *(layers.AveragePooling1D, layers.AveragePooling2D),
            *(layers.GlobalAveragePooling1D, layers.GlobalMaxPooling1D),
            *(layers.GlobalAveragePooling2D, layers.GlobalMaxPooling2D),
        ),
        simple.pooled,
    ),
}


def formula_of(layer, shapes, dtypes, output, setting, fill=None):
    """Returns the `Formula` of one call of a layer.

    The classes above have formulas, those that inherit from them do not: they
    may compute something else. They are traced, as all others.

    Args:
      layer: a Keras layer or operation.
      shapes: of its inputs, all sizes known.
      dtypes: of its inputs, names.
      output: the shape of its output.
      setting: the `Setting`.
      fill: makes args and kwargs of a list of inputs; None: they are the args.
    """
    kind = type(layer)
    if kind is layers.InputLayer:
        return Formula(output)
    if kind in _FORMULAS and _has_formula(layer, shapes):
        return _FORMULAS[kind](layer, shapes, setting)
    if kind is layers.Bidirectional and _is_known(layer.forward_layer):
        return recurrent_layers.bidirectional(layer, shapes, setting, _of_known)
    if kind is layers.TimeDistributed and _is_known(layer.layer):
        shape = shapes[0]
        inner = (math.prod(shape[:2]), *shape[2:])
        return _of_known(layer.layer, [inner], setting)
    return traced.formula(layer, shapes, dtypes, output, fill)


def _has_formula(layer, shapes):
    """Whether a call is one that the formula of its layer is for."""
    if not isinstance(
        layer, layers.MultiHeadAttention | layers.GroupQueryAttention
    ):
        return True
    # Masks may be among the inputs, and axes may be several.
    return len(shapes) < 3 and all(len(shape) == 3 for shape in shapes)


def _is_known(layer):
    return type(layer) in _FORMULAS


def _of_known(layer, shapes, setting):
    return _FORMULAS[type(layer)](layer, shapes, setting)
