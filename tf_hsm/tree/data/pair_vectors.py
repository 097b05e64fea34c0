"""Vectors of classes that occur in similar contexts: a truncated SVD."""

import numpy as np

MAX_FEATURES = 1 << 16  # the most frequent ones
_OVERSAMPLING = 16
# Products of numbers for which OpenBLAS starts no thread.
_ONE_THREAD = 1 << 18
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

    indices = np.stack([pairs.classes, pairs.features], 1)
    with tf.init_scope(), tf.device("CPU:0"):
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

    with tf.init_scope(), tf.device("CPU:0"):
        return np.asarray(tf.raw_ops.SparseMatrixMatMul(a=matrix, b=dense))


def _product(columns, square):
    """Returns `columns [F, D]` times `square [D, E]`, float32."""
    result = np.empty((len(columns), square.shape[1]), np.float32)
    for part in _parts(len(columns), square.size):
        result[part] = columns[part].astype(np.float64) @ square
    return result


def _gram(left, right):
    """Returns the transpose of `left [F, D]` times `right [F, D]`."""
    size = right.shape[1]
    result = np.zeros((size, size))
    for part in _parts(len(left), size * size):
        result += left[part].T.astype(np.float64) @ right[part]
    return result


def _parts(rows, size):
    """Yields slices of rows, by which to multiply matrices of `size` numbers.

    They are so short that a BLAS takes one thread, and the sums have one order.
    """
    step = max(1, _ONE_THREAD // size)
    for begin in range(0, rows, step):
        yield slice(begin, begin + step)


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
