"""Where trees are cut, in which order units stand, and how they are spread."""

import itertools

import numpy as np
import pytest

from tests.support import trees
from tests.support.pairs import all_pairs
from tf_hsm.distribute import cut as cuts
from tf_hsm.distribute.below import below_groups, below_units
from tf_hsm.tree import Tree

MEASURES = {
    "alike": lambda rng, size: np.ones(size),
    "ragged": lambda rng, size: rng.integers(1, 1000, size),
    "pareto": lambda rng, size: rng.pareto(1.0, size),
    "mostly zero": lambda rng, size: rng.integers(0, 50, size) // 49,
    "zero": lambda rng, size: np.zeros(size),
    "one": lambda rng, size: np.eye(1, size, size // 2)[0],
}


BUILT = {
    **trees.CATALOGUE,
    **trees.DEEP,
    "adaptive": lambda: Tree.adaptive(9999 // np.arange(1, 800)),
    "adaptive_two_level": lambda: Tree.adaptive(
        9999 // np.arange(1, 800), cutoffs=[50, 200], tail="two_level"
    ),
    "from_counts": lambda: Tree.from_counts(99999 // np.arange(1, 3000)),
}


def counts_of(tree, kind):
    rng = np.random.default_rng(tree.num_classes)
    if kind == "zipf":
        return 1 / (1 + rng.permutation(tree.num_classes))
    if kind == "zeros":
        return np.eye(1, tree.num_classes, tree.num_classes // 2)[0]
    return None


def units_of(tree, kind, top):
    below = below_groups(tree, counts_of(tree, kind), None)
    return cuts.cut(tree, below.rows, below.work, top)


def below_by_paths(tree, counts, batch):
    """What is `SubtreeLoads` each row, from the path of each class alone."""
    counts = np.ones(tree.num_classes) if counts is None else counts
    fanouts = np.diff(tree.group_offsets)
    masses, rows, work, squares, touched = np.zeros([5, tree.num_rows])
    passing = np.zeros(tree.num_groups)
    for c, mass in enumerate(counts / counts.sum()):
        path = tree.path(c)
        scored = fanouts[tree.row_groups[path]]
        passing[tree.row_groups[path]] += mass
        for i, row in enumerate(path):
            below = scored[i + 1 :].sum()
            masses[row] += mass
            work[row] += mass * below
            squares[row] += mass * below**2
    for group in range(1, tree.num_groups):
        row = tree.group_parents[group]
        while row >= 0:
            rows[row] += fanouts[group]
            touched[row] += fanouts[group] * (1 - (1 - passing[group]) ** batch)
            row = tree.group_parents[tree.row_groups[row]]
    return masses, rows, work, squares, touched


@pytest.mark.parametrize("name", trees.CATALOGUE)
@pytest.mark.parametrize("kind", ["alike", "zipf", "zeros"])
def test_below(name, kind):
    tree = trees.CATALOGUE[name]()
    counts = counts_of(tree, kind)
    wanted = below_by_paths(tree, counts, 17)
    below = below_groups(tree, counts, 17)
    is_leaf = tree.row_children < 0
    rows = np.concatenate([np.flatnonzero(is_leaf), np.flatnonzero(~is_leaf)])
    found = below_units(tree, below, counts, rows)
    for values, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            values, expected[rows], rtol=1e-9, atol=1e-12
        )
    assert below_groups(tree, counts, None).touched is None


@pytest.mark.parametrize(
    "name, kind, top",
    all_pairs([*BUILT], ["alike", "zipf", "zeros"], [1, 3, 16, 256]),
)
def test_every_class_has_one_unit(name, kind, top):
    tree = BUILT[name]()
    units = units_of(tree, kind, top)
    assert np.unique(units).size == units.size
    is_unit = np.zeros(tree.num_rows, np.int64)
    is_unit[units] = 1
    # From the root down: the units on the path to each row.
    above = np.zeros(tree.num_rows, np.int64)
    for group in range(tree.num_groups):
        span = slice(*tree.group_offsets[group : group + 2])
        parent = tree.group_parents[group]
        above[span] = is_unit[span] + (above[parent] if group else 0)
    assert (above[tree.class_rows] == 1).all()
    is_leaf = tree.row_children[units] < 0
    first = np.count_nonzero(is_leaf)
    assert is_leaf[:first].all()
    assert (np.diff(units[:first]) > 0).all()
    num_top_rows = np.count_nonzero(above <= is_unit)
    assert num_top_rows <= max(16 * top, tree.group_offsets[1])


@pytest.mark.parametrize("top", [4, 32, 100])
def test_no_unit_is_larger_than_wanted(top):
    """Where groups are small enough, none has more than 1 / top."""
    tree = Tree.balanced(5000, 2)
    for kind in ("alike", "zipf"):
        below = below_groups(tree, counts_of(tree, kind), None)
        units = cuts.cut(tree, below.rows, below.work, top)
        groups = tree.row_children[units]
        assert (groups > 0).all()
        for values in (below.rows, below.work):
            share = values[groups] / (values[0] - 2)
            assert share.max() <= 1 / top


def test_top_stays_the_root_where_opening_gains_nothing():
    # A chain has no two subtrees.
    assert sorted(units_of(trees.chain(5000), None, 256)) == [0, 1]
    # Most rows are leaves: opening would put them into the top.
    wide = [[*range(500), [500, 501, 502], [503, 504]], [505, 506]]
    tree = Tree.from_nested(wide)
    assert sorted(units_of(tree, None, 40)) == [0, 1]
    # A top that may be as large has no reason not to.
    assert units_of(tree, None, 600).size > 500


@pytest.mark.parametrize(
    "work, rows, size",
    all_pairs(
        [*MEASURES],
        ["alike", "ragged", "pareto", "zero"],
        [0, 1, 2, 3, 17, 300, 4099],
    ),
)
def test_arrange_and_intervals(work, rows, size):
    rng = np.random.default_rng(size)
    measures = MEASURES[work](rng, size), MEASURES[rows](rng, size)
    order = cuts.arrange(*measures)
    np.testing.assert_array_equal(np.sort(order), np.arange(size))
    measures = [m[order] for m in measures]
    shares = [m / max(m.sum(), 1e-300) for m in measures]
    for count in (1, 2, 3, 8, 64):
        starts = cuts.intervals(*measures, count)
        assert starts.size == count + 1
        assert starts[0] == 0 and starts[-1] == size
        assert (np.diff(starts) >= 0).all()
        largest = max(
            max(share[a:b].sum() for share in shares)
            for a, b in itertools.pairwise(starts)
        )
        # No cut is better than the largest unit, or than equal parts; units
        # are not smaller than they are, and an order suits all counts.
        least = max([1 / count, *(s.max(initial=0) for s in shares)])
        slack = sum(s[s * count <= 1].max(initial=0) for s in shares)
        assert largest <= least + 2 * slack + 1e-9


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_intervals_are_the_best(count):
    """Against every cut of a few units."""
    rng = np.random.default_rng(count)
    for _ in range(30):
        work, rows = rng.pareto(1.0, 8), rng.integers(0, 9, 8) + 0.0
        shares = [work / work.sum(), rows / rows.sum()]
        best = min(
            max(
                s[a:b].sum()
                for s in shares
                for a, b in itertools.pairwise([0, *inner, 8])
            )
            for inner in itertools.combinations_with_replacement(
                range(9), count - 1
            )
        )
        starts = cuts.intervals(work, rows, count)
        largest = max(
            s[a:b].sum() for s in shares for a, b in itertools.pairwise(starts)
        )
        assert largest == pytest.approx(best, rel=1e-9)


def test_bundles(monkeypatch):
    """Light units of very many are dealt in bundles."""
    monkeypatch.setattr(cuts, "_DEALT", 64)
    rng = np.random.default_rng(0)
    work, rows = rng.pareto(1.2, 5000), rng.integers(1, 100, 5000)
    order = cuts.arrange(work, rows)
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    starts = cuts.intervals(work[order], rows[order], 8)
    for measure in (work[order], rows[order]):
        sums = np.add.reduceat(measure, starts[:-1])
        assert sums.max() < 1.1 * sums.mean()


def test_a_large_unit_has_a_device_for_itself():
    """It takes no second one, and the others are spread over the rest."""
    work = np.array([1.0] * 70 + [100.0])
    starts = cuts.intervals(work, np.ones(71), 8)
    assert starts.tolist() == [*range(0, 71, 10), 71]
