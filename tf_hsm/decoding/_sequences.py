"""Arguments and results of decoders."""

import collections.abc
import typing

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.layers import LabelTree
from tf_hsm.runtime import arguments

# The class behind the end of a sequence.
NONE = np.int64(-1)
# The log-probability of a missing sequence, in the type of sums.
NEVER = np.float64(-np.inf)


class Sequences(typing.NamedTuple):
    """Sequences of classes.

    Attributes:
      classes: `[..., length]`, int64; -1 behind the end of a sequence.
      log_probs: `[...]`, in nats: of each sequence, the sum over its classes,
        given those before.
      lengths: `[...]`, int32: how many classes it has, the end class included.
    """

    classes: tf.Tensor
    log_probs: tf.Tensor
    lengths: tf.Tensor


def check_head(head, *methods):
    """Raises a TypeError unless `head` has the methods of a softmax."""
    for name in ("num_classes", *methods):
        if not hasattr(head, name):
            raise TypeError(
                "head must be a layer of tf_hsm.layers, or have their "
                f"{' and '.join(methods)}, but {type(head).__name__} has no "
                f"{name}"
            )
    if isinstance(head, LabelTree):
        raise TypeError(
            f"{head.name} is a LabelTree, whose labels do not exclude each "
            "other; sequences need a softmax"
        )


def check_takes_vectors(head):
    """Raises a TypeError if the inputs of `head` are ids of embeddings."""
    if hasattr(head, "num_embeddings"):
        raise TypeError(
            f"{head.name} is an {type(head).__name__}, whose inputs are ids, "
            "but a beam search has hidden vectors; give a HierarchicalSoftmax "
            "with its tree, kernel and bias"
        )


def check_classes(name, values, head):
    """Returns a class, several or None as a tuple of ints, each one once.

    A ValueError that names the argument if an entry is no class of the head.
    """
    if values is None:
        return ()
    if hasattr(values, "numpy"):
        values = values.numpy()
    if isinstance(values, collections.abc.Set):
        values = list(values)
    if isinstance(values, str | bytes) or np.ndim(values) > 1:
        raise ValueError(
            f"{name} must be a class or a list of classes, not {values!r}"
        )
    values = [values] if np.ndim(values) == 0 else values
    classes = dict.fromkeys(_checks.check_int(name, c, 0) for c in values)
    for c in classes:
        if c >= head.num_classes:
            raise ValueError(
                f"{name} is {c}; the classes of the head are 0 to "
                f"{head.num_classes - 1}"
            )
    return tuple(classes)


def is_one_of(classes, some):
    """Returns which classes `[...]` are among some ints, `[...]` bool."""
    if not some:
        return tf.zeros_like(classes, tf.bool)
    some = tf.constant(some, classes.dtype)
    return tf.reduce_any(classes[..., tf.newaxis] == some, -1)


def first_classes(start, state):
    """Returns the classes that are read first, `[batch]` int64.

    `start` has one class or `[batch]`, and `state` is a nest of tensors
    `[batch, ...]`.

    Raises:
      TypeError: `start` are no integers.
      ValueError: `start` and `state` are not of one batch.
    """
    start = tf.cast(arguments.integers(start, "start"), tf.int64)
    tensors = [tf.convert_to_tensor(x) for x in tf.nest.flatten(state)]
    if start.shape.rank == 0:
        has_axis = bool(tensors) and tensors[0].shape.rank != 0
        batch = tf.shape(tensors[0])[0] if has_axis else 1
        start = tf.fill([batch], start)
    elif start.shape.rank != 1:
        raise ValueError(
            "start must be one class or a list of them, one for each sequence "
            f"of the batch, but has the shape {start.shape}"
        )
    for tensor in tensors:
        if tensor.shape.rank == 0 or not tensor.shape[:1].is_compatible_with(
            start.shape
        ):
            raise ValueError(
                "start and all tensors of state must have the batch as their "
                f"first axis, but have the shapes {start.shape} and "
                f"{', '.join(str(x.shape) for x in tensors)}"
            )
    return start


def read(step, classes, state):
    """Returns the hidden vectors `[B, width]` and the new state of `step`."""
    result = step(classes, state)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise ValueError(
            "step must return (hidden, state), but returned "
            f"{type(result).__name__}"
        )
    hidden, new_state = tf.convert_to_tensor(result[0]), result[1]
    shape = hidden.shape
    if (
        shape.rank != 2
        or shape[1] is None
        or not shape[:1].is_compatible_with(classes.shape)
    ):
        raise ValueError(
            "step must return hidden of the shape [sequences, width], but for "
            f"classes {classes.shape} it returned {shape}"
        )
    try:
        tf.nest.assert_same_structure(state, new_state, check_types=False)
    except ValueError as error:
        raise ValueError(
            "step must return a state of the structure that it was given: "
            f"{error}"
        ) from error
    tensors = [
        _like(old, new)
        for old, new in zip(
            tf.nest.flatten(state), tf.nest.flatten(new_state), strict=True
        )
    ]
    return hidden, tf.nest.pack_sequence_as(state, tensors)


def _like(old, new):
    """Returns a tensor of the new state, of the old one's shape."""
    new = tf.convert_to_tensor(new)
    if new.dtype != old.dtype or not new.shape.is_compatible_with(old.shape):
        raise ValueError(
            "step must return a state of the shapes and types that it was "
            f"given, but for {old.dtype.name} {old.shape} it returned "
            f"{new.dtype.name} {new.shape}"
        )
    return tf.ensure_shape(new, old.shape)


def empty(shape, length):
    """Returns sequences of no classes, `[*shape, length]`."""
    return tf.fill([*shape, length], NONE)


def put(classes, position, new):
    """Writes classes `[...]` at a position of `[..., length]`."""
    at = tf.range(classes.shape[-1]) == position
    return tf.where(at, new[..., tf.newaxis], classes)


def in_type_of(head, log_probs):
    """Casts log-probabilities to the type of the head's log-probabilities."""
    is_double = getattr(head, "variable_dtype", None) == "float64"
    return tf.cast(log_probs, "float64" if is_double else "float32")
