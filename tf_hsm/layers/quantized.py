"""Head layers with weights in 8 or 4 bits, by Keras' protocol.

`model.quantize(mode)` asks each layer for `layer.quantize(mode)`, which changes
the layer's policy of types. The policy is in the layer's config, so that a
loaded layer is made with variables of codes.
"""

import dataclasses

import keras
import tensorflow as tf

from tf_hsm.heads import part_calls
from tf_hsm.heads.cluster_head import ClusterHead
from tf_hsm.heads.label_tree_head import LabelTreeHead
from tf_hsm.heads.parts import Part
from tf_hsm.heads.sharded import ShardedHead
from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.layers.in_place import InPlace
from tf_hsm.runtime import private_keras, quantized_rows, row_parts
from tf_hsm.runtime.quantized_rows import QuantizedRows
from tf_hsm.runtime.replicas import copies_of, strategy_of

_POLICIES = {"int8": "int8", "int4": f"int4/{quantized_rows.BLOCK}"}
_HEADS = (TreeHead, LabelTreeHead, ClusterHead, ShardedHead)
_PARTS = (*_HEADS, Part)


def cpu_of(device):
    """Returns the name of the CPU that has codes, for the name of a device."""
    device = tf.DeviceSpec.from_string(device or "")
    index = device.device_index or 0
    return device.replace(device_type="CPU", device_index=index).to_string()


def make_rows(layer, name, num_rows, width, device=None):
    """Returns `QuantizedRows` of zeros, whose variables a layer gets.

    Args:
      layer: the layer, whose policy of types says the mode.
      name: of the weights.
      num_rows: of the weights.
      width: of a row.
      device: the name of the device of a shard or a tail; or None.
    """
    codes, scales = quantized_rows.shapes(
        layer.quantization_mode, num_rows, width
    )
    made = []
    with row_parts.on(cpu_of(device)):
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


def freeze(biases):
    """Keeps biases beside codes, or None, out of the optimizers of models."""
    if biases is not None:
        biases.trainable = False


def place(weights, placement):
    """Notes the `Placement` of a variable, or of the variables of codes."""
    device, part = placement
    for number, variable in enumerate(quantized_rows.variables(weights)):
        if part is not None and part.rows.size == part.num_rows:
            # `part.whole` may be the id of the variable that the codes replace.
            of_kind = row_parts.whole_of(variable)
        else:
            of_kind = part and part._replace(whole=(part.whole, number))
        row_parts.place(variable, device, of_kind)


def check_floats(layer, method):
    """Raises a ValueError if a layer is quantized, for an error of `method`."""
    if layer.quantization_mode is not None:
        raise ValueError(
            f"{layer.name}: {method} is not possible with weights in "
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
    elif layer._no_quantized_form():
        reason = f"this layer: {layer._no_quantized_form()}"
    elif not all(map(_is_cpu, layer._device_names())):
        names = ", ".join(layer._device_names())
        reason = f"the devices {names}; they must be CPUs"
    else:
        private_keras.mark_quantized(layer)
        return
    raise ValueError(f"{layer.name}: no quantized weights for {reason}")


def quantize(layer, mode):
    """Replaces the weights of a built layer by codes and scales.

    One part of the head after the other: the floats of a shard are freed before
    the next shard gets codes. The layer's own optimizer goes, since the layer
    no longer trains.

    Args:
      layer: the head layer.
      mode: "int8" or "int4".

    Raises:
      NotImplementedError: the layer or the mode has no quantized form. Keras'
        `model.quantize` then warns and leaves the layer as it is.
      ValueError: a weight is not finite, or other workers have some of the
        rows.
    """
    reason = _refusal(layer, mode)
    if reason is not None:
        raise NotImplementedError(
            f"{layer.name}: no quantized weights for {reason}"
        )
    _check_rows(layer._head.tree_heads())
    # An error so far has changed nothing.
    if layer.in_place.anchor is not None:
        private_keras.untrack(layer, layer.in_place.anchor)
    del layer.optimizer  # TensorFlow tracks an attribute until it is deleted
    layer.in_place, layer.optimizer = InPlace(), None
    private_keras.mark_quantized(layer)
    if layer.quantization_mode is None:
        layer.dtype_policy = keras.dtype_policies.get(
            f"{_POLICIES[mode]}_from_{layer.dtype_policy.name}"
        )
    for number in range(len(layer._head.tree_heads())):
        _quantize_part(layer, number)


def _quantize_part(layer, number):
    """Replaces the weights of one of the `TreeHead`s of a layer."""
    head = layer._head.tree_heads()[number]
    old = head.weights
    placement = row_parts.placement_of(old)
    with row_parts.beside(old), strategy_of(old):
        new = make_rows(layer, old.name, *old.shape, placement.device)
    place(new, placement)
    new.assign(old.value)
    _replace_attributes(layer, old, new)
    private_keras.untrack(layer, old)
    freeze(head.biases)
    layer._head = _replaced(layer._head, {id(old): new})


def _check_rows(heads):
    """Raises a ValueError if a weight is not finite, or on another worker.

    Args:
      heads: a list of `TreeHead`s.
    """
    part_calls.check_here(heads)
    for weights in (head.weights for head in heads):
        for block in row_parts.blocks(*weights.shape):
            with row_parts.beside(weights):
                rows = weights.value[block]
                is_finite = tf.reduce_all(tf.math.is_finite(rows))
            if not is_finite:
                raise ValueError("weights must be finite to be quantized")


def drop_originals(head):
    """Drops the rows that `QuantizedRows.keep` stored.

    Args:
      head: the head of a layer, or None.
    """
    if type(head) in _HEADS:
        for part in head.tree_heads():
            if isinstance(part.weights, QuantizedRows):
                part.weights.originals = None


def _refusal(layer, mode):
    """Returns what has no quantized form, or None."""
    head = layer._head
    if mode not in quantized_rows.MODES:
        return f"the mode {mode!r}; the modes are {quantized_rows.MODES}"
    if layer._no_quantized_form():
        return f"this layer: {layer._no_quantized_form()}"
    if type(head) not in _HEADS:
        return f"a {type(layer).__name__}"
    if layer.variable_dtype != "float32":
        return f"variables of {layer.variable_dtype}; they must be float32"
    if not all(map(_is_on_cpu, layer.row_variables())):
        return (
            'variables that are not on "CPU:0"; make the layer there, or with '
            "devices that are CPUs"
        )
    return None


def _is_on_cpu(variable):
    copies = copies_of(variable)
    devices = [tf.DeviceSpec.from_string(copy.device) for copy in copies]
    is_placed = row_parts.placement_of(variable).device is not None
    may_be_any = is_placed or len(copies) > 1
    return all(
        (device.device_type or "CPU") == "CPU"
        and (may_be_any or not device.device_index)
        for device in devices
    )


def _is_cpu(name):
    """Returns whether the name of a device names a CPU, or no type at all."""
    try:
        return tf.DeviceSpec.from_string(name).device_type in (None, "CPU")
    except ValueError:
        return True  # another error says that there is no such device


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
    """Returns a head, or parts, with the `rows` for variables of some ids."""
    if isinstance(part, tuple):
        return tuple(_replaced(p, rows) for p in part)
    if isinstance(part, ShardedHead):
        return part.with_heads(lambda head: _replaced(head, rows))
    if not isinstance(part, _PARTS):
        return rows.get(id(part), part)
    fields = {
        field.name: _replaced(getattr(part, field.name), rows)
        for field in dataclasses.fields(part)
        if field.init
    }
    return dataclasses.replace(part, **fields)
