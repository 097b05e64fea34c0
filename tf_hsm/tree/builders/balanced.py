"""Trees of a given shape: `balanced`, `two_level` and `flat`."""

import math

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.arrays import TreeArrays, ranges
from tf_hsm.tree.builders.kind import Kind, parse_fanouts
from tf_hsm.tree.memory import check_fits

_ROW_BYTES = 45  # The most that a row takes, by tracemalloc.


def balanced(num_classes, branching):
    """Returns the `TreeArrays` of `Tree.balanced`."""
    num_classes = _check_num_classes(num_classes)
    widths = _level_branching(num_classes, branching)
    _check_fits(num_classes, widths)
    # The inner nodes of one level: each holds a run of consecutive classes.
    starts = np.zeros(1, np.int64)
    sizes = np.full(1, num_classes, np.int64)
    fanouts, parents, runs = [], [np.full(1, -1, np.int64)], []
    num_rows = 0
    for width in widths:
        fanout = np.minimum(sizes, min(width, num_classes))
        small, num_larger = np.divmod(sizes, fanout)
        first_rows = num_rows + np.cumsum(fanout) - fanout
        num_rows += int(fanout.sum())
        # Children with one class come last, side by side.
        inner = np.where(small == 1, num_larger, fanout)
        runs.append(
            np.stack(
                [starts + 2 * num_larger, first_rows + inner, fanout - inner]
            )[:, inner < fanout]
        )
        child = ranges(np.zeros_like(inner), inner)
        first_rows, starts, small, num_larger = (
            np.repeat(x, inner) for x in (first_rows, starts, small, num_larger)
        )
        fanouts.append(fanout)
        parents.append(first_rows + child)
        starts += child * small + np.minimum(child, num_larger)
        sizes = small + (child < num_larger)
        if not sizes.size:
            break
    fanouts = np.concatenate(fanouts)
    offsets = np.append(0, np.cumsum(fanouts))
    runs = np.concatenate(runs, 1)
    classes, rows, counts = runs[:, np.argsort(runs[0])]
    class_rows = np.arange(num_classes)
    class_rows += np.repeat(rows - classes, counts)
    return TreeArrays(offsets, np.concatenate(parents), class_rows)


def two_level(num_classes):
    """Returns the `TreeArrays` of `Tree.two_level`."""
    num_classes = _check_num_classes(num_classes)
    num_groups = _num_groups(num_classes)
    if num_groups == 1:
        return balanced(num_classes, [num_classes])
    return balanced(num_classes, [num_groups, -(-num_classes // num_groups)])


def flat(num_classes):
    """Returns the `TreeArrays` of `Tree.flat`."""
    return balanced(num_classes, [_check_num_classes(num_classes)])


def two_level_sizes(num_classes):
    """Returns the classes of each group below the root of `two_level`.

    One number stands for a tree of one group. A ValueError if they pass the
    memory of the machine.
    """
    num_groups = _num_groups(num_classes)
    check_fits(f"num_classes is {num_classes}", num_groups, _ROW_BYTES)
    small, num_larger = divmod(num_classes, num_groups)
    return small + (np.arange(num_groups) < num_larger)


def _num_groups(num_classes):
    if num_classes <= 3:
        return 1
    floor = math.isqrt(num_classes)
    return floor + (num_classes - floor * floor > floor)


def _level_branching(num_classes, branching):
    """Returns the largest fanout at each level, enough for all classes."""
    if not isinstance(branching, list | tuple | np.ndarray):
        branching = _checks.check_int("branching", branching, 2)
        levels, reach = [branching], branching
        while reach < num_classes:
            levels.append(branching)
            reach *= branching
        return levels
    levels = [
        _checks.check_int(f"branching[{level}]", width, 1)
        for level, width in enumerate(branching)
    ]
    reach = 1
    for width in levels:
        reach = min(reach * width, num_classes)
    if not levels or reach < num_classes:
        raise ValueError(
            f"branching {branching!r} reaches {reach if levels else 0} "
            f"leaves; there are {num_classes} classes"
        )
    return levels


def _check_num_classes(num_classes):
    num_classes = _checks.check_int("num_classes", num_classes, 1)
    if num_classes >= 2**63:
        raise ValueError(
            f"num_classes has {num_classes.bit_length()} bits; it must be "
            "below 2**63"
        )
    return num_classes


def _check_fits(num_classes, widths):
    """Refuses a tree that is too large; `widths` has each level's width."""
    num_rows, level_rows = 0, 1
    for width in widths:
        level_rows = min(level_rows * width, num_classes)
        num_rows += level_rows
        if level_rows == num_classes:
            break
    check_fits(f"num_classes is {num_classes}", num_rows, _ROW_BYTES)


def _without_value(name):
    """Returns the `Kind.build` of a constructor that takes N alone."""

    def build(tree_class, value, options):
        if value:
            raise ValueError(f"{name} takes no value; not {value!r}")
        return getattr(tree_class, name)(options.needed_num_classes(name))

    return build


BALANCED = Kind(
    "balanced",
    {"balanced:K": "fanout K; balanced:K,K2,... for one K per level"},
    lambda tree_class, value, options: tree_class.balanced(
        options.needed_num_classes("balanced"), parse_fanouts(value)
    ),
    needs="a fanout, such as balanced:100",
)
TWO_LEVEL = Kind(
    "two_level",
    {"two_level": "about sqrt(N) groups of sqrt(N) classes"},
    _without_value("two_level"),
)
FLAT = Kind(
    "flat", {"flat": "one group: the full softmax"}, _without_value("flat")
)
