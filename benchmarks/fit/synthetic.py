"""Task: clusters of classes that follow each other, with a known optimum."""

import numpy as np

_CLASSES, _CLUSTERS = 8_000, 50
_TRAINING, _HELD_OUT = 500_000, 10_000
_SUCCESSORS = np.array([0.4, 0.3, 0.2, 0.1])
_NOISE = 0.1


def clusters():
    """Pairs of classes.

    Four clusters follow each cluster with the probabilities of `_SUCCESSORS`.
    Within a cluster classes follow Zipf's law, whatever the class before. One
    label in ten is noise: a class of any cluster.
    """
    rng = np.random.default_rng(7)
    members = rng.permutation(_CLASSES).reshape(_CLUSTERS, -1)
    within = 1 / np.arange(1, members.shape[1] + 1)
    within /= within.sum()
    cluster_of, share = np.empty(_CLASSES, int), np.empty(_CLASSES)
    cluster_of[members] = np.arange(_CLUSTERS)[:, None]
    share[members] = within
    after = np.array([rng.permutation(_CLUSTERS)[:4] for _ in members])
    moves = np.zeros((_CLUSTERS, _CLUSTERS))
    np.put_along_axis(moves, after, _SUCCESSORS, 1)

    def draw(num):
        before = rng.choice(_CLASSES, num, p=share / _CLUSTERS)
        choice = rng.choice(4, num, p=_SUCCESSORS)
        cluster = after[cluster_of[before], choice]
        is_noise = rng.random(num) < _NOISE
        cluster[is_noise] = rng.integers(_CLUSTERS, size=is_noise.sum())
        labels = members[cluster, rng.choice(within.size, num, p=within)]
        return before[:, None], labels

    training, held_out = draw(_TRAINING), draw(_HELD_OUT)
    before, labels = held_out
    moved = moves[cluster_of[before[:, 0]], cluster_of[labels]]
    probs = ((1 - _NOISE) * moved + _NOISE / _CLUSTERS) * share[labels]
    return {
        "training": training,
        "held_out": held_out,
        "num_classes": _CLASSES,
        "is_bag": False,
        "optimum": np.exp(-np.log(probs).mean()),
    }
