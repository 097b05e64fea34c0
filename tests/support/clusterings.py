"""Vectors to cluster, and the cost of a clustering."""

import numpy as np


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def spectrum(num_classes, width):
    """Vectors whose variances fall along the axes, as those of words do."""
    return normal(num_classes, width) / np.sqrt(1 + np.arange(width))


def within(vectors, labels):
    """The mean squared distance of the vectors to the means of their labels."""
    total = 0.0
    for label in np.unique(labels):
        part = vectors[labels == label]
        total += ((part - part.mean(axis=0)) ** 2).sum()
    return total / len(vectors)
