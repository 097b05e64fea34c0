"""Numbers of examples with a label below each node of a tree."""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.runtime import arguments, label_sets
from tf_hsm.tree import Tree
from tf_hsm.tree.arrays import sum_to_root
from tf_hsm.tree.check import check_not_pinned

_BLOCK = 1 << 20  # labels that are looked at together


@dataclasses.dataclass(frozen=True, eq=False)
class LabelCounts:
    """Numbers of examples with a label at or below each row of a tree.

    The biases of `tf_hsm.layers.LabelTree(tree, counts=...)` begin with them.
    Those of several batches are added:

    >>> counts = LabelCounts.of(tree, first) + LabelCounts.of(tree, second)

    Attributes:
      tree: the `tf_hsm.Tree`, whose classes are the labels.
      rows: `[R]`, how many examples have a label at or below each row; floats
        where they are expected ones.
      examples: how many examples there are, those without labels too.
    """

    tree: Tree
    rows: np.ndarray
    _: dataclasses.KW_ONLY
    examples: int

    @classmethod
    def of(cls, tree, labels):
        """Counts label sets, exactly: an example counts once for each row.

        The cost is the labels' paths.

        Args:
          tree: a `tf_hsm.Tree`.
          labels: `[..., M]` integers, each example's labels, where negative
            numbers are none; or a `tf.RaggedTensor`.

        Raises:
          TypeError: ragged ones are not integers.
          ValueError: others are not, or one is no class; or the tree is pinned.
        """
        check_not_pinned(tree, "a label tree")
        if isinstance(labels, tf.RaggedTensor):
            labels = arguments.padded_integers(labels)
        _checks.refuse_sparse("labels", labels, "tf_hsm.label_lists(labels)")
        labels = np.asarray(labels)
        if labels.dtype.kind not in "iu" or not labels.ndim:
            raise ValueError(
                "labels must be integers, [..., M], the labels of each "
                f"example, but are {labels.dtype} of shape {labels.shape}"
            )
        label_sets.not_multi_hot(
            labels,
            [tree.num_classes],
            "labels",
            "tf_hsm.label_lists(labels) makes lists of a matrix",
        )
        *leading, num_labels = labels.shape
        labels = labels.reshape([math.prod(leading), num_labels])
        if (labels >= tree.num_classes).any():
            example, place = np.argwhere(labels >= tree.num_classes)[0]
            raise ValueError(
                f"labels[{example}, {place}] is {labels[example, place]}; it "
                f"must be below {tree.num_classes}, the classes of the tree, "
                "or negative for none"
            )
        rows = np.zeros(tree.num_rows, np.int64)
        size = max(_BLOCK // max(num_labels, 1), 1)
        for begin in range(0, len(labels), size):
            rows += _positives(tree, labels[begin : begin + size])
        return cls(tree, rows, examples=len(labels))

    @classmethod
    def expected(cls, tree, counts, *, examples):
        """Returns the counts to expect from counts of single labels.

        If labels are independent of each other, then of E examples there are

            E (1 - the product over the labels c below a row of (1 - n_c / E))

        with a label at or below the row, where n_c have the label c. It is
        exact for the leaves. Labels that come together make it too large, the
        more so the more of them are below one row.

        Args:
          tree: a `tf_hsm.Tree`.
          counts: `[N]`, how many examples have each label.
          examples: E, the number of examples.

        Raises:
          ValueError: a count is not in [0, E]; names the class. Or the tree is
            pinned.
        """
        check_not_pinned(tree, "a label tree")
        counts = _checks.check_counts(tree._by_class(counts), tree.num_classes)
        examples = _checks.check_int("examples", examples, 1)
        if counts.max() > examples:
            c = int(np.argmax(counts))
            raise ValueError(
                f"the count of class {c} is {counts[c]}; it must be at most "
                f"examples, {examples}, as it is that of those with the label"
            )
        without = np.zeros(tree.num_rows)
        with np.errstate(divide="ignore"):  # log 0: all have the label
            without[tree.class_rows] = np.log1p(-counts / examples)
        sum_to_root(without, tree._arrays, tree._levels)
        return cls(tree, -examples * np.expm1(without), examples=examples)

    def __add__(self, other):
        """Returns the counts of both, of the same tree."""
        if not isinstance(other, LabelCounts):
            return NotImplemented
        if self.tree != other.tree:
            raise ValueError("the counts are those of different trees")
        return LabelCounts(
            self.tree,
            self.rows + other.rows,
            examples=self.examples + other.examples,
        )

    def log_odds(self):
        """Returns the logit of each row if its parent is positive, `[R]`.

        m examples have a label below the parent (all examples, for rows of the
        root's group), and n of them have one at or below the row:

            log((n + 1/2) / (m - n + 1/2))

        the empirical logit (Haldane, 1956; Anscombe, 1956), which is finite for
        n = 0 and n = m too: 0 where nothing is known.
        """
        tree = self.tree
        above = tree.group_parents[tree.row_groups]
        of_parents = np.where(above < 0, self.examples, self.rows[above])
        positive, negative = self.rows, of_parents - self.rows
        return np.log(positive + 0.5) - np.log(negative + 0.5)


def _positives(tree, labels):
    """Counts the examples, with labels `[E, M]`, that have each row, `[R]`."""
    example, place = np.nonzero(labels >= 0)
    leaves = tree.class_rows[labels[example, place]]
    # One number for each pair of an example and a row.
    pairs = np.unique(example * tree.num_rows + leaves)
    found = []
    while pairs.size:
        found.append(pairs)
        example, row = np.divmod(pairs, tree.num_rows)
        above = tree.group_parents[tree.row_groups[row]]
        pairs = np.unique((example * tree.num_rows + above)[above >= 0])
    if not found:
        return 0
    rows = np.unique(np.concatenate(found)) % tree.num_rows
    return np.bincount(rows, minlength=tree.num_rows)
