"""Trees by brute force, to compare with."""

import numpy as np
import pytest

DERIVED = (
    "num_classes",
    "num_rows",
    "num_groups",
    "depth",
    "group_offsets",
    "group_parents",
    "class_rows",
    "row_groups",
    "row_classes",
    "row_children",
    "group_depths",
    "class_ranks",
)


def reference(nested):
    """Computes all of `DERIVED`, and the paths, from nested lists."""
    queue = [(nested, -1, 0, [])]  # list, parent row, depth, path
    offsets, parents, depths, row_groups = [0], [], [], []
    row_classes, row_children, paths = [], [], {}
    for group, (items, parent, depth, path) in enumerate(queue):
        parents.append(parent)
        depths.append(depth)
        for item in items:
            row = len(row_groups)
            row_groups.append(group)
            if isinstance(item, list):
                row_classes.append(-1)
                row_children.append(len(queue))
                queue.append((item, row, depth + 1, [*path, row]))
            else:
                row_classes.append(item)
                row_children.append(-1)
                paths[item] = [*path, row]
        offsets.append(len(row_groups))
    ranks = {}

    def visit(items):
        for item in items:
            if isinstance(item, list):
                visit(item)
            else:
                ranks[item] = len(ranks)

    visit(nested)
    classes = range(len(paths))
    return {
        "num_classes": len(paths),
        "num_rows": len(row_groups),
        "num_groups": len(parents),
        "depth": max(map(len, paths.values())),
        "group_offsets": offsets,
        "group_parents": parents,
        "class_rows": [paths[c][-1] for c in classes],
        "row_groups": row_groups,
        "row_classes": row_classes,
        "row_children": row_children,
        "group_depths": depths,
        "class_ranks": [ranks[c] for c in classes],
        "paths": [paths[c] for c in classes],
    }


def check(tree, nested):
    expected = reference(nested)
    for name in DERIVED:
        value = getattr(tree, name)
        if isinstance(value, np.ndarray):
            assert value.dtype == np.int64 and value.flags.c_contiguous, name
            assert not value.flags.writeable, name
        else:
            assert type(value) is int, name
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    for c, path in enumerate(expected["paths"]):
        assert tree.path(c).tolist() == path
    fanouts = np.diff(expected["group_offsets"])
    costs = [
        sum(fanouts[expected["row_groups"][row]] for row in path)
        for path in expected["paths"]
    ]
    uncounted = tree.with_counts(None)
    assert uncounted.expected_cost() == pytest.approx(np.mean(costs))
    counts = np.arange(len(costs)) % 5 + (len(costs) == 1)
    assert tree.expected_cost(counts) == pytest.approx(
        np.average(costs, weights=counts)
    )


def random_parents(seed):
    """Returns parents with node numbers in random order, [M]."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 120))
    reach = int(rng.integers(1, size))  # 1 makes a chain, size a bush
    parents = [-1] + [
        int(rng.integers(max(0, node - reach), node)) for node in range(1, size)
    ]
    number = rng.permutation(size)
    shuffled = np.empty(size, np.int64)
    shuffled[number] = [-1 if p < 0 else number[p] for p in parents]
    return shuffled


def to_nested(parents, classes):
    """Builds nested lists, siblings in node order."""
    lists = {node: [] for node in range(len(parents))}
    is_leaf = np.bincount(np.add(parents, 1), minlength=len(parents) + 1) == 0
    for node, parent in enumerate(parents):
        if parent >= 0:
            leaf = is_leaf[node + 1]
            lists[parent].append(int(classes[node]) if leaf else lists[node])
    return lists[int(np.argmin(parents))]


def leaf_paths(nested, prefix=()):
    for key, item in enumerate(nested):
        if isinstance(item, list):
            yield from leaf_paths(item, (*prefix, str(key)))
        else:
            yield (*prefix, str(key))
