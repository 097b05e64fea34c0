"""Reads texts token by token, for a model that writes them."""

import keras
import numpy as np
import tensorflow as tf

from examples.language_model import recurrent


def reader(body, num_texts):
    """Returns a function from the next tokens to the head's inputs.

    It takes class ids `[num_texts]`, a token of each text, and returns
    `[num_texts, D]`. Recurrent states are zero at first and last from call to
    call. A body without states reads the last tokens again at each call, as
    many as a window of training has.

    Args:
        body: that of a model, from tokens to the head's inputs; it is copied.
        num_texts: how many texts.
    """
    kind = _States if recurrent.layers(body) else _Window
    return kind(body, num_texts)


class _States:
    """A body whose states last."""

    def __init__(self, body, num_texts):
        self._body = _copy(body, (num_texts, 1))

    @tf.function
    def __call__(self, classes):
        return self._body(classes[:, tf.newaxis])[:, 0]


class _Window:
    """A causal body: what stands after a token does not matter to it."""

    def __init__(self, body, num_texts):
        self._steps = body.input.shape[1]
        self._body = _copy(body, (num_texts, self._steps))
        self._last = np.zeros((num_texts, 0), np.int32)

    def __call__(self, classes):
        read = np.column_stack([self._last, classes])[:, -self._steps :]
        self._last = read
        after = self._steps - read.shape[1]
        window = np.pad(read, ((0, 0), (0, after))).astype(np.int32)
        return self._read(window, tf.constant(read.shape[1] - 1))

    @tf.function
    def _read(self, window, position):
        return self._body(window)[:, position]


def _copy(body, shape):
    """A copy for tokens of a shape, in which recurrent states last."""

    def copy(layer):
        config = layer.get_config()
        if isinstance(layer, keras.layers.RNN):
            config["stateful"] = True
        return type(layer).from_config(config)

    tokens = keras.Input(batch_shape=shape, dtype="int32")
    result = keras.models.clone_model(
        body, input_tensors=tokens, clone_function=copy
    )
    result.set_weights(body.get_weights())
    return result
