"""Plans: what each device has, what stays where it is, what a step costs."""

import json
import pickle

import numpy as np
import pytest

from tests.support import trees
from tests.support.references import PINNED, build
from tf_hsm.cost.model import CostModel
from tf_hsm.distribute import Plan, Shard, plan
from tf_hsm.distribute.plan_cost import expected_largest
from tf_hsm.tree import Forest, Tree

TREES = [*trees.CATALOGUE, *PINNED, *trees.DEEP]


def plan_of(tree, devices, top=8, zipf=True, **options):
    if isinstance(tree, str):
        tree = build(tree)
    ranks = 1 + np.random.default_rng(0).permutation(tree.num_classes)
    counts = 1000 // ranks if zipf else None
    return plan(tree, devices, counts=counts, top=top, **options)


def scored_rows(tree, c):
    """The rows that an example of class c scores: those of groups, by path."""
    return [
        np.arange(*tree.group_offsets[g : g + 2])
        for g in tree.row_groups[tree.path(c)]
    ]


@pytest.mark.parametrize("name", trees.CATALOGUE)
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_each_class_scores_the_same_rows(name, count):
    """Top and shard together are the tree: row by row, on every path."""
    p = plan_of(name, count)
    tree = p.tree
    places = p.layout.class_places
    np.testing.assert_array_equal(np.sort(places), np.arange(tree.num_classes))
    np.testing.assert_array_equal(
        p.layout.place_classes[places], np.arange(tree.num_classes)
    )
    np.testing.assert_array_equal(
        np.sort(np.concatenate([p.layout.top_rows, p.layout.row_order])),
        np.arange(tree.num_rows),
    )
    whole = np.concatenate(
        [p.layout.top_rows, *(p.layout.rows_of(shard) for shard in p.shards)]
    )
    np.testing.assert_array_equal(
        whole[p.layout.row_places], np.arange(tree.num_rows)
    )
    for shard, forest in zip(p.shards, p.layout.forests, strict=True):
        num_roots = 0 if forest is None else forest.num_roots
        assert num_roots == shard.num_units
    units = np.searchsorted(p.layout.unit_places, places, side="right") - 1
    for c in range(tree.num_classes):
        paths = [p.layout.top_rows[p.layout.top.path(units[c])]]
        rows = [
            p.layout.top_rows[r] for r in scored_rows(p.layout.top, units[c])
        ]
        for shard, forest in zip(p.shards, p.layout.forests, strict=True):
            local = places[c] - shard.first_place
            if not 0 <= local < shard.num_classes:
                continue
            path, row = [], forest.class_rows[local]
            order = p.layout.row_order[shard.first_row :]
            below = []
            while row >= 0:
                group = forest.row_groups[row]
                span = np.arange(*forest.group_offsets[group : group + 2])
                below.insert(0, order[span])
                path.insert(0, order[row])
                row = forest.group_parents[group]
            paths.append(path)
            rows += below
        np.testing.assert_array_equal(np.concatenate(paths), tree.path(c))
        for ours, theirs in zip(rows, scored_rows(tree, c), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_order_does_not_depend_on_devices(name):
    p = plan_of(name, 1)
    for count in (2, 5, 64):
        other = plan_of(name, count)
        for field in ("unit_rows", "row_order", "class_places", "top_rows"):
            np.testing.assert_array_equal(
                getattr(p.layout, field), getattr(other.layout, field)
            )
        assert p.layout.top == other.layout.top
        assert p.on(other.devices) == other
        assert p.on(count).on(["device:0"]) == p


@pytest.mark.parametrize("name", PINNED)
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_pinned_tree_is_cut_as_the_expanded_one(name, count):
    """The same units and shards; each group, once, has a row of weights."""
    tree = build(name)
    pinned, plain = plan_of(tree, count), plan_of(tree.expand(), count)
    assert pinned != plain
    assert (
        pinned.layout.top.pinned and pinned.layout.top == plain.layout.top.pin()
    )
    assert pinned.shards == tuple(
        # Work is rows of weights.
        Shard(**{**vars(s), "work": s.work / 2})
        for s in plain.shards
    )
    for field in ("unit_rows", "first_units", "class_places", "row_order"):
        np.testing.assert_array_equal(
            getattr(pinned.layout, field), getattr(plain.layout, field)
        )
    parts = [pinned.weight_rows_of()]
    for shard, mine, its in zip(
        pinned.shards,
        pinned.layout.forests,
        plain.layout.forests,
        strict=True,
    ):
        rows = pinned.weight_rows_of(shard)
        np.testing.assert_array_equal(
            rows, tree.row_groups[pinned.layout.rows_of(shard)[::2]]
        )
        parts.append(rows)
        if mine is None:
            assert its is None and not rows.size
            continue
        assert mine.pinned and mine.num_weight_rows == rows.size
        assert mine == Forest(*its._arrays, pinned=True)
        assert mine != its and hash(mine) != hash(its)
        copy = pickle.loads(pickle.dumps(mine))
        assert copy == mine and copy.pinned
        assert repr(copy).endswith(f"{copy.num_roots}, pinned=True)")
        np.testing.assert_array_equal(
            plain.weight_rows_of(shard), plain.layout.rows_of(shard)
        )
    np.testing.assert_array_equal(
        np.sort(np.concatenate(parts)), np.arange(tree.num_groups)
    )


def test_a_chain_has_one_shard():
    p = plan_of(trees.chain(50).pin(), 2, top=256)
    assert p.layout.top.num_weight_rows == 1
    assert [shard.num_rows for shard in p.shards] == [98, 0]


def test_devices():
    tree = Tree.two_level(100)
    assert plan(tree, 2).devices == ("device:0", "device:1")
    names = ["/job:ps/task:0", "/job:ps/task:1"]
    p = plan(tree, names)
    assert p.devices == tuple(names)
    assert [s.device for s in p.shards] == names
    for bad, error in (
        ("GPU:0", TypeError),
        (["GPU:0", 1], TypeError),
        ([], ValueError),
        (0, ValueError),
        (1.5, ValueError),
    ):
        with pytest.raises(error, match="devices"):
            plan(tree, bad)


def test_bad_arguments():
    tree = Tree.two_level(100)
    with pytest.raises(TypeError, match=r"tree must be a tf_hsm\.Tree"):
        plan([[0, 1]], 2)
    for name, bad in (
        ("top", 0),
        ("batch", 0),
        ("width", 1.5),
        ("slots", -1),
        ("dtype", "int8"),
        ("network", 0),
        ("bandwidth", float("nan")),
        ("counts", [1, 2]),
        ("counts", np.zeros(100)),
    ):
        with pytest.raises(ValueError, match=name):
            plan(tree, 2, **{name: bad})
    with pytest.raises(TypeError, match="cost_model"):
        plan(tree, 2, cost_model=3)
    p = plan(tree, 2)

    def changed(**fields):
        config = {
            "devices": p.devices,
            "unit_rows": p.layout.unit_rows,
            "unit_loads": p.layout.unit_loads,
        }
        return Plan(tree, **{**config, **fields})

    for rows, message in (
        (p.layout.unit_rows[:-1], "path of class"),
        (np.append(p.layout.unit_rows[:-1], p.layout.unit_rows[0]), "twice"),
        (p.layout.unit_rows + 1000, r"rows of the tree, in \[0, 110\)"),
        (
            np.append(p.layout.unit_rows[:-1], 109),
            "below another|path of class",
        ),
        (np.append(p.layout.unit_rows, tree.class_rows[0]), "below another"),
    ):
        with pytest.raises(ValueError, match=message):
            changed(unit_rows=rows)
    assert changed() == p != changed(first_units=[0, 7, 10])
    for starts in ([0, 5], [0, 7, 5], [0, 11, 10], [1, 5, 10]):
        with pytest.raises(ValueError, match="first_units must ascend"):
            changed(first_units=starts)
    with pytest.raises(ValueError, match="work of unit_loads have shape"):
        changed(unit_loads=p.layout.unit_loads._replace(work=np.ones(3)))


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("batch", [None, 32])
def test_saving(name, batch):
    p = plan_of(name, 3, batch=batch, width=7, bandwidth=1e9)
    copies = (
        pickle.loads(pickle.dumps(p)),
        Plan.from_config(json.loads(json.dumps(p.get_config())), p.tree),
    )
    for copy in copies:
        assert copy == p
        assert hash(copy) == hash(p)
        assert copy.layout.forests == p.layout.forests
        assert copy.cost == p.cost
        assert str(copy) == str(p)
        assert copy.step == p.step
    assert p != p.on(2)
    with pytest.raises(AttributeError, match="immutable"):
        p.tree = None
    with pytest.raises(ValueError, match="read-only"):
        p.layout.class_places[0] = 1


def test_bad_configs():
    p = plan_of("random", 3)
    config = p.get_config()
    for change in (
        {"version": 9},
        {"unit_rows": {"dtype": "O", "size": 1, "data": ""}},
        {"unit_loads": {}},
        {"step": {"batch": 0}},
    ):
        with pytest.raises(ValueError, match="not a config"):
            Plan.from_config({**config, **change}, p.tree)
    with pytest.raises(ValueError, match="not a config"):
        Plan.from_config({}, p.tree)
    with pytest.raises(ValueError, match="unit"):
        Plan.from_config(config, Tree.two_level(9))


@pytest.mark.parametrize("name", [*trees.CATALOGUE, *PINNED])
@pytest.mark.parametrize("zipf", [False, True])
def test_cost_adds_up(name, zipf):
    """Top and shards are together what `Tree.expected_cost` says."""
    p = plan_of(name, 3, zipf=zipf, batch=50, width=6)
    tree, cost = p.tree, p.cost
    ranks = 1 + np.random.default_rng(0).permutation(tree.num_classes)
    whole = tree.expected_cost(
        1000 // ranks if zipf else None, batch=50, width=6
    )
    parts = [cost.top, *cost.shards]
    total = {
        field: sum(getattr(part, field) for part in parts)
        for field in ("work", "touched_rows", "rows", "bytes", "classes")
    }
    assert total["work"] == pytest.approx(whole.rows_per_example)
    assert total["touched_rows"] == pytest.approx(whole.touched_rows)
    assert total["rows"] == tree.num_weight_rows
    assert total["classes"] == tree.num_classes
    assert total["bytes"] == tree.num_weight_rows * 7 * 4 * 2
    below = sum(s.examples_share for s in cost.shards)
    assert cost.wire_bytes == pytest.approx(50 * below * (2 * 6 * 4 + 12))
    assert cost.wire_milliseconds == pytest.approx(
        1e3 * cost.wire_bytes / 2 / 1.25e9
    )
    if cost.top.subtrees:
        assert sum(s.work_share for s in cost.shards) == pytest.approx(1)
        assert sum(s.rows_share for s in cost.shards) == pytest.approx(1)
        assert cost.largest_work == pytest.approx(
            3 * max(s.work_share for s in cost.shards)
        )
        assert cost.largest_by_chance >= cost.largest_work - 1e-2


def test_cost_of_a_known_tree():
    """Two groups of two classes below a root of two."""
    p = plan(
        Tree.balanced(4, 2),
        ["a", "b"],
        counts=[3, 0, 1, 0],
        batch=2,
        width=3,
        slots=2,
        dtype="bfloat16",
        network=1e3,
        bandwidth=1e6,
        cost_model=CostModel(
            call=0.5, floor=0.0, weight=1.0, logit=0.25, product=0.125
        ),
    )
    first, second = sorted(p.cost.shards, key=lambda s: -s.work)
    assert (first.work, second.work) == (1.5, 0.5)
    assert (first.work_share, second.work_share) == (0.75, 0.25)
    assert (first.examples_share, second.examples_share) == (0.75, 0.25)
    assert first.rows == first.classes == 2
    # Weights and bias of 2 bytes, two slots of 4.
    assert first.bytes == 2 * 4 * (2 + 8)
    assert first.touched_rows == pytest.approx(2 * (1 - 0.25**2))
    # h and dx of 3 numbers of 2 bytes, label, its weight, loss of 4 bytes.
    assert p.cost.wire_bytes_per_example == 24
    assert p.cost.wire_bytes == 48
    assert p.cost.wire_milliseconds == 24
    # A weight is read and written: 4 bytes, 1e3 a millisecond.
    assert first.milliseconds == pytest.approx(
        0.5 + 4e-3 * 3 * first.touched_rows + (0.25 + 0.125 * 3) * 2 * 1.5
    )
    assert p.cost.top.work == 2
    assert p.cost.top.work_share == 0.5
    assert p.cost.largest_work == 1.5
    assert p.cost.parameter_bytes == pytest.approx(
        2 * 4 * 2 * (first.touched_rows + second.touched_rows)
    )


@pytest.mark.parametrize("count", [1, 2, 3, 8, 64, 500])
@pytest.mark.parametrize("mean", [3, 20, 5000])
@pytest.mark.parametrize("shape", ["alike", "ragged"])
def test_chance(count, mean, shape):
    """Against batches that are drawn; errors are those of the drawing."""
    rng = np.random.default_rng(count)
    shares = np.ones(count) / count
    if shape == "ragged":
        shares = rng.dirichlet(np.full(count, 5.0))
    batch = mean * count
    draws = rng.multinomial(batch, shares, 2000).max(1)
    ours = expected_largest(7 * batch * shares, 49 * batch * shares) / 7
    assert ours == pytest.approx(draws.mean(), rel=0.02)


def test_chance_of_unlike_examples():
    """Examples of a shard that score 1, 10 or 100 rows."""
    rng = np.random.default_rng(0)
    rows, count, batch = np.array([1, 10, 100]), 8, 2000
    draws = rng.multinomial(batch, np.full(24, 1 / 24), 3000)
    work = draws.reshape(-1, count, 3) @ rows
    mean = batch / count
    ours = expected_largest(
        np.full(count, mean * rows.mean()),
        np.full(count, mean * (rows**2).mean()),
    )
    assert ours == pytest.approx(work.max(1).mean(), rel=0.01)


def test_nothing_is_alike():
    assert expected_largest([0, 0], [0, 0]) == 0
    assert expected_largest([5], [1]) == 5
    assert expected_largest([0, 5], [0, 1]) == 5
