"""What a head answers, within a functional model."""

import functools
import inspect

import keras
import numpy as np

from tf_hsm import _attached_head
from tf_hsm.runtime import private_keras


@keras.saving.register_keras_serializable("tf_hsm")
class HeadAnswer(keras.layers.Layer):
    """A method of a head as a layer that follows `head(inputs)`.

    It finds the head and its inputs on what the head returned, and has no
    weights of its own. So a model is saved with one copy of the head, however
    many answers it returns.

    Args:
      method: the name of the method.
      options: its arguments beside `inputs` and `classes`, by name, as JSON can
        hold them.
      **kwargs: as for every Keras layer.
    """

    def __init__(self, method, options, **kwargs):
        """See the class."""
        # A cast would lose the head.
        super().__init__(**{"dtype": "float32", "autocast": False, **kwargs})
        self.method = method
        self.options = options
        self.supports_masking = True
        # As the head itself.
        self.supports_jit = False

    def call(self, outputs, classes=None):
        """The answer for a head's `outputs`, about `classes` [..., C] if any.

        Raises:
          ValueError: `outputs` did not come from a head.
        """
        head, inputs = _attached_head.head_of(outputs)
        given = {"inputs": inputs, **self.options}
        if classes is not None:
            given["classes"] = classes
        return getattr(head, self.method)(**given)

    def compute_output_spec(self, outputs, classes=None):
        """The shapes and types of what `call` returns."""
        # Keras would trace `call`, but on tensors that have no head.
        head, inputs = _attached_head.head_of(outputs)
        tensors = {"inputs": inputs}
        if classes is not None:
            tensors["classes"] = classes
        method = functools.partial(getattr(head, self.method), **self.options)
        return private_keras.output_spec(method, **tensors)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "method": self.method,
            "options": dict(self.options),
        }


def in_functional_models(method):
    """Lets a method of a head take KerasTensors, and return such.

    It takes `inputs` and perhaps `classes`; all else is numbers.
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def with_symbols(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        symbols = [name for name in given if _is_symbol(given[name])]
        if not symbols:
            return method(self, *args, **kwargs)
        if "inputs" not in symbols or set(symbols) - {"inputs", "classes"}:
            raise TypeError(
                f"{method.__name__} takes KerasTensors as inputs, or as inputs "
                f"and classes, but here they are {' and '.join(symbols)}"
            )
        del given["self"]
        outputs, classes = self(given.pop("inputs")), given.pop("classes", None)
        options = {name: _as_json(value) for name, value in given.items()}
        answer = HeadAnswer(method.__name__, options)
        return answer(outputs) if classes is None else answer(outputs, classes)

    return with_symbols


def _is_symbol(value):
    return isinstance(value, keras.KerasTensor)


def _as_json(value):
    """Numbers, and arrays of them, as Python has them."""
    return np.asarray(value).tolist() if hasattr(value, "dtype") else value
