"""The parts of a Keras model: a walk along its calls."""

import dataclasses

import keras

from tf_hsm.estimation import heads, slots
from tf_hsm.estimation.body import formulas, layer_part, traced
from tf_hsm.estimation.body import shapes as shapes_of
from tf_hsm.estimation.setting import BYTES
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.runtime import model_calls, private_keras


def parts(model, setting, has_head, dtype=None):
    """Returns the `Part`s of a model, in the order of its calls.

    Args:
      model: a Keras model, Functional or Sequential if its layers are to be
        told apart.
      setting: the `Setting`.
      has_head: whether its last layer, if that is `Dense`, is a head.
      dtype: of all variables; None: their own.
    """
    if model_calls.calls_of(model) is None:
        # Built for whatever batch it was called with.
        shapes = [
            _filled((None, *shape[1:]), setting)
            for shape in shapes_of.build_shapes_of(model)
        ]
        return [_whole(model, shapes, setting, "")]
    shapes = [_filled(t.shape, setting) for t in model.inputs]
    # The part of the head has the table, with its dense gradient.
    tied = {
        id(layer.tied_to)
        for layer in private_keras.layers_of(model)
        if isinstance(layer, HierarchicalSoftmax) and layer.tied_to is not None
    }
    return _Walk(setting, dtype, tied).parts(model, shapes, has_head)


class _Walk:
    """Goes along the calls of a model, and of those within.

    Args:
      setting: the `Setting`.
      dtype: of all variables, or None.
      known: ids of layers whose variables another part counts.
    """

    def __init__(self, setting, dtype, known):
        self._setting = setting
        self._dtype = dtype
        self._known = known

    def parts(self, model, shapes, has_head, prefix=""):
        """Returns the parts of a model for inputs of some shapes."""
        shape_of = {
            id(tensor): shape
            for tensor, shape in zip(model.inputs, shapes, strict=True)
        }
        ends = {id(t) for t in model.outputs}
        found = []
        for call in model_calls.calls_of(model):
            layer = call.operation
            if isinstance(layer, keras.layers.InputLayer):
                continue
            shapes = [shape_of[id(t)] for t in call.inputs]
            outputs = self._outputs(call, shapes)
            for tensor, shape in zip(call.outputs, outputs, strict=True):
                shape_of[id(tensor)] = shape
            is_last = any(id(t) in ends for t in call.outputs)
            parts = self._of_call(
                call, shapes, outputs[0], has_head and is_last, prefix
            )
            if id(layer) in self._known:
                parts = [part.again() for part in parts]
            self._known.add(id(layer))
            found += parts
        return found

    def _of_call(self, call, shapes, output, may_be_head, prefix):
        layer, setting = call.operation, self._setting
        name = f"{prefix}{layer.name}"
        if isinstance(layer, keras.Model):
            if model_calls.calls_of(layer) is None:
                return [_whole(layer, shapes, setting, prefix)]
            return self.parts(layer, shapes, False, f"{name}/")
        head = heads.of_layer(layer)
        is_dense = type(layer) is keras.layers.Dense
        if may_be_head and is_dense and layer.quantization_mode is None:
            head = heads.of(layer)
        if head is not None:
            return _head_parts(head, layer.trainable, shapes[0], setting, name)
        variables = []
        if isinstance(layer, keras.layers.Layer):
            variables = layer_part.variables_of(layer, shapes)
        if self._dtype is not None:
            variables = [
                (shape, self._dtype if dtype in BYTES else dtype, is_trained)
                for shape, dtype, is_trained in variables
            ]
        formula = formulas.formula_of(
            layer,
            shapes,
            [t.dtype for t in call.inputs],
            output,
            setting,
            call.filled,
        )
        kind = type(layer).__name__
        return [layer_part.part(name, kind, variables, formula, setting)]

    def _outputs(self, call, shapes):
        """The shapes of what a call returns."""
        is_as_built = all(
            tuple(tensor.shape[1:]) == shape[1:]
            for tensor, shape in zip(call.inputs, shapes, strict=True)
        )
        if not is_as_built:
            return shapes_of.output_shapes_of(call, shapes)
        return [_filled(t.shape, self._setting) for t in call.outputs]


def _whole(model, shapes, setting, prefix):
    """A model whose calls are not known beforehand, traced as one."""
    # Nothing tells whether it takes numbers or ids.
    for dtype in ("float32", "int32"):
        dtypes = [dtype] * len(shapes)
        formula = traced.formula(model, shapes, dtypes, None)
        if formula.forward.flops:
            break
    inner = [
        f"{layer.name}: a head within a model whose calls are not known; its "
        "ops are counted, its own optimizer is not"
        for layer in private_keras.layers_of(model)
        if heads.of_layer(layer) is not None
    ]
    formula = dataclasses.replace(
        formula, uncounted=formula.uncounted + tuple(inner)
    )
    return layer_part.part(
        f"{prefix}{model.name}",
        type(model).__name__,
        layer_part.variables_of(model, shapes),
        formula,
        setting,
    )


def _head_parts(head, is_trained, shape, setting, name):
    """Those of a head for inputs of a shape, each with one label."""
    if not is_trained:
        setting = dataclasses.replace(setting, slots=slots.of(None))
    found = head.parts_of(shape, setting)
    if not is_trained:
        found = [
            dataclasses.replace(p, gradient_bytes=0, in_place=False)
            for p in found
        ]
    return [part.named(part.name.replace(head.name, name, 1)) for part in found]


def _filled(shape, setting):
    """Replaces what is not known: first the batch, then the length."""
    return tuple(
        size if size is not None else setting.length if place else setting.batch
        for place, size in enumerate(shape)
    )
