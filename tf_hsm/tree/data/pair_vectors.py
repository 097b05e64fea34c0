"""Vectors of classes that occur in similar contexts: a truncated SVD."""

import numpy as np

MAX_FEATURES = 1 << 16  # the most frequent ones
_OVERSAMPLING = 16
_POWER_STEPS = 2


def class_vectors(pairs, num_classes, width, seed):
    """Returns vectors `[N, width]` float32: similar contexts, similar vectors.

    The association of classes and features is factored as U S V^T, and the
    vectors are U sqrt(S). Levy and Goldberg, "Neural word embedding as implicit
    matrix factorization", 2014. The factors come from random projections with
    power steps: Halko, Martinsson and Tropp, "Finding structure with
    randomness", 2011. If there are fewer features than `width`, the last
    numbers are zero.
    """
    weights = associations(pairs)
    num_features = int(pairs.features.max(initial=-1)) + 1
    vectors = np.zeros((num_classes, width), np.float32)
    if not weights.any():
        return vectors
    kept = weights > 0
    classes, features = pairs.classes[kept], pairs.features[kept]
    weights = weights[kept].astype(np.float32)
    times = _matrix(classes, features, weights, [num_classes, num_features])
    order = np.argsort(features, kind="stable")
    transposed_times = _matrix(
        *(features[order], classes[order], weights[order]),
        [num_features, num_classes],
    )
    del kept, classes, features, weights, order
    size = min(width + _OVERSAMPLING, num_features)
    basis = np.random.default_rng(seed).standard_normal(
        (num_features, size), np.float32
    )
    for _ in range(_POWER_STEPS):
        basis = _orthonormal(transposed_times(times(basis)))
    products = times(basis).astype(np.float64)
    squares, directions = np.linalg.eigh(products.T @ products)
    # The largest first; `eigh` ascends.
    squares = np.maximum(squares[::-1][:width], 0)
    directions = directions[:, ::-1][:, :width]
    is_zero = squares <= 1e-12 * squares[0]
    scales = np.where(is_zero, 0, np.where(is_zero, 1, squares) ** -0.25)
    vectors[:, : squares.size] = products @ directions * scales
    return vectors


def _orthonormal(columns):
    """Returns a basis of the span of `columns [F, D]`, orthonormal columns.

    By the eigenvectors of their products: the QR decomposition of NumPy takes
    six to eight times as long. Where the span has fewer dimensions, the rest of
    the columns are zero.
    """
    columns = columns.astype(np.float64)
    squares, directions = np.linalg.eigh(columns.T @ columns)
    is_zero = squares <= 1e-12 * squares[-1]
    scales = np.where(is_zero, 0, np.where(is_zero, 1, squares) ** -0.5)
    return (columns @ (directions * scales)).astype(np.float32)


def associations(pairs):
    """Returns how strongly each class and feature are associated, `[P]`.

    This is the positive pointwise mutual information times a weight,

        log(1 + n(c, f)) max(0, log(n(c, f) n / (n(c) n(f)))),

    because few occurrences tell the information of a pair only roughly.
    docs/fit.md compares the weight with others.
    """
    counts = pairs.counts.astype(np.float64)
    of_class = np.bincount(pairs.classes, counts)[pairs.classes]
    of_feature = np.bincount(pairs.features, counts)[pairs.features]
    information = np.log(counts / of_class) - np.log(of_feature / counts.sum())
    return np.log1p(counts) * np.maximum(information, 0)


def _matrix(rows, columns, values, shape):
    """Returns a function that multiplies a sparse matrix by a dense one.

    Each row of the product is summed in the order of the columns, whatever the
    number of threads. (TensorFlow's product with a transposed matrix is not.)
    """
    # In NumPy the products take 20 times as long. All other modules of trees do
    # without TensorFlow.
    import tensorflow as tf

    matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=np.stack([rows, columns], 1), values=values, dense_shape=shape
    )
    return lambda dense: tf.raw_ops.SparseMatrixMatMul(
        a=matrix, b=dense
    ).numpy()
