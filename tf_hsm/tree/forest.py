"""Several trees side by side: immutable, NumPy only."""

from tf_hsm.tree.group_arrays import GroupArrays


class Forest(GroupArrays):
    """Several trees whose leaves together are the classes 0 to N - 1.

    What is left of a tree below some of its rows, for the functions that take
    a `tf_hsm.Tree`. Each tree of the forest has a root, a number from 0 to
    `num_roots - 1`, which is no row. A class has a probability given the root
    that it is below: the probabilities below each root sum to 1.

    Trees follow each other: first come all groups, and so all rows, of the
    first one, then the groups of the next. In each, rows are numbered
    breadth-first as in `Tree`.

    >>> forest = Forest([0, 2, 4, 7], [-1, 1, -1], [0, 2, 3, 6, 5, 4])
    >>> forest
    Forest(num_classes=6, num_rows=7, num_groups=3, num_roots=2)
    >>> forest.root_groups.tolist()
    [0, 2]

    A forest is immutable and its arrays are read-only. Two forests are equal,
    and have one hash, if their three arrays are equal and both or neither are
    pinned.

    Attributes:
      group_offsets: `[G + 1]` int64; group g owns the rows
        `group_offsets[g]` to `group_offsets[g + 1] - 1`.
      group_parents: `[G]` int64, the row above each group, -1 for a root's.
      class_rows: `[N]` int64, the leaf row of each class.
      pinned: a bool: whether every group has two rows, the second of which has
        the logit 0; see `Tree.pin`.
    """

    def __init__(
        self, group_offsets, group_parents, class_rows, *, pinned=False
    ):
        """Checks and copies the three arrays described above.

        Args:
          group_offsets: `[G + 1]` integers.
          group_parents: `[G]` integers.
          class_rows: `[N]` integers.
          pinned: whether the second row of each group, which must have two,
            has the logit 0.

        Raises:
          ValueError: the arrays are not a forest; names the first group, row
            or class that is wrong.
        """
        self._set_arrays(
            group_offsets,
            group_parents,
            class_rows,
            is_tree=False,
            pinned=pinned,
        )

    def __repr__(self):
        """Names the sizes."""
        return (
            f"Forest(num_classes={self.num_classes}, "
            f"num_rows={self.num_rows}, num_groups={self.num_groups}, "
            f"num_roots={self.num_roots}"
            f"{', pinned=True' if self.pinned else ''})"
        )
