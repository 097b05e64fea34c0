"""Head layers with weights in 8 or 4 bits, by Keras' protocol.

`model.quantize(mode)` asks each layer for `layer.quantize(mode)`, which changes
the layer's policy of types. The policy is in the layer's config, so that a
loaded layer is made with variables of codes.
"""

import dataclasses

import keras
import tensorflow as tf

from tf_hsm.heads.bags import BagHead
from tf_hsm.heads.clusters import ClusterHead, Tail
from tf_hsm.heads.labels import LabelTreeHead
from tf_hsm.heads.tree import TreeHead
from tf_hsm.layers.in_place import InPlace
from tf_hsm.runtime import private_keras, quantized_rows, row_parts
from tf_hsm.runtime.quantized_rows import QuantizedRows

_POLICIES = {"int8": "int8", "int4": f"int4/{quantized_rows.BLOCK}"}
_HEADS = (TreeHead, LabelTreeHead, BagHead, ClusterHead)
_PARTS = (*_HEADS, Tail)


def make_rows(layer, name, num_rows, width):
    """Returns `QuantizedRows` of zeros, whose variables a layer gets.

    Args:
      layer: the layer, whose policy of types says the mode.
      name: of the weights.
      num_rows: of the weights.
      width: of a row.
    """
    codes, scales = quantized_rows.shapes(
        layer.quantization_mode, num_rows, width
    )
    made = []
    with row_parts.on("CPU:0"):
        for suffix, (shape, dtype) in (("codes", codes), ("scales", scales)):
            made.append(
                layer.add_weight(
                    name=f"{name}_{suffix}",
                    shape=shape,
                    dtype=dtype,
                    initializer="zeros",
                    trainable=False,
                    autocast=False,
                )
            )
            # A tf.train.Checkpoint sees attributes that are variables.
            setattr(layer, f"_{name}_{suffix}", made[-1])
    return QuantizedRows(*made, width)


def check_floats(layer, verb):
    """Raises a ValueError if a layer is quantized, and `verb` needs floats."""
    if layer.quantization_mode is not None:
        raise ValueError(
            f"{layer.name}: {verb} is not possible with weights in "
            f"{layer.quantization_mode}; do it before you quantize"
        )


def check_policy(layer):
    """Raises a ValueError if a layer's quantized policy has no rows here.

    A policy may come from a config, from `dtype=`, or from
    `keras.config.set_dtype_policy`.
    """
    mode = layer.quantization_mode
    if mode is None:
        return
    name = layer.dtype_policy.name
    if not name.startswith(f"{_POLICIES.get(mode)}_from_"):
        reason = f"the policy {name}"
    elif layer.variable_dtype != "float32":
        reason = f"variables of {layer.variable_dtype}"
    elif not layer.can_be_quantized():
        reason = f"a {type(layer).__name__} with these options"
    else:
        private_keras.mark_quantized(layer)
        return
    raise ValueError(f"{layer.name}: no quantized weights for {reason}")


def quantize(layer, head, mode):
    """Replaces the weights of a built layer by codes and scales.

    The layer's own optimizer goes, since the layer no longer trains.

    Args:
      layer: the head layer.
      head: the head of the layer.
      mode: "int8" or "int4".

    Returns:
      The head on the new variables.

    Raises:
      NotImplementedError: the layer or the mode has no quantized form. Keras'
        `model.quantize` then warns and leaves the layer as it is.
    """
    reason = _refusal(layer, head, mode)
    if reason is not None:
        raise NotImplementedError(
            f"{layer.name}: no quantized weights for {reason}"
        )
    parts = head.tree_heads()
    encoded = [quantized_rows.quantize_rows(p.weights, mode) for p in parts]
    # An error so far has changed nothing.
    layer.in_place, layer.optimizer = InPlace(), None
    private_keras.mark_quantized(layer)
    if layer.quantization_mode is None:
        layer.dtype_policy = keras.dtype_policies.get(
            f"{_POLICIES[mode]}_from_{layer.dtype_policy.name}"
        )
    rows = {}
    for part, codes in zip(parts, encoded, strict=True):
        old = part.weights
        new = make_rows(layer, old.name, *old.shape)
        new.codes.assign(codes.codes)
        new.scales.assign(codes.scales)
        rows[id(old)] = new
        _replace_attributes(layer, old, new)
        private_keras.untrack(layer, old)
    return _replaced(head, rows)


def drop_originals(head):
    """Drops the rows that `QuantizedRows.keep` stored.

    Args:
      head: the head of a layer, or None.
    """
    if type(head) in _HEADS:
        for part in head.tree_heads():
            if isinstance(part.weights, QuantizedRows):
                part.weights.originals = None


def _refusal(layer, head, mode):
    """Returns what has no quantized form, or None."""
    if mode not in quantized_rows.MODES:
        return f"the mode {mode!r}; the modes are {quantized_rows.MODES}"
    if type(head) not in _HEADS or not layer.can_be_quantized():
        return f"a {type(layer).__name__} with these options"
    if layer.variable_dtype != "float32":
        return f"variables of {layer.variable_dtype}; they must be float32"
    if not all(map(_is_on_cpu, head.variables())):
        return 'variables that are not on "CPU:0"; make the layer there'
    return None


def _is_on_cpu(variable):
    if isinstance(variable.value, tf.distribute.DistributedValues):
        return False
    device = tf.DeviceSpec.from_string(variable.value.device)
    return (device.device_type or "CPU", device.device_index or 0) == ("CPU", 0)


def _replace_attributes(layer, old, new):
    """Puts rows in the place of a variable among the attributes of a layer."""
    for name, value in list(vars(layer).items()):
        is_private = name.startswith("_")  # or Keras' own
        if value is old:
            delattr(layer, name)
            if not is_private:
                setattr(layer, name, new)
        elif isinstance(value, list) and not is_private:
            setattr(layer, name, [new if v is old else v for v in value])


def _replaced(part, rows):
    """Returns a head, or a part of one, with other weights.

    Args:
      part: a head, a part of one, or a tuple of parts.
      rows: id of a variable -> the `QuantizedRows` in its place.
    """
    if isinstance(part, tuple):
        return tuple(_replaced(p, rows) for p in part)
    if not isinstance(part, _PARTS):
        return rows.get(id(part), part)
    fields = {
        field.name: _replaced(getattr(part, field.name), rows)
        for field in dataclasses.fields(part)
        if field.init
    }
    return dataclasses.replace(part, **fields)
