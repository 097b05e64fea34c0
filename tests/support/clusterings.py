"""Vectors to cluster, and clusterings to compare with."""

import numpy as np


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def spectrum(num_classes, width, seed=0):
    """Vectors whose variances fall along the axes, as those of words do."""
    return normal(num_classes, width, seed=seed) / np.sqrt(1 + np.arange(width))


def within(vectors, labels):
    """The mean squared distance of the vectors to the means of their labels."""
    total = 0.0
    for label in np.unique(labels):
        part = vectors[labels == label]
        total += ((part - part.mean(axis=0)) ** 2).sum()
    return total / len(vectors)


def balanced_k_means(vectors, num_clusters, seed=0):
    """Lloyd's algorithm, vectors that lose most choosing a mean first."""
    rng = np.random.default_rng(seed)
    size = len(vectors) // num_clusters
    means = vectors[rng.choice(len(vectors), num_clusters, replace=False)]
    best, least = None, np.inf
    for _ in range(15):
        costs = (means**2).sum(axis=1) - 2 * vectors @ means.T
        loss = np.subtract(*np.partition(costs, 1, axis=1)[:, 1::-1].T)
        labels = np.empty(len(vectors), int)
        room = np.full(num_clusters, size)
        for i in np.argsort(-loss, kind="stable"):
            labels[i] = np.where(room > 0, costs[i], np.inf).argmin()
            room[labels[i]] -= 1
        means = np.stack(
            [vectors[labels == k].mean(axis=0) for k in range(num_clusters)]
        )
        cost = within(vectors, labels)
        if cost < least:
            best, least = labels, cost
    return best
