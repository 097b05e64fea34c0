"""How often a batch of labels visits the groups of a tree, in the mean."""

import dataclasses
import functools

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.expected import ExpectedCost, expected_cost
from tf_hsm.tree import Tree
from tf_hsm.tree import masses as tree_masses
from tf_hsm.tree.builders.balanced import two_level_sizes


@dataclasses.dataclass(frozen=True)
class Visits:
    """The groups of a tree, and how probable a visit of each is.

    Attributes:
      num_classes: N.
      num_rows: of the weights: R, or G of a pinned tree.
      fanouts: `[G]`, the rows of each group.
      masses: `[G]`, the probability that the path of a label visits a group.
    """

    num_classes: int
    num_rows: int
    fanouts: np.ndarray
    masses: np.ndarray

    def groups(self, batch):
        """Returns how many groups a batch visits."""
        with np.errstate(divide="ignore"):  # log 0: a group that all visit
            return float(-np.expm1(batch * np.log1p(-self.masses)).sum())

    def pairs(self, batch):
        """Returns pairs of an example and a group that it visits."""
        return batch * float(self.masses.sum())

    def logits(self, batch):
        """Returns the logits that a batch computes."""
        return batch * float(self.fanouts @ self.masses)

    def cost(self, batch, width, cost_model=None) -> ExpectedCost:
        """Returns what a step costs."""
        return expected_cost(
            self.fanouts, self.masses, batch, width, cost_model
        )

    def of_labels(self, count):
        """Returns the visits of examples with so many labels each."""
        masses = 1 - (1 - self.masses) ** count
        masses[0] = 1  # the root's group, without labels too
        return dataclasses.replace(self, masses=masses)


def of(classes, counts=None):
    """Returns the `Visits` of a `Tree`, or of N classes in two levels.

    N classes have the visits of `Tree.two_level(N)`, whose arrays are not made.
    """
    shares = counts_of(counts, num_classes_of(classes))
    if isinstance(classes, Tree):
        shares = classes._counts_or_own(shares)
        return Visits(
            classes.num_classes,
            classes.num_weight_rows,
            classes._group_weight_rows,
            tree_masses.passing(classes._arrays, classes._levels, shares),
        )
    sizes = two_level_sizes(classes)
    if shares is not None:
        shares = _checks.check_counts(shares, classes)
        if not shares.any():
            raise ValueError("all counts are zero; no class ever occurs")
    if sizes.size == 1:
        return Visits(classes, classes, sizes, np.ones(1))
    if shares is None:
        masses = sizes / classes
    else:
        begins = np.append(0, np.cumsum(sizes)[:-1])
        masses = np.add.reduceat(shares / shares.sum(), begins)
    return Visits(
        classes,
        classes + sizes.size,
        np.append(sizes.size, sizes),
        np.append(1.0, np.minimum(masses, 1)),
    )


def num_classes_of(classes):
    """Returns N, of a `Tree` or of a number of classes."""
    return classes.num_classes if isinstance(classes, Tree) else classes


def counts_of(counts, num_classes):
    """Returns the counts of a Zipf law for "zipf", and others as they are."""
    if not isinstance(counts, str):
        return counts
    if counts != "zipf":
        raise ValueError(
            f"counts is {counts!r}; it must be 'zipf', numbers, or None"
        )
    return _zipf(num_classes)


@functools.lru_cache(maxsize=1)
def _zipf(num_classes):
    return 1 / np.arange(1.0, num_classes + 1)
