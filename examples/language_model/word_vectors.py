"""Vectors of words, from which words they follow."""

import numpy as np

_CONTEXTS = 2000  # the most frequent words, as contexts


def following(tokens, num_classes, width=64):
    """Vectors of classes by the word before them, without training.

    Words that follow the same words are alike to a model that predicts the next
    one. The counts of pairs, positive pointwise mutual information, and its
    largest principal directions, scaled by the square roots of their singular
    values (Levy and Goldberg, 2014: Neural Word Embedding as Implicit Matrix
    Factorization).

    Args:
        tokens: `[n]` class ids, the most frequent class being 0.
        num_classes: N.
        width: of the vectors, at most.

    Returns:
        `[N, width]` float32; zeros for a class that never follows a context.
    """
    num_contexts = min(_CONTEXTS, num_classes)
    before, after = tokens[:-1].astype(np.int64), tokens[1:].astype(np.int64)
    kept = before < num_contexts
    pairs, counts = np.unique(
        after[kept] * num_contexts + before[kept], return_counts=True
    )
    rows, columns = np.divmod(pairs, num_contexts)
    of_row = np.bincount(rows, counts, num_classes)
    of_column = np.bincount(columns, counts, num_contexts)
    values = np.log(counts * counts.sum() / (of_row[rows] * of_column[columns]))
    matrix = np.zeros([num_classes, num_contexts], np.float32)
    matrix[rows, columns] = np.maximum(values, 0)
    # Its right singular vectors, by way of the small side.
    squares, directions = np.linalg.eigh(matrix.T @ matrix)
    squares, directions = squares[-width:], directions[:, -width:]
    return matrix @ directions / np.maximum(squares, 1e-12) ** 0.25
