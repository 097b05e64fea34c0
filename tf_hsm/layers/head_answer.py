"""The answers of a head as layers of a functional model."""

import functools
import inspect

import keras
import numpy as np

from tf_hsm._head_reference import HeadReference, reference_to

_TENSORS = {"inputs", "classes", "allowed"}


@keras.saving.register_keras_serializable("tf_hsm")
class HeadAnswer(keras.layers.Layer):
    """A method of a head as a layer that follows `head(inputs)`.

    It has no weights of its own. So a model is saved with one copy of the head,
    however many answers it returns.

    Args:
      method: the name of the method.
      options: its arguments beside `inputs` and `classes`, by name, as JSON can
        hold them.
      head: the head; None in a file of an earlier version.
      **kwargs: as for every Keras layer.
    """

    def __init__(self, method, options, head, **kwargs):
        # Inputs keep the type that the head has taken.
        super().__init__(**{"dtype": "float32", "autocast": False, **kwargs})
        self.method = method
        self.options = options
        self.reference = reference_to(head)
        self.supports_masking = True
        # As the head itself.
        self.supports_jit = False

    def call(self, hidden, classes=None, allowed=None):
        """Returns the answer for hidden vectors `[..., width]`.

        About `classes` [..., C] if any, and among those in `allowed` [..., M].
        """
        given = {"inputs": hidden, "classes": classes, "allowed": allowed}
        given = {k: v for k, v in given.items() if v is not None}
        method = getattr(self.reference.get(), self.method)
        return method(**given, **self.options)

    def get_config(self):
        """Returns the arguments of the constructor, the head by its name."""
        return {
            **super().get_config(),
            "method": self.method,
            "options": dict(self.options),
            "head": self.reference.name,
        }

    @classmethod
    def from_config(cls, config):
        """Makes the layer that `get_config` described; see `HeadReference`."""
        head = HeadReference.of_file(config.pop("head", None))
        return cls(head=head, **config)


def in_functional_models(method):
    """Lets a method of a head take KerasTensors, and return such.

    It takes `inputs` and perhaps `classes` and `allowed`; all else is numbers,
    and so may these be.
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def with_symbols(self, *args, **kwargs):
        try:
            given = signature.bind(self, *args, **kwargs).arguments
        except TypeError:
            return method(self, *args, **kwargs)  # whose error names it
        symbols = [name for name in given if _is_symbol(given[name])]
        if not symbols:
            return method(self, *args, **kwargs)
        if "inputs" not in symbols or set(symbols) - _TENSORS:
            raise TypeError(
                f"{method.__name__} takes KerasTensors as inputs, classes and "
                "allowed, and inputs must be one, but here they are "
                f"{' and '.join(symbols)}"
            )
        if given.get("rescore") is not None:
            raise ValueError(
                "rescore is not possible with KerasTensors, because files of a "
                "model do not hold the original rows; call "
                f"{self.name}.{method.__name__} on tensors"
            )
        del given["self"]
        if "k" in given:
            self._check_k(given["k"])
        hidden = self(given.pop("inputs"))
        # What is allowed for all inputs is a number like others.
        tensors = {
            name: given.pop(name)
            for name in ("classes", *symbols)
            if name in given
        }
        options = {name: _as_json(value) for name, value in given.items()}
        return HeadAnswer(method.__name__, options, self)(hidden, **tensors)

    return with_symbols


def _is_symbol(value):
    # Inputs may be several tensors.
    return any(
        isinstance(part, keras.KerasTensor)
        for part in keras.tree.flatten(value)
    )


def _as_json(value):
    """Numbers, and arrays of them, as Python has them."""
    return np.asarray(value).tolist() if hasattr(value, "dtype") else value
