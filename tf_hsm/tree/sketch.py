"""The top of a tree: those few nodes that are worth a look."""

import dataclasses
import heapq
import itertools

import numpy as np

# The children that are shown of the root and of others; the rest is one line.
_ROOT_CHILDREN, _MAX_CHILDREN = 8, 5
_MAX_DEPTH = 5


@dataclasses.dataclass(eq=False)
class Node:
    """A node that is shown, or several of one group as one.

    Attributes:
      row: its row; -1 for the root, None where it stands for several.
      depth: 0 for the root.
      mass: the probability that a label's path has it.
      num_rows: how many nodes it stands for.
      num_classes: the leaves at or below it.
      children: a list of `Node`s, the heaviest first; empty where none is
        shown.
    """

    row: int | None
    depth: int
    mass: float
    num_rows: int
    num_classes: int
    children: list = dataclasses.field(default_factory=list)


def sketch(tree, masses, leaves, max_lines):
    """Returns the root with what is shown below it, the heaviest nodes first.

    `masses [R]` are the probabilities that a label's path has each row, and
    `leaves [R]` the numbers of classes. At most `max_lines` nodes without
    children are shown; that must be at least `_ROOT_CHILDREN` + 1.
    """
    root = Node(-1, 0, 1.0, 1, tree.num_classes)
    num_lines = 1
    order = itertools.count()
    heap = [(-root.mass, next(order), root)]
    while heap:
        *_, node = heapq.heappop(heap)
        group = 0 if node.row < 0 else tree.row_children[node.row]
        if group < 0 or node.depth == _MAX_DEPTH:
            continue
        children = _children(tree, group, node.depth + 1, masses, leaves)
        if num_lines - 1 + len(children) > max_lines:
            continue
        num_lines += len(children) - 1
        node.children = children
        for child in children:
            if child.row is not None:
                heapq.heappush(heap, (-child.mass, next(order), child))
    return root


def _children(tree, group, depth, masses, leaves):
    """Returns the `Node`s of a group: the heaviest, and one for the others."""
    begin, end = tree.group_offsets[group : group + 2].tolist()
    rows = begin + np.argsort(-masses[begin:end], kind="stable")
    limit = _MAX_CHILDREN if group else _ROOT_CHILDREN
    # Not a line for one other.
    shown = rows if rows.size <= limit + 1 else rows[:limit]
    children = [
        Node(row, depth, float(masses[row]), 1, int(leaves[row]))
        for row in shown.tolist()
    ]
    others = rows[shown.size :]
    if others.size:
        mass, num_classes = masses[others].sum(), leaves[others].sum()
        children.append(
            Node(None, depth, float(mass), others.size, int(num_classes))
        )
    return children
