"""What makes the inputs of a head: a Keras model, walked along its calls."""

import dataclasses
import math

import keras

from tf_hsm.estimation import heads, slots
from tf_hsm.estimation.body import formulas, traced
from tf_hsm.estimation.body import shapes as shapes_of
from tf_hsm.estimation.part import BYTES, VARIABLE_BYTES, Part
from tf_hsm.estimation.slots import Variable, part_with
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.runtime import model_calls, private_keras


@dataclasses.dataclass(frozen=True)
class Body:
    """A Keras model, whose variables may have no values.

    Attributes:
      name: in reports.
      model: the model.
      width: of its output, the D of a head.
      leading: the sizes of its output between batch and width; None for any
        length of a sequence.
      length: the only length of a sequence that it takes; None: any.
      dtypes: of variables and of activations; None: as the setting says.
    """

    name: str
    model: keras.Model
    width: int
    leading: tuple
    length: int | None = None
    dtypes: tuple[str, str] | None = None

    def vectors(self, length) -> int:
        """Returns the vectors, each for a head's label, of an example."""
        return math.prod(size or length for size in self.leading)

    def parts(self, setting, has_head=True, dtype=None) -> list[Part]:
        """Returns its parts, in the order of its calls.

        Args:
          setting: the `Setting`.
          has_head: whether a `Dense` layer at its end is a head.
          dtype: of all variables; None: their own, if they have any.
        """
        model = self.model
        if self.dtypes is None:
            dtype = setting.dtype
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
            if isinstance(layer, HierarchicalSoftmax)
        }
        return _Walk(setting, dtype, tied).parts(model, shapes, has_head)


def of(value):
    """Returns the `Body` of a Keras model or layer, or of a `Body`."""
    if isinstance(value, Body):
        return value
    if not isinstance(value, keras.layers.Layer):
        raise TypeError(
            "body must be a Keras model, a text, what "
            "tf_hsm.estimation.transformer or recurrent returns, or None, not "
            f"{type(value).__name__}"
        )
    calls = model_calls.calls_of(value)
    if calls is None and not value.built:
        raise ValueError(
            f"body is {value.name!r}, which is not built: begin it with "
            "keras.Input, or call it once"
        )
    policy = value.dtype_policy
    for layer in getattr(value, "layers", None) or [value]:
        if layer.dtype_policy.compute_dtype != "float32":
            policy = layer.dtype_policy
    length, shape = None, shapes_of.output_shape_of(value)
    for call in calls or ():
        is_last = call.outputs[0] is value.outputs[0]
        if is_last and heads.of_layer(call.operation) is not None:
            shape = call.inputs[0].shape
    if calls is not None:
        given = value.inputs[0]
        rank = len(given.shape)
        if rank == 3 or (rank == 2 and "int" in given.dtype):
            length = given.shape[1]
    return Body(
        value.name,
        value,
        shape[-1],
        tuple(shape[1:-1]),
        length,
        (policy.variable_dtype, policy.compute_dtype),
    )


def dense(inputs, units, setting, name):
    """Returns the part of a Dense layer on `[setting.tokens, inputs]`."""
    layer, tokens = keras.layers.Dense(units), setting.tokens
    shapes, output = [(tokens, inputs)], (tokens, units)
    part = formulas.formula_of(layer, shapes, [], output, setting)
    return _finished(part, layer, shapes, setting, name, setting.dtype)


class _Walk:
    """Walks the calls of a model, and of the models within it.

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
        dtypes = [t.dtype for t in call.inputs]
        part = formulas.formula_of(
            layer, shapes, dtypes, output, setting, call.filled
        )
        return [_finished(part, layer, shapes, setting, name, self._dtype)]

    def _outputs(self, call, shapes):
        """The shapes of what a call returns."""
        is_as_built = all(
            tuple(tensor.shape[1:]) == shape[1:]
            for tensor, shape in zip(call.inputs, shapes, strict=True)
        )
        if not is_as_built:
            return shapes_of.output_shapes_of(call, shapes)
        return [_filled(t.shape, self._setting) for t in call.outputs]


def _finished(part, layer, shapes, setting, name, dtype=None):
    """Returns the part of a layer with its variables, its name and its kind."""
    part = part_with(_variables_of(layer, shapes, dtype), part, setting)
    return dataclasses.replace(part, name=name, kind=type(layer).__name__)


def _variables_of(layer, shapes, dtype=None):
    """Returns the `Variable`s of a layer or operation, a list.

    A layer that is not built is copied and built without values. `dtype` is of
    all variables that are floats; None: their own.
    """
    if not isinstance(layer, keras.layers.Layer):
        return []
    if not layer.built:
        layer = shapes_of.built_without_values(layer, shapes)
    trained = {id(v) for v in layer.trainable_variables}
    # Counters of random seeds are no parameters.
    return [
        Variable(
            tuple(v.shape),
            dtype if dtype and v.dtype in BYTES else v.dtype,
            id(v) in trained,
        )
        for v in layer.variables
        if v.dtype in VARIABLE_BYTES
    ]


def _whole(model, shapes, setting, prefix):
    """A model whose calls are not known beforehand, traced as one."""
    # Nothing tells whether it takes numbers or ids.
    for dtype in ("float32", "int32"):
        part = traced.formula(model, shapes, [dtype] * len(shapes))
        if part.forward.flops:
            break
    inner = tuple(
        f"{layer.name}: a head within a model whose calls are not known; its "
        "ops are counted, its own optimizer is not"
        for layer in private_keras.layers_of(model)
        if heads.of_layer(layer) is not None
    )
    part = dataclasses.replace(part, uncounted=part.uncounted + inner)
    return _finished(part, model, shapes, setting, f"{prefix}{model.name}")


def _head_parts(head, is_trained, shape, setting, name):
    """Returns the parts of a head for inputs of a shape, with a label each."""
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
