"""Prompts that a decoder goes on from."""

import keras
import numpy as np
import tensorflow as tf

from tf_hsm.decoding import _sequences
from tf_hsm.runtime import arguments


def read_prompts(step, state, prompts):
    """Reads prompts of any lengths, for a decoder to go on from.

    >>> state, start = read_prompts(step, state, [[7], [3, 1, 4]])
    >>> sequences = Sampler()(step, state, head, length=9, start=start)

    The prompts are read in parallel, as if padded on the left. The state of a
    shorter prompt stays what it is until its first class.

    Args:
      step: a function `(classes, state) -> (hidden, state)`; see
        `tf_hsm.decoding`. While a shorter prompt waits, `step` gets the class 0
        for its entry, and the result is dropped.
      state: the first state, a nest of tensors `[batch, ...]`.
      prompts: lists of classes, or a `tf.RaggedTensor` of these, one for each
        entry of the batch; or integers `[batch, length]` with -1 on the left of
        shorter prompts. Each has at least one class.

    Returns:
      The state after all classes but the last of each prompt, and these last
      classes, `[batch]` int64: `state` and `start` of a decoder.

    Raises:
      TypeError: the prompts are no integers.
      ValueError: a prompt is empty or has -1 behind a class, where values are
        known before the graph runs; the state is of another batch; or `step`
        returned something else.
    """
    if isinstance(prompts, tf.RaggedTensor):
        # Reversed, padded on the right, and reversed again.
        lengths = prompts.row_lengths()
        prompts = tf.reverse_sequence(prompts.to_tensor(-1), lengths, 1)
        prompts = tf.reverse(prompts, [1])
    elif isinstance(prompts, list | tuple) and any(map(np.ndim, prompts)):
        if any(np.ndim(prompt) != 1 for prompt in prompts):
            raise ValueError(
                "prompts must be lists of classes, one for each entry of the "
                "batch"
            )
        for prompt in filter(len, prompts):
            arguments.integers(prompt, "prompts")
        prompts = keras.utils.pad_sequences(prompts, dtype=np.int64, value=-1)
    prompts = tf.cast(arguments.integers(prompts, "prompts"), tf.int64)
    if prompts.shape.rank != 2:
        raise ValueError(
            f"prompts must be [batch, length], but have the shape "
            f"{prompts.shape}"
        )
    known = tf.get_static_value(prompts)
    if known is not None and not _is_padded_on_the_left(known):
        raise ValueError(
            "each prompt must have at least one class, and -1 may only stand "
            "to the left of its classes"
        )

    def read(state, classes):
        _, new = _sequences.read(step, tf.maximum(classes, 0), state)

        def where_read(new, old):
            is_read = tf.reshape(classes >= 0, [-1] + [1] * (old.ndim - 1))
            return tf.where(is_read, new, old)

        return tf.nest.map_structure(where_read, new, state)

    start = _sequences.first_classes(prompts[:, -1], state)
    state = tf.nest.map_structure(tf.convert_to_tensor, state)
    state = tf.foldl(read, tf.transpose(prompts[:, :-1]), state)
    return state, start


def _is_padded_on_the_left(prompts):
    is_class = prompts >= 0
    if not is_class.shape[1]:
        return False
    return is_class[:, -1].all() and (np.diff(is_class.astype(int)) >= 0).all()
