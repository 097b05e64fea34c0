"""Lists of labels from multi-hot matrices."""

import numpy as np
import tensorflow as tf


def label_lists(matrix):
    """Makes lists of labels `[..., M]` from a multi-hot matrix `[..., N]`.

    A multi-hot matrix has a 1 for each label of an example and a 0 for every
    other class. Scikit-learn's `MultiLabelBinarizer` makes such matrices. Heads
    and metrics read the labels themselves, with -1 where an example has fewer:

    >>> tf_hsm.label_lists([[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]])
    array([[ 1,  3],
           [-1, -1],
           [ 0, -1]])

    The labels of an example ascend. M is the largest number of labels that an
    example has, and at least 1. In a `tf.data` pipeline,
    `dataset.map(lambda x, y: (x, tf_hsm.label_lists(y)))` converts each batch.

    Args:
      matrix: a dense array of integers, booleans or floats; a `tf.Tensor`; a
        `tf.SparseTensor`; or a sparse matrix of SciPy.

    Returns:
      `[..., M]` int64: a tensor if the matrix is a tensor, else a NumPy array.

    Raises:
      tf.errors.InvalidArgumentError: the matrix has a number that is neither 0
        nor 1, or it is sparse and has an entry twice.
      TypeError: it is a `tf.RaggedTensor`.
      ValueError: it has no dimension.
    """
    if isinstance(matrix, tf.SparseTensor):
        return _of_sparse(matrix)
    if isinstance(matrix, tf.RaggedTensor):
        raise TypeError(
            "matrix must be multi-hot, [..., N], but is a tf.RaggedTensor: "
            "heads and metrics take ragged lists of labels as they are"
        )
    if hasattr(matrix, "tocoo"):
        coo = matrix.tocoo()
        places = np.stack([coo.row, coo.col], 1).astype(np.int64)
        sparse = tf.SparseTensor(places, coo.data, coo.shape)
        return _of_sparse(sparse).numpy()
    if not tf.is_tensor(matrix):
        return _of_dense(tf.convert_to_tensor(np.asarray(matrix))).numpy()
    return _of_dense(matrix)


def _of_dense(matrix):
    if matrix.shape.rank == 0:
        raise ValueError("matrix must be [..., N], but has no dimension")
    if matrix.dtype == tf.bool:
        matrix = tf.cast(matrix, tf.int8)
    shape = tf.shape(matrix, tf.int64)
    flat = tf.reshape(matrix, [tf.reduce_prod(shape[:-1]), shape[-1]])
    places = tf.where(tf.not_equal(flat, 0))
    return _lists(places, tf.gather_nd(flat, places), shape)


def _of_sparse(matrix):
    shape = tf.cast(matrix.dense_shape, tf.int64)
    count = tf.reduce_prod(shape[:-1])
    flat = tf.sparse.reshape(matrix, tf.stack([count, shape[-1]]))
    flat = tf.sparse.reorder(flat)
    values = flat.values
    if values.dtype == tf.bool:
        values = tf.cast(values, tf.int8)
    kept = tf.not_equal(values, 0)
    places = tf.boolean_mask(flat.indices, kept)
    return _lists(places, tf.boolean_mask(values, kept), shape)


def _lists(places, values, shape):
    """Lists `[..., M]` of the ones at places `[n, 2]`: rows and columns."""
    asserted = tf.debugging.Assert(
        tf.reduce_all(tf.equal(values, 1)),
        [
            "matrix must be multi-hot, of 0 and 1 alone, but has",
            tf.boolean_mask(values, tf.not_equal(values, 1)),
        ],
        summarize=1,
    )
    is_again = tf.reduce_all(places[1:] == places[:-1], -1)
    once = tf.debugging.Assert(
        ~tf.reduce_any(is_again),
        [
            "matrix must have each entry once, but has two at",
            tf.boolean_mask(places[1:], is_again),
        ],
        summarize=2,
    )
    asserted = [x for x in (asserted, once) if x is not None]
    with tf.control_dependencies(asserted):
        rows, columns = tf.unstack(places, axis=1)
    lists = tf.RaggedTensor.from_value_rowids(
        columns, rows, tf.reduce_prod(shape[:-1]), validate=False
    )
    size = tf.maximum(lists.bounding_shape(1), 1)
    dense = lists.to_tensor(-1, shape=tf.stack([-1, size]))
    return tf.reshape(dense, tf.concat([shape[:-1], [size]], 0))
