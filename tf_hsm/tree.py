"""The tree over the classes: immutable, NumPy only."""

import functools
import hashlib

import numpy as np

from tf_hsm import (
    _tree_adaptive,
    _tree_arrays,
    _tree_builders,
    _tree_checks,
    _tree_huffman,
    _tree_io,
    _tree_nodes,
    _tree_summary,
)


class Tree:
    """A rooted tree whose leaves are the classes 0 to N - 1.

    The children of a node are a group; every node but the root is a row of
    the weight matrix. Rows are numbered breadth-first, so that siblings are
    contiguous; groups are numbered in the order of their parent rows.

    >>> tree = Tree.from_nested([[0, 1], [2, [3, 4]]])
    >>> tree
    Tree(num_classes=5, num_rows=8, num_groups=4, depth=3)
    >>> tree.path(3).tolist()
    [1, 5, 6]

    A tree is immutable, its arrays are read-only, and it is compared and
    hashed by content. Most trees come from a builder: `balanced`,
    `two_level`, `huffman`, `adaptive`, `from_parents`, `from_paths` or
    `from_nested`.

    Attributes:
      group_offsets: `[G + 1]` int64; group g owns the rows
        `group_offsets[g]` to `group_offsets[g + 1] - 1`.
      group_parents: `[G]` int64, the row above each group, -1 for the root's.
      class_rows: `[N]` int64, the leaf row of each class.
    """

    def __init__(self, group_offsets, group_parents, class_rows):
        """Checks and copies the three arrays described above.

        Raises:
          ValueError: the arrays are not a tree; names the first group, row or
            class that is wrong.
        """
        arrays = _tree_builders.TreeArrays(
            _tree_checks.check_integers("group_offsets", group_offsets).copy(),
            _tree_checks.check_integers("group_parents", group_parents).copy(),
            _tree_checks.check_integers("class_rows", class_rows).copy(),
        )
        _tree_checks.check_tree(*arrays)
        for name, array in arrays._asdict().items():
            self.__dict__[name] = _read_only(array)

    @classmethod
    def balanced(cls, num_classes, branching):
        """A tree whose leaves, in class order, are spread as evenly as can be.

        A node with n classes below it has `min(branching, n)` children, whose
        numbers of classes differ by at most one; a node with one class is its
        leaf. With one int for all levels, the depths of two leaves differ by
        at most one.

        Args:
          num_classes: N, at least 1.
          branching: the largest fanout, at least 2; or a list of one per
            level, each at least 1, whose product is at least N. Levels of
            the list that are not needed stay unused.

        Raises:
          ValueError: an argument is out of range, or too few leaves fit.
        """
        return cls(*_tree_builders.balanced(num_classes, branching))

    @classmethod
    def two_level(cls, num_classes):
        """About sqrt(N) groups of about sqrt(N) classes, in class order.

        The classes are spread evenly over `round(sqrt(N))` groups; up to
        three classes are one group.

        Raises:
          ValueError: `num_classes` is not a positive integer.
        """
        return cls(*_tree_builders.two_level(num_classes))

    @classmethod
    def huffman(cls, counts, branching=2):
        """The tree with the smallest mean depth for the given counts.

        Every group has `min(branching, N)` rows but for the last one, which
        is among the deepest and takes what is left. Heavy rows come first in
        a group. Equal counts are told apart by the class number, the smaller
        one being nearer to the root, so that the tree is reproducible.
        After Huffman (1952), in O(N) past the sort.

        Args:
          counts: `[N]`, how often each class occurs; zeros are allowed.
            Integers are summed exactly in int64, floats in float64.
          branching: the fanout, at least 2.

        Raises:
          ValueError: a count is negative, infinite or NaN (names the class),
            or the total does not fit its type.
        """
        return cls(*_tree_huffman.huffman(counts, branching))

    @classmethod
    def adaptive(
        cls,
        counts,
        num_clusters="auto",
        batch=1024,
        width=512,
        tail="flat",
        min_head=None,
        cost_model=None,
        cutoffs=None,
    ):
        """Frequency clusters that take the least time for the given counts.

        The root's group holds the most frequent classes and then one row per
        tail. Classes need no order; equal counts go by the class number. After
        Grave et al. (2016: Efficient softmax approximation for GPUs).

        Args:
          counts: `[N]`, how often each class occurs; zeros are allowed.
          num_clusters: the number of tails, several to choose from, or "auto":
            the best of 1 to 8, or none if there are at most two classes.
          batch: the examples in a step.
          width: that of the inputs.
          tail: "flat" if a tail is one group; "two_level", or the branching of
            a balanced tree: then no group of a large tail is long.
          min_head: the fewest classes in the head; by default about sqrt(N).
          cost_model: a `tf_hsm.CostModel`; by default that of a machine of two
            cores.
          cutoffs: ascending, as for PyTorch, in place of the best ones; then
            only `counts` and `tail` count.

        Raises:
          ValueError: an argument is out of range; names it.
        """
        return cls(
            *_tree_adaptive.adaptive(
                counts,
                num_clusters,
                batch,
                width,
                tail,
                min_head,
                cost_model,
                cutoffs,
            )
        )

    @classmethod
    def from_parents(cls, parents, classes=None):
        """A tree given by the parent of each node.

        Nodes are numbered as the caller likes; siblings keep their order.

        Args:
          parents: `[M]` integers, the parent of each node; -1 for the root.
          classes: `[M]` integers, the class of each leaf, and -1 for each
            node with children. By default the leaves, in node order, are the
            classes 0 to N - 1.

        Raises:
          ValueError: there is not exactly one root, a parent is not a node, a
            node is its own ancestor, or a class is missing, out of range or
            given twice; names the node.
        """
        return cls(*_tree_nodes.from_parents(parents, classes))

    @classmethod
    def from_paths(cls, paths):
        """A tree given by one path per class, like the paths of files.

        Paths that begin with the same keys share the nodes of those keys.
        Siblings stand in the order in which they first occur.

        Args:
          paths: for each class a tuple of hashable keys, at least one.

        Raises:
          ValueError: two classes have the same path, or one class's path is
            the beginning of another's; names the classes.
        """
        return cls(*_tree_nodes.from_paths(paths))

    @classmethod
    def from_nested(cls, nested_lists):
        """A tree given by nested lists of classes, such as `[[0, 1], [2]]`.

        A list is a node with children, an integer is the leaf of that class.
        Any depth of nesting works.

        Raises:
          ValueError: a list is empty, or the integers are not exactly the
            numbers 0 to N - 1.
        """
        return cls(*_tree_nodes.from_nested(nested_lists))

    @classmethod
    def load(cls, path):
        """Reads a tree that `save` wrote.

        Raises:
          OSError: the file cannot be read.
          ValueError: it is not a whole tree of a version known here.
        """
        return cls(*_tree_io.load(path))

    @classmethod
    def from_config(cls, config):
        """Makes the tree that `get_config` described; else a ValueError."""
        return cls(*_tree_io.from_config(config))

    def save(self, path):
        """Writes the tree to an .npz file of that very name.

        The file appears in one step: an interrupted save leaves an earlier
        file whole.
        """
        _tree_io.save(path, self._arrays)

    def get_config(self):
        """Returns the tree as a dict that JSON can hold."""
        return _tree_io.to_config(self._arrays)

    @property
    def num_classes(self):
        """N, the number of leaves."""
        return self.class_rows.size

    @property
    def num_groups(self):
        """G, the number of nodes with children, the root among them."""
        return self.group_parents.size

    @property
    def num_rows(self):
        """R = N + G - 1, the number of nodes but for the root."""
        return int(self.group_offsets[-1])

    @property
    def depth(self):
        """L, the length of the longest path."""
        return self._levels.size - 1

    @functools.cached_property
    def row_groups(self):
        """`[R]` int64, the group of each row."""
        return _read_only(_tree_arrays.row_groups(self.group_offsets))

    @functools.cached_property
    def row_classes(self):
        """`[R]` int64, the class of each leaf row, -1 for an inner row."""
        return _read_only(
            _tree_arrays.inverse(self.num_rows, self.class_rows, 0)
        )

    @functools.cached_property
    def row_children(self):
        """`[R]` int64, the group below each row, -1 for a leaf."""
        return _read_only(
            _tree_arrays.inverse(self.num_rows, self.group_parents[1:], 1)
        )

    @functools.cached_property
    def group_depths(self):
        """`[G]` int64, the rows above each group; 0 for the root's group."""
        return _read_only(
            np.repeat(np.arange(self.depth), np.diff(self._levels))
        )

    @functools.cached_property
    def class_ranks(self):
        """`[N]` int64, the place of each leaf in depth-first order.

        The classes below a row are an interval of ranks.
        """
        return _read_only(
            _tree_arrays.class_ranks(
                *self._arrays, self._levels, self.row_groups
            )
        )

    def path(self, c):
        """Returns the rows `[length]` from below the root to the leaf of `c`.

        Raises:
          IndexError: `c` is not one of the classes 0 to N - 1.
        """
        c = _tree_checks.check_class(c, self.num_classes)
        rows = []
        row = int(self.class_rows[c])
        while row >= 0:
            rows.append(row)
            row = int(self.group_parents[self.row_groups[row]])
        return np.array(rows[::-1])

    def expected_cost(self, counts=None):
        """Returns the mean number of rows that one example scores.

        An example scores all rows of each group on its label's path.

        Args:
          counts: `[N]`, how often each class is the label; all alike when
            None.

        Raises:
          ValueError: a count is negative, infinite or NaN, or all are zero.
        """
        fanouts = np.diff(self.group_offsets)
        costs = _tree_arrays.sum_from_root(
            fanouts, self._levels, self.row_groups[self.group_parents]
        )[self.row_groups[self.class_rows]]
        if counts is None:
            return float(costs.mean())
        counts = _tree_checks.check_counts(counts, self.num_classes)
        if not counts.any():
            raise ValueError("all counts are zero; no class ever occurs")
        return float(np.average(costs, weights=counts / counts.max()))

    def summary(self):
        """Returns a text: sizes, depths, fanouts of each level, memory."""
        return _tree_summary.summary(self._arrays, self._levels)

    @functools.cached_property
    def _levels(self):
        return _tree_arrays.level_starts(self.group_offsets, self.group_parents)

    @property
    def _arrays(self):
        return _tree_builders.TreeArrays(
            self.group_offsets, self.group_parents, self.class_rows
        )

    @functools.cached_property
    def _hash(self):
        digest = hashlib.blake2b(digest_size=8)
        for array in self._arrays:
            digest.update(array)
        return int.from_bytes(digest.digest(), "little")

    def __hash__(self):
        """Hashes the content."""
        return hash(self._hash)

    def __eq__(self, other):
        """Compares the content."""
        if not isinstance(other, Tree):
            return NotImplemented
        return self is other or all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip(self._arrays, other._arrays, strict=True)
        )

    def __repr__(self):
        """Names the sizes."""
        return (
            f"Tree(num_classes={self.num_classes}, num_rows={self.num_rows}, "
            f"num_groups={self.num_groups}, depth={self.depth})"
        )

    def __setattr__(self, name, value):
        """Refuses: a tree is immutable."""
        raise AttributeError(f"a Tree is immutable; cannot set {name!r}")

    def __delattr__(self, name):
        """Refuses: a tree is immutable."""
        raise AttributeError(f"a Tree is immutable; cannot delete {name!r}")

    def __copy__(self):
        """Returns the tree itself, as it cannot change."""
        return self

    def __deepcopy__(self, memo):
        """Returns the tree itself, as it cannot change."""
        return self

    def __reduce__(self):
        """Pickles the three arrays; they are checked again when read."""
        return type(self), tuple(self._arrays)


def _read_only(array):
    array.flags.writeable = False
    return array
