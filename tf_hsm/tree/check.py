"""The checks that three arrays are a tree, or a forest."""

import numpy as np

from tf_hsm import _checks


def check_arrays(arrays, is_tree):
    """Checks that `TreeArrays` are what `Tree`, or `Forest`, describes.

    A ValueError names the first group, row or class that is wrong.
    """
    group_offsets, group_parents, class_rows = arrays
    num_groups, num_classes = group_parents.size, class_rows.size
    if not num_groups or not num_classes:
        raise ValueError("a tree has at least one group and one class")
    roots = np.flatnonzero(group_parents == -1)
    if is_tree:
        roots = np.zeros(1, np.int64)
    if group_offsets.size != num_groups + 1:
        raise ValueError(
            f"group_offsets has {group_offsets.size} entries; "
            f"{num_groups} groups need {num_groups + 1}"
        )
    if group_offsets[0] != 0:
        raise ValueError(f"group_offsets[0] is {group_offsets[0]}; must be 0")
    _checks.refuse_first(
        group_offsets[1:] <= group_offsets[:-1],
        lambda g: (
            f"group {g} is empty: group_offsets[{g}] is {group_offsets[g]} "
            f"and group_offsets[{g + 1}] is {group_offsets[g + 1]}"
        ),
    )
    num_rows = int(group_offsets[-1])
    wanted_rows = num_classes + num_groups - max(1, roots.size)
    if num_rows != wanted_rows:
        in_trees = f" in {roots.size} trees" if roots.size > 1 else ""
        raise ValueError(
            f"group_offsets[-1] is {num_rows}; {num_classes} classes in "
            f"{num_groups} groups{in_trees} make {wanted_rows} rows"
        )
    _check_parents(group_offsets, group_parents, roots)
    _checks.refuse_first(
        (class_rows < 0) | (class_rows >= num_rows),
        lambda c: (
            f"class {c} has row {class_rows[c]}; the rows are 0 to "
            f"{num_rows - 1}"
        ),
    )
    is_leaf = np.zeros(num_rows, bool)
    is_leaf[class_rows] = True
    if (
        np.count_nonzero(is_leaf) < num_classes
        or is_leaf[_inner_rows(group_parents, roots)].any()
    ):
        _refuse_shared_row(num_rows, group_parents, class_rows)


def check_binary(group_offsets):
    """Checks that every group has two rows; a ValueError names the first."""
    fanouts = np.diff(group_offsets)
    _checks.refuse_first(
        fanouts != 2,
        lambda g: (
            f"group {g} has {fanouts[g]} rows; every group of a pinned tree "
            "has two, of which the second one's logit is 0"
        ),
    )


def check_not_pinned(tree, what):
    """Raises a ValueError if a `Tree` is pinned.

    `what` has weights for each row of the tree, for the message.
    """
    _checks.check_is_tree(tree)
    if tree.pinned:
        raise ValueError(
            f"tree is pinned, but {what} has weights for each of its rows; "
            "call tree.expand()"
        )


def _check_parents(group_offsets, group_parents, roots):
    """Checks that groups follow their parent rows, in the same order."""
    if group_parents[0] != -1:
        raise ValueError(
            f"group_parents[0] is {group_parents[0]}; group 0 is the root's, "
            "so it must be -1"
        )
    before = group_parents[:-1]
    if roots.size > 1:
        before = np.maximum.accumulate(before)
    is_early = group_parents[1:] <= before
    is_early[roots[1:] - 1] = False
    _checks.refuse_first(
        is_early,
        lambda i: (
            f"group {i + 1} has parent row {group_parents[i + 1]} and group "
            f"{np.argmax(group_parents == before[i])} has {before[i]}; groups "
            "are numbered in the order of their parent rows, one group to a row"
        ),
    )
    _checks.refuse_first(
        group_parents[1:] >= group_offsets[1:-1],
        lambda i: (
            f"group {i + 1} has parent row {group_parents[i + 1]}, which is "
            f"not above its own first row, {group_offsets[i + 1]}"
        ),
    )
    if roots.size == 1:
        return
    sizes = np.diff(roots, append=group_parents.size)
    first_rows = np.repeat(group_offsets[roots], sizes)
    is_outside = group_parents < first_rows
    is_outside[roots] = False
    _checks.refuse_first(
        is_outside,
        lambda g: (
            f"group {g} has parent row {group_parents[g]}, which is not in its "
            f"tree, whose first row is {first_rows[g]}"
        ),
    )


def _inner_rows(group_parents, roots):
    if roots.size == 1:
        return group_parents[1:]
    return group_parents[group_parents >= 0]


def _refuse_shared_row(num_rows, group_parents, class_rows):
    """Raises a ValueError about a row that is a leaf and something else."""
    owner = np.empty(num_rows, np.int64)
    owner[class_rows] = np.arange(class_rows.size)
    _checks.refuse_first(
        owner[class_rows] != np.arange(class_rows.size),
        lambda c: (
            f"row {class_rows[c]} is the leaf of both class {c} and class "
            f"{owner[class_rows[c]]}"
        ),
    )
    group = int(np.argmax(np.isin(group_parents, class_rows)))
    row = group_parents[group]
    raise ValueError(
        f"row {row} is both the leaf of class {owner[row]} and the parent of "
        f"group {group}"
    )
