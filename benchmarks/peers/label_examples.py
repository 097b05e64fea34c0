"""Examples with several labels, which follow from their inputs."""

from typing import NamedTuple

import numpy as np

# The weights of a group's vector and of the label's own in the inputs.
_GROUP, _OWN = 1.0, 0.7
_NOISE = 0.1


class Examples(NamedTuple):
    """A batch.

    Attributes:
      inputs: `[B, width]` float32, of length 1.
      labels: `[B, M]` int64, -1 after an example's last one.
    """

    inputs: np.ndarray
    labels: np.ndarray


class Source:
    """Draws examples of a tree.

    An example has between one label and `most`, all of one group of the tree,
    the first by Zipf's law. Its inputs are the mean of the random vectors of
    its labels and of their group, and noise.

    Args:
      tree: a `tf_hsm.Tree`.
      width: of the inputs.
      most: labels of an example.
      seed: of the vectors.
    """

    def __init__(self, tree, width, most, seed=0):
        """See the class."""
        rng = np.random.default_rng(seed)
        self._most = most
        self._group = tree.row_groups[tree.class_rows]
        # The labels of a group lie side by side here.
        self._by_group = np.argsort(self._group, kind="stable")
        self._place = np.argsort(self._by_group)
        sizes = np.bincount(self._group, minlength=tree.num_groups)
        self._ends = np.cumsum(sizes)
        self._sizes = sizes
        self._groups = _vectors(rng, tree.num_groups, width)
        self._own = _vectors(rng, tree.num_classes, width)
        self._ranked = rng.permutation(tree.num_classes)
        self._mass = np.cumsum(1 / np.arange(1, tree.num_classes + 1))

    def draw(self, count, seed):
        """Returns `count` Examples."""
        rng = np.random.default_rng(seed)
        drawn = rng.random(count) * self._mass[-1]
        first = self._ranked[np.searchsorted(self._mass, drawn)]
        group = self._group[first]
        size = self._sizes[group]
        number = rng.integers(1, np.minimum(size, self._most) + 1)
        # The next ones in the group, from the end on from its begin.
        step = np.arange(self._most)
        begin = (self._ends - self._sizes)[group]
        place = (self._place[first] - begin)[:, np.newaxis] + step
        place = begin[:, np.newaxis] + place % size[:, np.newaxis]
        present = step < number[:, np.newaxis]
        labels = self._by_group[place]
        own = np.einsum("bm,bmd->bd", present.astype("f4"), self._own[labels])
        inputs = _GROUP * self._groups[group]
        inputs += _OWN * own / number[:, np.newaxis]
        inputs += _NOISE * rng.normal(size=inputs.shape)
        inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
        return Examples(inputs.astype("f4"), np.where(present, labels, -1))


def _vectors(rng, count, width):
    return rng.normal(size=[count, width], scale=width**-0.5).astype("f4")


def precisions(labels, found):
    """P@1, P@3 and P@5, in percent.

    Args:
      labels: `[B, M]`, -1 for none.
      found: `[B, 5]`, best first.
    """
    hits = (found[:, :, np.newaxis] == labels[:, np.newaxis]).any(2)
    return [100 * float(hits[:, :k].mean()) for k in (1, 3, 5)]
