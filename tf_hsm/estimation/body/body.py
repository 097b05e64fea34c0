"""What makes the inputs of a head."""

import dataclasses
import math

import keras

from tf_hsm.estimation import heads
from tf_hsm.estimation.body import keras_model
from tf_hsm.estimation.body import shapes as shapes_of
from tf_hsm.estimation.part import Part
from tf_hsm.runtime import model_calls


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
        """Returns its parts.

        Args:
          setting: the `Setting`.
          has_head: whether a `Dense` layer at its end is a head.
          dtype: of all variables; None: their own, if they have any.
        """
        if self.dtypes is None:
            dtype = setting.dtype
        return keras_model.parts(self.model, setting, has_head, dtype)


def of(value):
    """Returns the `Body` of a Keras model or layer, or of a `Body`.

    Raises:
      ValueError: a model is not built, so that nothing says what it takes.
      TypeError: it is something else.
    """
    if isinstance(value, Body):
        return value
    if not isinstance(value, keras.layers.Layer):
        raise TypeError(
            "body must be a Keras model, a text, what "
            "tf_hsm.estimation.transformer or recurrent returns, or None, not "
            f"{type(value).__name__}"
        )
    if model_calls.calls_of(value) is None and not value.built:
        raise ValueError(
            f"body is {value.name!r}, which is not built: begin it with "
            "keras.Input, or call it once"
        )
    policy = value.dtype_policy
    model = getattr(value, "layers", None) or [value]
    for layer in model:
        if layer.dtype_policy.compute_dtype != "float32":
            policy = layer.dtype_policy
    shape = _shape_of_vectors(value)
    return Body(
        value.name,
        value,
        shape[-1],
        tuple(shape[1:-1]),
        _length(value),
        (policy.variable_dtype, policy.compute_dtype),
    )


def _shape_of_vectors(model):
    """The shape of its output, or, of a model with a head, of its inputs."""
    for call in model_calls.calls_of(model) or ():
        is_last = call.outputs[0] is model.outputs[0]
        if is_last and heads.of_layer(call.operation) is not None:
            return call.inputs[0].shape
    return shapes_of.output_shape_of(model)


def _length(model):
    """The size of the second dimension of a model's first input."""
    if model_calls.calls_of(model) is None:
        return None
    tensor = model.inputs[0]
    shape = tensor.shape
    is_sequence = len(shape) == 3 or (len(shape) == 2 and "int" in tensor.dtype)
    return shape[1] if is_sequence else None
