"""Trees for more classes, and for other counts, than an earlier one."""

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree import new_classes
from tf_hsm.tree.arrays import row_groups
from tf_hsm.tree.builders.balanced import balanced
from tf_hsm.tree.builders.huffman import huffman, huffman_arrays
from tf_hsm.tree.builders.named_counts import is_mapping, split_mapping
from tf_hsm.tree.builders.nodes import from_parents
from tf_hsm.tree.memory import check_fits
from tf_hsm.tree.row_map import map_rows

_NODE_BYTES = 150  # The most that a row takes while a tree grows.
# As of `from_counts`: long enough to stream, short enough for few to be read.
_LARGEST_FANOUT = 256


class TreeGrowth:
    """The methods of `Tree` that make a tree for more classes, or better."""

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
          near: None; or for each new class the old one `[M]` whose group it
            goes into; or vectors `[N + M, D]` of all classes, those of the old
            ones first: then that is the old class of the largest cosine.
          branch: whether the new classes are a branch of their own.
          max_fanout: the most rows of a group that takes new classes, or of a
            new one; the largest fanout of this tree when None.

        Raises:
          ValueError: an argument is none of these, a new name is that of
            another class, or `near` is given with one of the later arguments;
            or the tree is pinned, whose groups have no room.
        """
        _refuse_pinned(self)
        known = None if self._names is None else self.names[self.class_rows]
        added = new_classes.read(classes, known)
        check_fits(
            f"there are {added.size} new classes",
            self.num_rows + 2 * added.size,
            _NODE_BYTES,
        )
        tree = self._of(
            *_with_nodes(
                self, added, *_places(self, added, near, branch, max_fanout)
            )
        )
        if self.counts is None:
            return tree
        new = np.zeros(added.size, np.int64)
        new = new if added.counts is None else added.counts
        return tree.with_counts(np.append(self.counts, new))

    def rebalance(self, counts, *, branching=None):
        """Returns the Huffman tree of new counts for the same classes.

        Classes keep their numbers and names, and frequent ones get the short
        paths. `better.map_rows(tree)` then names the old row from which each
        row of the better tree goes on.

        >>> tree = Tree.from_counts({"the": 60, "of": 30, "cat": 1})
        >>> better = tree.rebalance({"cat": 9, "the": 7, "of": 1})

        Args:
          counts: `[N]`, how often each class occurs now; or a mapping from
            names to counts, where names that are missing do not occur.
          branching: the fanout; when None the largest of this tree, but at
            most 256.

        Returns:
          A tree.

        Raises:
          KeyError: no class has one of the names.
          ValueError: the counts are as `huffman` refuses them, or not `[N]`; or
            the tree is pinned: a row that goes on has weights to take along.
        """
        _refuse_pinned(self)
        if is_mapping(counts):
            counts = self._counts_by_name(counts)
        counts = _checks.check_counts(counts, self.num_classes)
        if branching is None:
            largest = int(np.diff(self.group_offsets).max())
            branching = min(max(2, largest), _LARGEST_FANOUT)
        tree = self._of(*huffman(counts, branching=branching))
        if self._names is not None:
            rows = tree.map_rows(self)
            names = np.where(rows < 0, "", self.names[rows])
            tree = tree._with(names=names)
        return tree

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
        if not isinstance(before, TreeGrowth):
            raise TypeError(
                f"before must be a tf_hsm.Tree, but is {type(before).__name__}"
            )
        if before.num_classes > self.num_classes:
            raise ValueError(
                f"the tree has {self.num_classes} classes, fewer than the "
                f"{before.num_classes} that there were; classes cannot go"
            )
        self._check_names(before)
        return map_rows(
            before._arrays,
            before._levels,
            self._arrays,
            self._levels,
            from_top,
        )

    def _check_names(self, before):
        if self._names is None or before._names is None:
            return
        old = before.names[before.class_rows]
        new = self.names[self.class_rows[: before.num_classes]]
        bad = (old != new) & (old != "")
        if bad.any():
            c = int(np.argmax(bad))
            raise ValueError(
                f"class {c} is named {new[c]!r}, but was {old[c]!r}; the old "
                "classes must be the first ones, in their order"
            )

    def _counts_by_name(self, counts):
        names, values = split_mapping(counts)
        result = np.zeros(self.num_classes)
        if names:
            result[self.class_of(names)] = _checks.check_counts(values)
        return result


def _refuse_pinned(tree):
    if tree.pinned:
        raise ValueError(
            "the tree is pinned, and only one that is not can change; take "
            "tree.expand(), and pin() the result if it is binary"
        )


def _places(tree, added, near, branch, max_fanout):
    """Returns where new nodes go; see `Tree.grow` for the arguments.

    Returns:
      `[nodes]` the row above each, -1 for the root, and the place of its class
      among the new ones, -1 where it has children. The first node stands for
      row R, and so on.
    """
    if near is not None:
        if branch or max_fanout is not None:
            raise ValueError(
                "near says where each class goes; leave out branch and "
                "max_fanout"
            )
        beside = new_classes.nearest_classes(near, tree.num_classes, added.size)
        groups = tree.row_groups[tree.class_rows[beside]]
        return tree.group_parents[groups], np.arange(added.size)
    if max_fanout is None:
        max_fanout = max(2, int(np.diff(tree.group_offsets).max()))
    max_fanout = _checks.check_int("max_fanout", max_fanout, 2)
    if not branch:
        groups = _fitting_groups(tree, added.size, max_fanout)
        if groups is not None:
            return tree.group_parents[groups], np.arange(added.size)
    return _branch(added, max_fanout, tree.num_rows)


def _with_nodes(tree, added, parents, numbers):
    """Returns the arrays and names of a tree with more nodes.

    Args:
      tree: the old tree.
      added: the `NewClasses`.
      parents: as from `_places`.
      numbers: of the new classes.
    """
    # Node r + 1 is row r, and node 0 the root, here row -1.
    parents = [[-2], tree.group_parents[tree.row_groups], parents]
    numbers = np.where(numbers < 0, -1, tree.num_classes + numbers)
    classes = np.concatenate([[-1], tree.row_classes, numbers])
    names = None
    if tree.names is not None or added.names is not None:
        names = np.full(classes.size, "", object)
        if tree.names is not None:
            names[1 : 1 + tree.num_rows] = tree.names
        if added.names is not None:
            is_new = classes >= tree.num_classes
            places = classes[is_new] - tree.num_classes
            names[is_new] = np.array(added.names, object)[places]
    return from_parents(
        1 + np.concatenate(parents), classes=classes, names=names
    )


def _fitting_groups(tree, size, max_fanout):
    """Returns the group `[size]` that each new class fits in; else None."""
    rooms = max_fanout - np.diff(tree.group_offsets)
    rooms[tree.row_groups[tree.group_parents[1:]]] = 0
    groups = np.flatnonzero(rooms > 0)
    # The most room first: so the fewest groups change.
    groups = groups[np.argsort(-rooms[groups], kind="stable")]
    room = np.cumsum(rooms[groups])
    if not groups.size or room[-1] < size:
        return None
    num_filled = int(np.searchsorted(room, size))
    filled, others = groups[:num_filled], groups[num_filled:]
    rest = size - rooms[filled].sum()
    # The last of equally full groups, which is the deepest.
    last = others[rooms[others] >= rest][-1]
    return np.repeat([*filled, last], [*rooms[filled], rest])


def _branch(added, max_fanout, num_rows):
    """Returns what `_places` does, for a branch below the root."""
    if added.size == 1:
        return np.array([-1]), np.array([0])
    if added.counts is not None:
        below = huffman_arrays(added.counts, max_fanout)
    else:
        below = balanced(added.size, _even_fanouts(added.size, max_fanout))
    parents = 1 + below.group_parents[row_groups(below.group_offsets)]
    numbers = np.full(parents.size, -1)
    numbers[below.class_rows] = np.arange(added.size)
    return np.append(-1, num_rows + parents), np.append(-1, numbers)


def _even_fanouts(size, max_fanout):
    """The smallest fanout of as few levels as `max_fanout` allows, a list."""
    levels = 1
    while max_fanout**levels < size:
        levels += 1
    fanout = max(2, round(size ** (1 / levels)))
    return [fanout + (fanout**levels < size)] * levels
