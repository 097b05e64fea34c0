"""Reads texts token by token, for a model that writes them."""

import keras
import tensorflow as tf

from examples.language_model import recurrent


def reader(body, num_texts):
    """Returns a step as `tf_hsm.decoding` takes it, and the first state.

    `step(classes, state)` takes class ids `[num_texts]`, a token of each text,
    and returns the head's inputs `[num_texts, D]` and the next state. Recurrent
    states are zero at first. A body without states reads the last tokens again
    at each step, as many as a window of training has.

    Args:
        body: that of a model, from tokens to the head's inputs; it is copied.
        num_texts: how many texts.
    """
    kind = _States if recurrent.states(body) else _Window
    step = kind(body, num_texts)
    return step, step.first


class _States:
    """A body with states: they are set before each step."""

    def __init__(self, body, num_texts):
        self._body = _copy(body, (num_texts, 1))
        self._states = recurrent.states(self._body)
        self.first = [tf.zeros_like(variable) for variable in self._states]

    @tf.function
    def __call__(self, classes, state):
        for variable, value in zip(self._states, state, strict=True):
            variable.assign(value)
        hidden = self._body(classes[:, tf.newaxis])[:, 0]
        return hidden, [tf.identity(variable) for variable in self._states]


class _Window:
    """A causal body: what stands after a token does not matter to it.

    The state of a text is its last tokens, and how many they are.
    """

    def __init__(self, body, num_texts):
        self._steps = body.input.shape[1]
        self._body = _copy(body, (num_texts, self._steps))
        self.first = (
            tf.zeros((num_texts, self._steps), tf.int32),
            tf.zeros(num_texts, tf.int32),
        )

    @tf.function
    def __call__(self, classes, state):
        window, count = state
        classes = tf.cast(classes, tf.int32)[:, tf.newaxis]
        is_full = (count == self._steps)[:, tf.newaxis]
        window = tf.where(is_full, tf.roll(window, -1, 1), window)
        count = tf.minimum(count + 1, self._steps)
        at = tf.range(self._steps) == count[:, tf.newaxis] - 1
        window = tf.where(at, classes, window)
        hidden = tf.gather(self._body(window), count - 1, batch_dims=1)
        return hidden, (window, count)


def _copy(body, shape):
    """A copy for tokens of a shape, with states of its own."""
    tokens = keras.Input(batch_shape=shape, dtype="int32")
    result = keras.models.clone_model(body, input_tensors=tokens)
    result.set_weights(body.get_weights())
    return result
