"""The k best classes by brute force, and what finding them takes at least.

A search that has proved its answer has scored every group whose node is more
probable than the last of the k best classes, and the root's. These groups make
the floor, as those on the paths to the labels make that of the loss
(`floors`).
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.common import digest, floors, implementations
from benchmarks.heads import brute_force


class Reference(NamedTuple):
    """The answers for the first n inputs of a head.

    Attributes:
      log_probs: `[n, k]`.
      classes: `[n, k]`.
      needed: `[n, groups]` bool, the groups that a search must score.
      clarity: {"inputs", "top_1", "entropy"}, the latter two means.
    """

    log_probs: np.ndarray
    classes: np.ndarray
    needed: np.ndarray
    clarity: dict

    def digest(self, count):
        """A hash of the answers for the first `count` inputs."""
        return digest.of([self.log_probs[:count], self.classes[:count]])


def make(head, k, count, allowed=None):
    """Computes the `Reference` for the first `count` inputs.

    Among the classes `allowed`, or all.
    """
    tree = head.tree
    is_allowed = np.ones(tree.num_classes, bool)
    if allowed is not None:
        is_allowed[:] = False
        is_allowed[allowed] = True
    # The root's group has no row above it, and is always needed.
    parents = np.maximum(tree.group_parents, 0)
    parts = []
    for nodes in brute_force.chunks(head, count):
        classes = tf.gather(nodes, tree.class_rows, axis=1)
        best = tf.math.top_k(tf.where(is_allowed, classes, -np.inf), k)
        bounds = tf.gather(nodes, parents, axis=1)
        needed = (bounds > best.values[:, -1:]).numpy()
        needed[:, 0] = True
        found = (best.values, tf.cast(best.indices, tf.int64))
        parts.append((*found, needed, *brute_force.clarity(classes)))
    log_probs, classes, needed, top_1, entropy = map(
        np.concatenate, zip(*parts, strict=True)
    )
    clarity = {
        "inputs": count,
        "top_1": float(top_1.mean()),
        "entropy": float(entropy.mean()),
    }
    return Reference(log_probs, classes, needed, clarity)


def needs(reference, tree):
    """How much a search must score for an input, on average."""
    fanouts = np.diff(tree.group_offsets)
    return {
        "groups": float(reference.needed.sum(1).mean()),
        "rows": float(np.mean([fanouts[n].sum() for n in reference.needed])),
    }


def floor_ms(reference, head, batch, rates):
    """The floor of a batch, the median of all that there are; or None."""
    starts = range(0, len(reference.needed) - batch + 1, batch)
    seconds = [
        floors.floors(
            _work(head.tree, reference.needed[start : start + batch]),
            batch,
            head.sizes.width,
            implementations.itemsize(head),
            rates,
        )["forward"].seconds
        for start in starts
    ]
    return 1000 * float(np.median(seconds)) if seconds else None


def _work(tree, needed):
    """The `floors.Work` of needed groups `[B, groups]`."""
    fanouts, depths = np.diff(tree.group_offsets), tree.group_depths
    times = needed.sum(0)
    touched = times > 0
    return floors.Work(
        np.bincount(depths, fanouts * times).astype(np.int64),
        np.bincount(depths, fanouts * touched).astype(np.int64),
        int(touched.sum()),
    )
