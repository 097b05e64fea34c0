"""Vectors of classes that occur in similar contexts: a truncated SVD."""

import numpy as np

MAX_FEATURES = 1 << 16  # the most frequent ones
_OVERSAMPLING = 16
# Products of numbers for which OpenBLAS starts no thread.
_ONE_THREAD = 1 << 18
_ROWS = 32  # that are multiplied at once, at least
_CHUNK = 1 << 16  # pairs that are worked on together: they fit a cache


def class_vectors(pairs, num_classes, width, seed):
    """Returns vectors `[N, width]` float32: similar contexts, similar vectors.

    The association A of classes and features is factored as U S V^T, and the
    vectors are U sqrt(S). Levy and Goldberg, "Neural word embedding as implicit
    matrix factorization", 2014. If there are fewer features than `width`, the
    last numbers are zero.

    G = A^T A is factored first. With orthonormal Q from random projections and
    a power step, and Z = G Q, Nystroem's approximation is

        G = B B^T, where B = Z (Q^T Z)^(-1/2).

    The left singular vectors of B are V, and its singular values S. Halko,
    Martinsson and Tropp, "Finding structure with randomness", 2011.
    """
    weights = associations(pairs)
    if not weights.any():
        return np.zeros((num_classes, width), np.float32)
    num_features = int(pairs.features.max()) + 1
    size = min(width + _OVERSAMPLING, num_features)
    basis = np.random.default_rng(seed).standard_normal(
        (num_features, size), np.float32
    )
    matrix, transpose = _matrices(pairs, weights, [num_classes, num_features])
    columns = _times(transpose, _times(matrix, basis))
    powers = _powers(_gram(columns, columns), -0.5, 1e-12)
    basis = _product(columns, powers)
    columns = _times(transpose, _times(matrix, basis))
    columns = _product(columns, _powers(_gram(basis, columns), -0.5, 1e-6))
    # U sqrt(S) = A V S^(-1/2), where V = B W / S and B^T B = W S^2 W^T.
    powers = _powers(_gram(columns, columns), -0.75, 1e-6)[:, :width]
    powers = np.pad(powers, [(0, 0), (0, width - powers.shape[1])])
    return _times(matrix, _product(columns, powers))


def _matrices(pairs, weights, shape):
    """Returns the sparse matrix of classes and features, and its transpose."""
    import tensorflow as tf

    from tf_hsm.runtime.array_ops import eagerly_on_cpu

    indices = np.stack([pairs.classes, pairs.features], 1)
    with eagerly_on_cpu():
        matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
            indices=indices, values=weights, dense_shape=shape
        )
        return matrix, tf.raw_ops.SparseMatrixTranspose(
            input=matrix, type=tf.float32
        )


def _times(matrix, dense):
    """Returns the product of a sparse matrix and `dense`, float32.

    Each row is summed in the order of the columns, whatever the number of
    threads. (TensorFlow's product with a transpose that is not made is not.)
    """
    import tensorflow as tf

    from tf_hsm.runtime.array_ops import eagerly_on_cpu

    with eagerly_on_cpu():
        return np.asarray(tf.raw_ops.SparseMatrixMatMul(a=matrix, b=dense))


def _product(columns, square):
    """Returns `columns [F, D]` times `square [D, D]`, float32."""
    result = np.empty((len(columns), square.shape[1]), np.float32)
    for rows, part in _parts(*result.shape, len(square)):
        result[rows, part] = columns[rows].astype(np.float64) @ square[:, part]
    return result


def _gram(left, right):
    """Returns the transpose of `left [F, D]` times `right [F, D]`."""
    size = right.shape[1]
    result = np.zeros((size, size))
    for rows, part in _parts(len(left), size, size):
        result[:, part] += left[rows].T.astype(np.float64) @ right[rows, part]
    return result


def _parts(num_rows, num_columns, size):
    """Yields slices of rows and of columns, for products with `size` numbers.

    They are so small that a BLAS takes one thread, and the sums have one order.
    """
    rows = max(_ROWS, _ONE_THREAD // (num_columns * size))
    columns = max(1, _ONE_THREAD // (rows * size))
    for row in range(0, num_rows, rows):
        for column in range(0, num_columns, columns):
            yield slice(row, row + rows), slice(column, column + columns)


def _powers(square, power, least):
    """Returns eigenvectors times a power of their eigenvalues, as columns.

    The largest eigenvalue is first. Instead of eigenvalues below its share
    `least`, which are rounding errors, there are zeros.
    """
    values, directions = np.linalg.eigh(square)
    values, directions = values[::-1], directions[:, ::-1]
    is_zero = values <= least * values[0]
    return directions * np.where(
        is_zero, 0, np.where(is_zero, 1, values) ** power
    )


def associations(pairs):
    """Returns how strongly classes and features are associated, `[P]` float32.

    This is the positive pointwise mutual information times a weight,

        log(1 + n(c, f)) max(0, log(n(c, f) n / (n(c) n(f)))),

    because few occurrences tell the information of a pair only roughly.
    docs/fit.md compares the weight with others.
    """
    classes, features = (
        np.log(np.maximum(np.bincount(numbers, pairs.counts), 1))
        for numbers in (pairs.classes, pairs.features)
    )
    features -= np.log(pairs.counts.sum())
    weights = np.empty(pairs.counts.size, np.float32)
    for begin in range(0, weights.size, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        counts = pairs.counts[part].astype(np.float64)
        information = np.log(counts) - classes[pairs.classes[part]]
        information -= features[pairs.features[part]]
        weights[part] = np.log1p(counts) * np.maximum(information, 0)
    return weights
