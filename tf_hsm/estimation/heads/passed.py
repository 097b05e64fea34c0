"""Which groups of a tree a batch of labels passes, in the mean."""

import dataclasses
import functools

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.expected import ExpectedCost, expected_cost
from tf_hsm.tree import Tree
from tf_hsm.tree import masses as tree_masses
from tf_hsm.tree.builders.balanced import two_level_sizes

_ZIPF = "zipf"


@dataclasses.dataclass(frozen=True)
class Passed:
    """The groups of a tree, and how probable it is to pass each.

    Attributes:
      num_classes: N.
      num_rows: of the weights: R, or G of a pinned tree.
      fanouts: `[G]`, of these the rows of each group.
      masses: `[G]`, the probability that a label passes each.
    """

    num_classes: int
    num_rows: int
    fanouts: np.ndarray
    masses: np.ndarray

    @property
    def num_groups(self):
        """G."""
        return self.fanouts.size

    def touched_groups(self, batch):
        """Returns how many groups a batch passes."""
        with np.errstate(divide="ignore"):  # log 0: a group that all pass
            return float(-np.expm1(batch * np.log1p(-self.masses)).sum())

    def passes(self, batch):
        """Returns pairs of an example and a group that it passes."""
        return batch * float(self.masses.sum())

    def logits(self, batch):
        """Returns the logits that a batch computes."""
        return batch * float(self.fanouts @ self.masses)

    def cost(self, batch, width, cost_model=None) -> ExpectedCost:
        """Returns what a step costs."""
        return expected_cost(
            self.fanouts, self.masses, batch, width, cost_model
        )


def of_tree(tree, counts=None):
    """Returns the `Passed` of a `Tree`.

    Args:
      tree: a `Tree`.
      counts: None for the counts of the tree, or labels that are all alike if
        it has none; "zipf" if class c occurs 1 / (c + 1) times as often as
        class 0; or how often each does, `[N]`.

    Raises:
      ValueError: counts are neither.
    """
    counts = tree._counts_or_own(counts_of(counts, tree.num_classes))
    return Passed(
        tree.num_classes,
        tree.num_weight_rows,
        tree._group_weight_rows,
        tree_masses.passing(tree._arrays, tree._levels, counts),
    )


def of_two_level(num_classes, counts=None):
    """Returns the one of `Tree.two_level(num_classes)`, without its arrays."""
    sizes = two_level_sizes(num_classes)
    shares = counts_of(counts, num_classes)
    if shares is not None:
        shares = _checks.check_counts(shares, num_classes)
        if not shares.any():
            raise ValueError("all counts are zero; no class ever occurs")
    if sizes.size == 1:
        return Passed(num_classes, num_classes, sizes, np.ones(1))
    if shares is None:
        masses = sizes / num_classes
    else:
        begins = np.append(0, np.cumsum(sizes)[:-1])
        masses = np.add.reduceat(shares / shares.sum(), begins)
    return Passed(
        num_classes,
        num_classes + sizes.size,
        np.append(sizes.size, sizes),
        np.append(1.0, np.minimum(masses, 1)),
    )


def of(classes, counts=None):
    """Returns the `Passed` of a `Tree`, or of N classes in two levels."""
    make = of_tree if isinstance(classes, Tree) else of_two_level
    return make(classes, counts)


def num_classes_of(classes):
    """Returns N, of a `Tree` or of a number of classes."""
    return classes.num_classes if isinstance(classes, Tree) else classes


def zipf(num_classes, counts=_ZIPF):
    """Returns 1 / (c + 1) for each class, `[N]`; checks that this is meant."""
    if counts not in (_ZIPF, None):
        raise ValueError(
            f"counts is {counts!r}; it must be 'zipf', numbers, or None"
        )
    return _zipf(num_classes)


def counts_of(counts, num_classes):
    """Returns the counts that a text stands for; others as they are."""
    return zipf(num_classes, counts) if isinstance(counts, str) else counts


@functools.lru_cache(maxsize=1)
def _zipf(num_classes):
    return 1 / np.arange(1.0, num_classes + 1)
