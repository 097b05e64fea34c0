"""The tree over the classes: immutable, NumPy only."""

import functools
import os

import numpy as np

from tf_hsm import _checks
from tf_hsm._units import digits
from tf_hsm.cost import expected
from tf_hsm.tree import (
    arrays,
    files,
    grown_tree,
    kept_classes,
    masses,
    pruned_tree,
    regrouped_tree,
    row_map,
)
from tf_hsm.tree.check import check_binary
from tf_hsm.tree.constructors import TreeConstructors
from tf_hsm.tree.data import expected_loss
from tf_hsm.tree.group_arrays import GroupArrays, read_only
from tf_hsm.tree.names import (
    NameLookup,
    name_of_row,
    names_of_classes,
    names_of_rows,
    replace_class_names,
    unpack_names,
)
from tf_hsm.tree.plot import plot_tree
from tf_hsm.tree.summary import summarize

_Path = str | os.PathLike[str]


class Tree(TreeConstructors, GroupArrays):
    """A rooted tree whose leaves are the classes 0 to N - 1.

    The children of a node are a group; every node but the root is a row of
    the weight matrix. Rows are numbered breadth-first, so that siblings are
    contiguous; groups are numbered in the order of their parent rows.

    >>> tree = Tree.from_nested([[0, 1], [2, [3, 4]]])
    >>> tree
    Tree(num_classes=5, num_rows=8, num_groups=4, depth=3)
    >>> tree.path(3).tolist()
    [1, 5, 6]

    A tree is immutable and its arrays are read-only. Two trees are equal, and
    have one hash, if their three arrays are equal and both or neither are
    pinned, because the ops see nothing else: names and counts do not matter.
    Most trees come from a builder, a class method such as `balanced`,
    `from_counts` or `from_data`.

    Attributes:
      group_offsets: `[G + 1]` int64; group g owns the rows
        `group_offsets[g]` to `group_offsets[g + 1] - 1`.
      group_parents: `[G]` int64, the row above each group, -1 for the root's.
      class_rows: `[N]` int64, the leaf row of each class.
      pinned: a bool: whether every group has two rows, the second of which has
        the logit 0; see `pin`.
      counts: `[N]` int64 or float64, how often each class occurs, or None if
        the tree was made without counts; see `with_counts`.
    """

    def __init__(
        self,
        group_offsets,
        group_parents,
        class_rows,
        *,
        names=None,
        pinned=False,
        counts=None,
    ):
        """Checks and copies the three arrays described above.

        Args:
          group_offsets: `[G + 1]` integers.
          group_parents: `[G]` integers.
          class_rows: `[N]` integers.
          names: `[R]` strs, the name of each row, or None.
          pinned: whether the second row of each group, which must have two,
            has the logit 0; see `pin`.
          counts: `[N]`, how often each class occurs; or None.

        Raises:
          ValueError: the arrays are not a tree, a name is not a str, or a count
            is negative, infinite or NaN; names the first group, row or class
            that is wrong.
        """
        self._set_arrays(
            group_offsets,
            group_parents,
            class_rows,
            is_tree=True,
            pinned=pinned,
        )
        self.__dict__["_names"] = names_of_rows(names, self.num_rows)
        if counts is not None:
            counts = _checks.check_counts(
                self._by_class(counts), self.num_classes
            )
            counts = read_only(counts.copy())
        self.__dict__["counts"] = counts

    def _with(self, **changes):
        """Returns a copy of the tree with other arguments of the constructor.

        Args:
          **changes: the arguments by name, the three arrays among them.
        """
        own = self._arrays._asdict() | self._options
        return type(self)(**(own | changes))

    @classmethod
    def load(cls, path: _Path) -> "Tree":
        """Reads a tree that `save` wrote.

        Raises:
          OSError: the file cannot be read.
          ValueError: it is not a whole tree of a version known here.
        """
        return cls(**files.load(path))

    @classmethod
    def from_config(cls, config: dict) -> "Tree":
        """Makes the tree that `get_config` described; else a ValueError."""
        return cls(**files.from_config(config))

    def save(self, path: _Path) -> None:
        """Writes the tree to an .npz file of that very name.

        The file appears in one step: a save that is interrupted or fails
        leaves an earlier file whole, and nothing else.

        Raises:
          OSError: the file cannot be written; says why, and names the path.
        """
        files.save(path, self._arrays, **self._options)

    def get_config(self) -> dict:
        """Returns the tree as a dict that JSON can hold."""
        return files.to_config(self._arrays, **self._options)

    @functools.cached_property
    def group_depths(self) -> np.ndarray:
        """`[G]` int64, the rows above each group; 0 for the root's group."""
        return read_only(
            np.repeat(np.arange(self.depth), np.diff(self._levels))
        )

    def path(self, c: int) -> np.ndarray:
        """Returns the rows `[length]` from below the root to the leaf of `c`.

        Raises:
          IndexError: `c` is not one of the classes 0 to N - 1.
        """
        c = _checks.check_class(c, self.num_classes)
        rows = []
        row = int(self.class_rows[c])
        while row >= 0:
            rows.append(row)
            row = int(self.group_parents[self.row_groups[row]])
        return np.array(rows[::-1])

    @functools.cached_property
    def names(self) -> np.ndarray | None:
        """`[R]` objects of type str, the name of each row; or None.

        They stand for nothing in the tree: two rows may have one name, and a
        row that has none is named "".
        """
        if self._names is None:
            return None
        return read_only(unpack_names(self._names))

    def with_class_names(self, names) -> "Tree":
        """Returns this tree with names for its leaves.

        Other rows keep their names; where there are none, they are named "".

        Args:
          names: `[N]` strs, the name of each class.

        Raises:
          ValueError: there is not one str per class; names the class.
        """
        row_names = [""] * self.num_rows if self._names is None else self.names
        return self._with(
            names=replace_class_names(names, self.class_rows, row_names)
        )

    def with_counts(self, counts) -> "Tree":
        """Returns this tree with other counts of its classes.

        A tree that is made from counts or data keeps its counts. The biases of
        a `HierarchicalSoftmax` or an `EmbeddingSoftmax` begin there: without
        training, each class has the probability with which it occurs.
        `expected_cost`, `row_shares`, `log_prior`, `plot` and
        `tf_hsm.distribute.plan` use the counts where no others are given.

        Args:
          counts: `[N]`, how often each class occurs; or a mapping from
            classes, or from names where the tree has names, to these numbers:
            a dict, a `collections.Counter` or a pandas Series. A class that it
            lacks has the count 0. All methods of the tree and all layers read
            counts so. None: a tree without counts.

        Raises:
          IndexError: a key is an integer that is no class.
          KeyError: a key is a str that is no name of a class.
          ValueError: a count is negative, infinite or NaN; names the class. Or
            keys are neither integers nor strs.
        """
        return self._with(counts=counts)

    def class_name(self, classes):
        """Returns the name of a class: of its leaf.

        >>> tree = Tree.from_counts({"the": 60, "of": 30, "cat": 1})
        >>> tree.class_name([2, 0])
        array(['cat', 'the'], dtype=object)

        Args:
          classes: an integer; or a list, an array or a tensor of integers, of
            any shape; or what has these as `classes`, as what `top_k` returns.

        Returns:
          A str; or an array of strs of that shape, with "" for -1, which stands
          for no class in labels and in sequences.

        Raises:
          IndexError: an entry is not one of the classes 0 to N - 1.
          ValueError: the tree has no names.
        """
        return names_of_classes(self._names, self.class_rows, classes)

    def class_of(self, names):
        """Returns the class whose leaf has this name; see `class_name`.

        Args:
          names: a str; or a list or an array of strs, of any shape.

        Returns:
          An int; or an int64 array of that shape.

        Raises:
          KeyError: no leaf has the name; says which, and what is similar.
          TypeError: a name is not a str.
          ValueError: several leaves have the name, or the tree has no names.
        """
        return self._class_lookup(names)

    def row_of(self, names):
        """Returns the row of this name, of an inner node or of a leaf.

        For labels at inner nodes: see `tf_hsm.hierarchical_softmax_loss`.

        Args:
          names: a str; or a list or an array of strs, of any shape.

        Returns:
          An int; or an int64 array of that shape.

        Raises:
          KeyError: no row has the name; says which, and what is similar.
          TypeError: a name is not a str.
          ValueError: several rows have the name, or the tree has no names.
        """
        return self._row_lookup(names)

    def path_names(self, c: int) -> list[str]:
        """Returns the names of the rows of `path(c)`, a list of strs.

        Raises:
          IndexError: `c` is not one of the classes 0 to N - 1.
          ValueError: the tree has no names.
        """
        return [name_of_row(self._names, row) for row in self.path(c)]

    def grow(self, classes, *, near=None, branch=False, max_fanout=None):
        """Returns a tree with new classes beside the classes of this one.

        Old classes keep their numbers 0 to N - 1, their names and their paths,
        and new ones are N to N + M - 1. Each new leaf is at the end of its
        group, or of a new one, and all other groups stay as they are: so do the
        log-probabilities in them, to the bit, if their rows keep their values.
        `tf_hsm.layers.HierarchicalSoftmax.grow` sees to that.

        - By default new classes go into the fullest groups that they fit in.
          Such a group has leaves only, so that no class below it changes but
          its own, and at most `max_fanout` rows after it; as few are taken as
          can be, and the last of them is the fullest that has room. So no
          group gets longer than the longest was. Where there is not room for
          all, all become a new branch.
        - With `near` each goes into the group of an old class, whatever its
          size.
        - With `branch` they all go below one new row in the root's group (a
          single one is that row), in the Huffman tree of their counts, or in a
          balanced one of as few levels as can be. Then one group changes, but
          all paths begin in it.

        >>> tree = Tree.from_counts({"the": 60, "of": 30, "cat": 1})
        >>> grown = tree.grow(["dog"], near=[tree.class_of("cat")])
        >>> grown.class_of("cat"), grown.class_of("dog")
        (2, 3)

        Args:
          classes: the number M of new classes; or their names, a list of M
            strs; or their counts `[M]`; or both, as a dict or a
            `collections.Counter`. Old rows of a tree without names are then
            named "".
          near: None; or for each new class the old class `[M]` whose group it
            goes into; or vectors `[N + M, D]` of all classes, old classes
            first: then it goes into the group of the old class of the largest
            cosine.
          branch: whether the new classes are a branch of their own.
          max_fanout: the most rows of a group that takes new classes, or of a
            new one; the largest fanout of this tree when None.

        Raises:
          ValueError: an argument is none of these, a new name is the name of
            another class, or `near` is given with one of the later arguments;
            or the tree is pinned, whose groups have no room.
        """
        return grown_tree.grow(self, classes, near, branch, max_fanout)

    def rebalance(self, counts, *, branching=None):
        """Returns the Huffman tree of new counts for the same classes.

        Classes keep their numbers and names, and frequent ones get the short
        paths. `better.map_rows(tree)` then names the old row from which each
        row of the better tree goes on.

        >>> tree = Tree.from_counts({"the": 60, "of": 30, "cat": 1})
        >>> better = tree.rebalance({"cat": 9, "the": 7, "of": 1})

        Args:
          counts: `[N]`, how often each class occurs now; see `with_counts`.
          branching: the fanout; when None the largest of this tree, but at
            most 256.

        Returns:
          A tree.

        Raises:
          KeyError: no class has one of the names.
          ValueError: the counts are as `huffman` refuses them, or not `[N]`; or
            the tree is pinned: a row that goes on has weights to take along.
        """
        return grown_tree.rebalance(self, counts, branching)

    def map_rows(self, before, *, from_top=False):
        """Returns the row of an earlier tree that each row goes on from, `[R]`.

        A row goes on from the one that has the same old classes below it,
        whatever new classes join them. So the leaf of an old class goes on
        from its leaf, all rows of a tree that grew go on, and in a tree that
        was made anew those whose classes stayed together. Where several rows
        in a chain have the same classes, they are counted from the leaf.

        Args:
          before: a tree whose classes are the first ones of this tree.
          from_top: whether the rows of a chain are counted from the root's end
            instead. Where the leaf of an old class became an inner node above
            that class, the inner row then goes on from the old leaf.

        Returns:
          `[R]` int64, with -1 for rows that are new.

        Raises:
          TypeError: `before` is no tree.
          ValueError: it has more classes than this tree, or a class has another
            name there; names it.
        """
        if not isinstance(before, Tree):
            raise TypeError(
                f"before must be a tf_hsm.Tree, but is {type(before).__name__}"
            )
        return row_map.map_rows(self, before, from_top)

    def prune(self, keep, *, merge=True, counts=None):
        """Returns a tree for fewer classes, with maps of classes and rows.

        The kept classes are the new classes 0 to K - 1, in their old order, and
        every row of the new tree continues one old row. There are two ways to
        remove the other classes:

        - `merge=True`: a removed class falls to its parent. An inner node
          without kept classes below it becomes a leaf, a new class that stands
          for all classes below it. Its probability is the sum of their
          probabilities, and the kept classes keep their log-probabilities, to
          the bit. Together, the new classes from K on are the "unknown" word of
          a language model. A group is removed only if all classes below its
          parent are removed. So a removed class stays, as a new class of its
          own, if its group has a kept class or an inner node above one.
        - `merge=False`: a removed class and its row vanish, and so does an
          inner node without kept classes. There are exactly K new classes. The
          other rows of a group take the probability of the removed rows: a
          softmax over the rows that are left. A group with one row left has
          nothing to decide, so its row is removed and the parent takes its
          place.

        With counts or names, the new tree has counts and names too. The count
        of a merged class is the sum of the counts, and its name is the name of
        the inner node, which can be "".

        >>> tree = Tree.from_counts({"the": 60, "of": 30, "cat": 2, "dog": 1},
        ...                         branching=2)
        >>> pruned = tree.prune(2)
        >>> pruned.tree.num_classes, pruned.classes
        (3, array([0, 1, 2, 2]))

        Args:
          keep: how many of the most frequent classes, an integer; or which
            share of the classes, a float between 0 and 1, by counts too; or
            `[N]` bools; or a list of classes. `tree.counts >= 5` keeps the
            classes that occur 5 times.
          merge: whether removed classes fall to their parents or vanish.
          counts: `[N]`, how often each class occurs, for an integer or a
            float; the counts of the tree when None.

        Returns:
          A `PrunedTree`: the fields `tree`, `classes` and `rows`.

        Raises:
          ValueError: `keep` is none of these, or names no class; the counts are
            missing; with `merge`, every group has a kept class below its
            parent, so that no group can be removed; or the tree is pinned and a
            single class would be left.
        """
        counts = self.counts if counts is None else self._by_class(counts)
        keep, _ = kept_classes.read(keep, self.num_classes, counts)
        return pruned_tree.prune(self, keep, "merge" if merge else "collapse")

    def regroup(self, vectors, *, keep_depths=True, seed=0, verbose=False):
        """Returns a tree of the same shape with similar classes in its groups.

        Only `class_rows` changes. So a head for the new tree has variables of
        the same shapes, and `head.regroup(tree)` moves a trained head to it.
        Classes are divided as `Tree.from_embeddings` divides them, by the
        cosines of their vectors.

        By default each class moves to a leaf of its own depth. Frequent
        classes keep their short paths, and classes in the root's group stay
        there. Leaves of each depth are filled by themselves: a group with
        leaves and inner rows can have one cluster in its leaves and another
        one below its inner rows.

        >>> tree = Tree.two_level(4)
        >>> tree.classes_below(0).tolist()
        [0, 1]
        >>> vectors = [[1, 0], [0, 1], [1, 0], [0, 1]]
        >>> tree.regroup(vectors).classes_below(0).tolist()
        [1, 3]

        Names move with their classes, and inner rows lose their names.

        Args:
          vectors: `[N, D]` real numbers, one vector for each class.
          keep_depths: whether each class keeps its depth. Otherwise any class
            can move to any leaf, as is best where all classes are equally
            frequent.
          seed: an integer, at least 0.
          verbose: whether to write progress to stderr.

        Raises:
          ValueError: `vectors` is not `[N, D]`, or has a number that is NaN or
            infinite; names the class.
        """
        return regrouped_tree.regroup(self, vectors, keep_depths, seed, verbose)

    def pin(self):
        """Returns this tree pinned: with one row of weights per group.

        Only the difference of a group's two logits counts, so the second row
        of each may have the logit 0. Group g then owns one row, row g of the
        weights `[num_weight_rows, width]`, for its first row of the tree: half
        as many numbers to keep, to read and to write. It is word2vec's layout.

        Raises:
          ValueError: a group does not have two rows; names the first one.
        """
        return self._with(pinned=True)

    def expand(self):
        """Returns this tree not pinned: with weights for each of its rows."""
        return self._with(pinned=False)

    def pin_rows(self, weights) -> np.ndarray:
        """Returns the weights of `pin()` with the probabilities of given ones.

        They are the first row of each group less the second one.

        Args:
          weights: `[R, ...]`, of all rows of this tree, or their biases.

        Returns:
          `[G, ...]`, in the type of `weights`.

        Raises:
          TypeError: they are not floats.
          ValueError: a group does not have two rows, or there are not R.
        """
        weights = self._check_weights(weights, self.num_rows)
        if weights.dtype.kind in "biu":
            raise TypeError(f"weights must be floats, but are {weights.dtype}")
        return weights[0::2] - weights[1::2]

    def expand_rows(self, weights) -> np.ndarray:
        """Returns the weights of `expand()` with the values of given ones.

        Those of the second row of each group are zeros.

        Args:
          weights: `[G, ...]`, of this tree when pinned, or their biases.

        Returns:
          `[R, ...]`, in the type of `weights`.

        Raises:
          ValueError: a group does not have two rows, or there are not G.
        """
        weights = self._check_weights(weights, self.num_groups)
        expanded = np.zeros([self.num_rows, *weights.shape[1:]], weights.dtype)
        expanded[0::2] = weights
        return expanded

    def _check_weights(self, weights, size):
        """Returns weights `[size, ...]` of a tree that can be pinned."""
        check_binary(self.group_offsets)
        weights = np.asarray(weights)
        if weights.shape[:1] != (size,):
            raise ValueError(
                f"weights has the shape {list(weights.shape)}; it must be "
                f"[{size}, ...]"
            )
        return weights

    def expected_cost(
        self, counts=None, *, batch=None, width=None, cost_model=None
    ):
        """Returns the mean number of rows that one example scores, a float.

        An example scores all rows of each group on its label's path; of a
        pinned tree, the one that has weights. With `batch` and `width`, returns
        what a step of the loss and its gradients costs, an `ExpectedCost`: its
        `rows_per_example`, `touched_rows`, `flops`, `bytes` and `milliseconds`.

        Args:
          counts: `[N]`, how often each class is the label; when None, the
            counts of the tree, or all alike if it has none. Labels are drawn by
            them, independently.
          batch: the examples in a step.
          width: D, the width of the inputs.
          cost_model: a `tf_hsm.CostModel`, for the milliseconds; by default
            a machine of two cores.

        Raises:
          ValueError: a count is negative, infinite or NaN, or all are zero;
            or one of `batch` and `width` is missing or not positive.
        """
        return expected.expected_cost(
            self._group_weight_rows,
            masses.passing(
                self._arrays, self._levels, self._counts_or_own(counts)
            ),
            batch,
            width,
            cost_model,
        )

    def expected_loss(
        self, labels, contexts=None, *, ordered=None, several_labels=False
    ) -> float:
        """Returns how well the tree suits data, in nats; lower is better.

        It is the mean loss of a bigram model on the tree, which predicts each
        label from one id of its context, by counts of all other examples. No
        weights are trained. Two trees for the same data can be compared, before
        training: related classes in one group make the loss lower.
        `tf_hsm.tree.data.expected_loss` has the formula.

        Args:
          labels: as for `from_data`.
          contexts: as for `from_data`; needed unless `labels` is a dataset.
          ordered: as for `from_data`.
          several_labels: as for `from_data`.

        Raises:
          ValueError: as for `from_data`; or there is no context.
        """
        return expected_loss.expected_loss(
            self, labels, contexts, ordered, several_labels
        )

    def row_shares(self, counts=None) -> np.ndarray:
        """Returns the share of each row in its group, `[R]`.

        It is the probability that a label's path has the row, where it passes
        the group: the shares of a group sum to 1. In a group that no label
        passes all rows are alike. For `smoothing_prior` of the losses.

        Args:
          counts: `[N]`, how often each class is the label; when None, the
            counts of the tree, or all alike if it has none.

        Raises:
          ValueError: a count is negative, infinite or NaN, or all are zero.
        """
        return masses.row_shares(self, self._counts_or_own(counts))

    def log_prior(self, counts=None) -> np.ndarray:
        """Returns the log-probability of each row in its group, `[R]`.

        As biases, they make a model that has learned nothing else predict each
        class as often as it occurs. A pinned tree has the
        log-odds of the first row of each group, `[G]`.

        Args:
          counts: `[N]`, how often each class occurs; the counts of the tree
            when None. A count of zero counts as half the smallest positive one.

        Raises:
          ValueError: a count is negative, infinite or NaN; or there are no
            counts.
        """
        if counts is None:
            counts = self.counts
        if counts is None:
            raise ValueError(
                "the tree has no counts; give them: tree.log_prior(counts)"
            )
        prior = masses.log_prior(self, self._by_class(counts))
        return self.pin_rows(prior) if self.pinned else prior

    def summary(self) -> str:
        """Returns a text: sizes, depths, fanouts of each level, memory, cost.

        The cost assumes labels with the frequencies in `counts`.
        `expected_loss` says how well the tree suits data.
        """
        text = summarize(self)
        if self.counts is None or not self.counts.any():
            return text
        cost = self.expected_cost(batch=1024, width=512)
        return (
            f"{text}\n  by its counts an example scores "
            f"{cost.rows_per_example:,.1f} rows; predicted for 1,024 examples "
            f"of width 512: {digits(cost.milliseconds)} ms a step"
        )

    def plot(self, counts=None, *, path=None):
        """Draws the tree: its heaviest nodes, fanouts, and where labels end.

        Ribbons are as thick as the share of the labels that take them, and
        nodes have their names; those that have none are called by class, or
        by their number of classes.

        Args:
          counts: `[N]`, how often each class is the label; when None, the
            counts of the tree, or all alike if it has none.
          path: the file to write, .png, .svg or .pdf; or None.

        Returns:
          A `matplotlib.figure.Figure`.

        Raises:
          ImportError: matplotlib, an optional extra, is not installed.
          ValueError: a count is negative, infinite or NaN, or all are zero;
            or matplotlib knows no format of the suffix of `path`.
        """
        return plot_tree(self, self._counts_or_own(counts), path)

    def _counts_or_own(self, counts):
        """Returns the given counts, else the tree's if a class occurs."""
        if counts is None and self.counts is not None and self.counts.any():
            return self.counts
        return self._by_class(counts)

    def _by_class(self, values, name="counts", missing=0):
        """Returns what a user gives for each class in the order of the classes.

        See `_checks.by_class`.
        """
        class_of = None if self._names is None else self.class_of
        return _checks.by_class(
            name, values, self.num_classes, class_of, missing
        )

    @functools.cached_property
    def _class_lookup(self):
        return NameLookup(
            self.names,
            self.class_rows,
            "class",
            "tree.path_names(c) tells them apart",
        )

    @functools.cached_property
    def _row_lookup(self):
        return NameLookup(
            self.names,
            slice(None),
            "row",
            "take the row from tree.path(c) of a class c at or below it",
        )

    @functools.cached_property
    def _levels(self):
        return arrays.level_starts(self._arrays)

    @property
    def _by_level(self):
        """The arrays of a tree have the groups of a level side by side."""
        return self._arrays, self._levels, slice(None)

    @property
    def _options(self):
        return {
            "names": self._names,
            "pinned": self.pinned,
            "counts": self.counts,
        }

    def __repr__(self):
        """Names the sizes."""
        return (
            f"Tree(num_classes={self.num_classes}, num_rows={self.num_rows}, "
            f"num_groups={self.num_groups}, depth={self.depth}"
            f"{', pinned=True' if self.pinned else ''})"
        )


def check_one_tree(tree):
    """Returns a `Tree`; a TypeError if it is something else, or a `Forest`."""
    _checks.check_is_tree(tree)
    if not isinstance(tree, Tree):
        raise TypeError(
            f"tree must be a tf_hsm.Tree, but is {type(tree).__name__}"
        )
    return tree
