"""Ids and bags of ids, and the vectors of their embeddings."""

import dataclasses
import typing

import tensorflow as tf

from tf_hsm.runtime import arguments, gradients, label_sets


@dataclasses.dataclass(frozen=True, eq=False)
class Bags:
    """B ids, or B bags of them.

    Attributes:
      ids: `[B]`, or a `tf.RaggedTensor` `[B, None]`.
      weights: None; or `[n]`, what the vector of each id in the bags is
        multiplied by.
    """

    ids: typing.Any
    weights: tf.Tensor | None

    def combined(self, table, combiner, dtype, look_up=None):
        """Returns the vectors `[B, width]` of the bags, from vectors of ids.

        Args:
          table: a variable `[count, width]`.
          combiner: "mean" or "sum".
          dtype: of the sums and the result.
          look_up: a function from the table and ids `[B]` to their rows; None:
            `gradients.look_up`.

        Raises:
          tf.errors.InvalidArgumentError: an id is not in `[0, count)`.
        """
        are_ragged = isinstance(self.ids, tf.RaggedTensor)
        ids = self.ids.flat_values if are_ragged else self.ids
        are_right = arguments.in_range(
            tf.cast(ids, tf.int64), table.shape[0], "ids"
        )
        ids = arguments.checked(ids, are_right)
        vectors = tf.cast((look_up or gradients.look_up)(table, ids), dtype)
        if not are_ragged:
            return vectors
        weights = self.weights
        if weights is None:
            weights = tf.ones_like(ids, dtype)
        weights = tf.cast(weights, dtype)[:, tf.newaxis]
        sums, totals = (
            tf.math.unsorted_segment_sum(
                values, self.ids.value_rowids(), self.ids.nrows()
            )
            for values in (vectors * weights, weights)
        )
        if combiner == "sum":
            return sums
        return tf.math.divide_no_nan(sums, totals)


def are_vectors(inputs, width):
    """Returns whether inputs are floats `[..., width]`, and no ids."""
    dtype = getattr(inputs, "dtype", None)
    if dtype is None or not tf.as_dtype(dtype).is_floating:
        return False
    shape = tf.TensorShape(inputs.shape)
    return shape.rank is None or (shape.rank > 1 and shape[-1] == width)


def parts_of(inputs):
    """Returns the ids of what a layer takes, and their weights or None.

    Raises:
      ValueError: it is a list of more tensors.
    """
    is_list = isinstance(inputs, (list, tuple)) and len(inputs)
    # A list of lists is bags.
    if not is_list or not hasattr(inputs[0], "dtype"):
        return inputs, None
    # A list of scalars is ids.
    if len(inputs[0].shape) == 0:
        return inputs, None
    if len(inputs) != 2:
        raise ValueError(
            "inputs must be ids or a list [ids, weights], but are a list of "
            f"{len(inputs)}"
        )
    return inputs


def read(inputs, count, padding_id=None):
    """Returns what a layer takes as `Bags`.

    Args:
      inputs: ids `[batch]`, `[batch, n]` or ragged; or a list of these and
        their weights, of the same shape.
      count: the number of embeddings.
      padding_id: an id that stands for none; or None.

    Raises:
      tf.errors.InvalidArgumentError: bags are a multi-hot matrix.
      TypeError: ids are no integers, or weights no floats.
      ValueError: there are more dimensions, or the weights have another shape
        (tf.errors.InvalidArgumentError where that is not known before).
    """
    ids, weights = parts_of(inputs)
    if isinstance(ids, tf.RaggedTensor):
        flat = arguments.integers(ids.flat_values, "ids")
        ids = ids.with_flat_values(flat)
    else:
        ids = arguments.integers(ids, "ids")
        if ids.shape.rank == 1 and weights is None and padding_id is None:
            return Bags(ids, None)
        if ids.shape.rank == 2:
            ids = label_sets.not_multi_hot(
                ids,
                [count],
                "bags of ids",
                "tf_hsm.label_lists(bags) makes lists of a matrix, with "
                "padding_id=-1",
                True if padding_id is None else ids != padding_id,
            )
    ids = _ragged(ids, "ids")
    if weights is not None:
        weights = _like(ids, weights)
    if padding_id is not None:
        kept = tf.not_equal(ids, padding_id)
        ids = tf.ragged.boolean_mask(ids, kept)
        if weights is not None:
            weights = tf.ragged.boolean_mask(weights, kept)
    if weights is not None:
        weights = weights.flat_values
    return Bags(ids, weights)


def _like(ids, weights):
    """Weights as a `tf.RaggedTensor` with the splits of ids."""
    weights = _ragged(weights, "weights")
    if not weights.dtype.is_floating:
        raise TypeError(
            f"weights must be floats, but are {weights.dtype.name}; bags that "
            "are several arrays of ids are given as one list of lists, or as "
            "a tf.RaggedTensor"
        )
    assertion = tf.debugging.assert_equal(
        tf.cast(weights.row_splits, tf.int64),
        tf.cast(ids.row_splits, tf.int64),
        "weights must have the shape of ids: one for each id of each bag",
    )
    flat = arguments.checked(weights.flat_values, assertion)
    return ids.with_flat_values(flat)


def _ragged(values, name):
    """Values `[batch]`, `[batch, n]` or ragged as a `tf.RaggedTensor`."""
    if not isinstance(values, tf.RaggedTensor):
        values = tf.convert_to_tensor(values)
        if values.shape.rank == 1:
            values = values[:, tf.newaxis]
        if values.shape.rank == 2:
            return tf.RaggedTensor.from_tensor(values)
    elif values.shape.rank == 2:
        return values
    raise ValueError(
        f"{name}, of shape {values.shape}, must be [batch]; [batch, n], a bag "
        "in each row; or a tf.RaggedTensor of these"
    )
