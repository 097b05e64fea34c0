"""The k best classes by brute force, and what finding them takes at least.

A search that has proved its answer has scored every group whose node is more
probable than the last of the k best classes, and the root's. These groups make
the floor, as those on the paths to the labels make that of the loss
(`floors`).
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import floors, implementations

_CHUNK_BYTES = 128 << 20  # made at once
_SECONDS = 5.0  # for all chunks, by their arithmetic


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

    def is_equal(self, count, log_probs, classes):
        """Whether these are the answers for `count` inputs, to the bit."""
        return all(
            found.tobytes() == wanted[:count].tobytes()
            for found, wanted in (
                (log_probs, self.log_probs),
                (classes, self.classes),
            )
        )


def make(head, k, count):
    """Computes the `Reference` for the first `count` inputs."""
    tree = head.tree
    # The root's group has no row above it, and is always needed.
    parents = np.maximum(tree.group_parents, 0)
    parts = []
    for nodes in _chunks(head, count):
        classes = tf.gather(nodes, tree.class_rows, axis=1)
        best = tf.math.top_k(classes, k)
        bounds = tf.gather(nodes, parents, axis=1)
        needed = (bounds > best.values[:, -1:]).numpy()
        needed[:, 0] = True
        found = (best.values, tf.cast(best.indices, tf.int64))
        parts.append((*found, needed, *_clarity(classes)))
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


def num_inputs(head, most, rates):
    """How many inputs there is time for, `most` at most."""
    rows, width = head.tree.num_rows, head.sizes.width
    most = min(most, head.inputs.shape[0])
    return int(np.clip(_SECONDS * rates.flops / (2 * rows * width), 1, most))


def _chunks(head, count):
    """Yields log-probabilities of nodes, `[c, rows]`, of c inputs at a time."""
    tree = head.tree
    size = max(1, _CHUNK_BYTES // (4 * tree.num_rows))

    @tf.function(reduce_retracing=True)
    def of_nodes(inputs):
        return tf_hsm.hierarchical_softmax_log_probs(
            *head.parameters, inputs, tree, nodes=True
        )

    for begin in range(0, count, size):
        yield of_nodes(head.inputs[begin : min(begin + size, count)])


def _clarity(log_probs):
    """Returns the probability of the best class and the entropy, `[c]` each."""
    probs = tf.exp(log_probs)
    terms = tf.math.multiply_no_nan(log_probs, probs)
    return tf.reduce_max(probs, 1).numpy(), -tf.reduce_sum(terms, 1).numpy()
