"""Vectors of classes, from the contexts that they occur in."""

from tf_hsm import _checks
from tf_hsm.tree.data import pair_vectors
from tf_hsm.tree.data.reading import Reader


def class_vectors(
    labels,
    contexts=None,
    *,
    num_classes=None,
    width=64,
    ordered=None,
    several_labels=False,
    seed=0,
):
    """Returns a vector for each class: similar contexts, similar vectors.

    These are the vectors that `Tree.from_data` clusters. They also serve
    `Tree.regroup`, `tf_hsm.callbacks.RegroupClasses(vectors=...)` and
    `Tree.grow(near=...)`. `tf_hsm.tree.data.pair_vectors` has the formulas.

    Args:
      labels: as for `Tree.from_data`.
      contexts: as for `Tree.from_data`; needed unless `labels` is a dataset.
      num_classes: N; when None, one more than the largest label.
      width: the size of a vector.
      ordered: as for `Tree.from_data`.
      several_labels: as for `Tree.from_data`.
      seed: an integer, at least 0.

    Returns:
      `[N, width]` float32; zeros for a class that does not occur.

    Raises:
      ValueError: as for `Tree.from_data`; or there are no contexts.
    """
    width = _checks.check_int("width", width, 1)
    seed = _checks.check_int("seed", seed, 0)
    if num_classes is not None:
        num_classes = _checks.check_int("num_classes", num_classes, 1)
    reader = Reader(num_classes, ordered, lambda text: None, several_labels)
    reader.read(labels, contexts)
    pairs = reader.pairs()
    if pairs is None:
        raise ValueError("there are no contexts, from which to make vectors")
    pairs = pairs.most_frequent(pair_vectors.MAX_FEATURES)
    num_classes = reader.counts.size
    # The memory of an op is read-only.
    return pair_vectors.class_vectors(pairs, num_classes, width, seed).copy()
