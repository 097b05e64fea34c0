"""What a step costs: against batches that are drawn, and by hand."""

import math

import numpy as np
import pytest

from tests.support import trees
from tf_hsm.cost.cluster_costs import ClusterCosts
from tf_hsm.cost.expected import ExpectedCost
from tf_hsm.cost.model import CostModel
from tf_hsm.tree import Tree


def touched(tree, labels):
    """Rows of the groups on any label's path, and scored rows of all labels."""
    fanouts = np.diff(tree.group_offsets)
    groups = [tree.row_groups[tree.path(label)] for label in labels]
    scored = sum(fanouts[g].sum() for g in groups)
    return fanouts[np.unique(np.concatenate(groups))].sum(), scored


def skewed(num_classes):
    ranks = np.random.default_rng(0).permutation(num_classes) + 1
    return 1000 // ranks


@pytest.mark.parametrize("name", trees.CATALOGUE)
@pytest.mark.parametrize("batch", [1, 60])
def test_batches_that_are_drawn(name, batch):
    tree = trees.CATALOGUE[name]()
    counts = skewed(tree.num_classes)
    rng = np.random.default_rng(1)
    repeats = 400
    draws = [
        touched(
            tree,
            rng.choice(tree.num_classes, batch, p=counts / counts.sum()),
        )
        for _ in range(repeats)
    ]
    rows, scored = np.mean(draws, axis=0)
    error_of_rows, error_of_scored = np.std(draws, axis=0) / repeats**0.5
    cost = tree.expected_cost(counts, batch=batch, width=10)
    # What is too rare to be drawn may be missing.
    assert abs(cost.touched_rows - rows) < 4 * error_of_rows + 0.01
    assert abs(cost.rows_per_example * batch - scored) < (
        4 * error_of_scored + 1e-9
    )
    assert cost.rows_per_example == tree.expected_cost(counts)
    if batch == 1:
        assert cost.touched_rows == pytest.approx(cost.rows_per_example)


@pytest.mark.parametrize("counts", [None, [3, 0, 1, 4, 0]])
def test_formulas(counts):
    tree = Tree.from_nested([[0, 1], [2, [3, 4]]])
    p = np.array([1, 1, 1, 1, 1] if counts is None else counts)
    p = p / p.sum()
    masses = [1, p[0] + p[1], p[2] + p[3] + p[4], p[3] + p[4]]
    width, batch = 6, 3
    rows = sum(2 * m for m in masses)
    touched_rows = sum(2 * (1 - (1 - m) ** batch) for m in masses)
    model = CostModel(call=5, floor=0, weight=0.25, logit=0.5, product=0.125)
    cost = tree.expected_cost(
        counts, batch=batch, width=width, cost_model=model
    )
    assert isinstance(cost, ExpectedCost)
    assert cost.rows_per_example == pytest.approx(rows)
    assert cost.touched_rows == pytest.approx(touched_rows)
    # Logits, dx and dw: a multiplication and an addition each.
    assert cost.flops == pytest.approx(3 * 2 * batch * width * rows)
    weights, inputs = touched_rows * width, batch * width
    assert cost.bytes == pytest.approx(
        4 * (weights + weights + 3 * inputs + 2 * batch * rows)
    )
    assert cost.milliseconds == pytest.approx(
        5 + 0.25 * weights + batch * rows * (0.5 + 0.125 * width)
    )
    assert (cost.batch, cost.width) == (3, 6)
    assert cost == tree.expected_cost(
        counts, batch=batch, width=width, cost_model=model
    )
    assert cost != tree.expected_cost(counts, batch=batch, width=width)
    for value in (cost.flops, cost.bytes, cost.milliseconds):
        assert type(value) is float


@pytest.mark.parametrize("floor", [0.0, 1e-3, 2.0])
def test_agrees_with_the_costs_that_adaptive_minimizes(floor):
    """Where a batch touches every group, as these take for granted."""
    counts = np.sort(skewed(500))[::-1] + 5
    model = CostModel(
        call=0.5, floor=floor, weight=1e-5, logit=1e-5, product=1e-6
    )
    costs = ClusterCosts.of(counts, 4000, 64, 1, "flat", model)
    for cutoffs in ([30], [20, 200], [5, 40, 300]):
        tree = Tree.adaptive(counts, cutoffs=cutoffs)
        cost = tree.expected_cost(
            counts, batch=4000, width=64, cost_model=model
        )
        assert cost.touched_rows == pytest.approx(tree.num_rows)
        assert cost.milliseconds == pytest.approx(costs.milliseconds(cutoffs))


def test_extremes():
    tree = Tree.two_level(100)
    one = np.zeros(100)
    one[7] = 5e-324
    path = np.diff(tree.group_offsets)[tree.row_groups[tree.path(7)]]
    for batch in (1, 10**12):
        cost = tree.expected_cost(one, batch=batch, width=4)
        assert cost.touched_rows == path.sum() == cost.rows_per_example
    # So many labels that each class occurs, however rare.
    cost = tree.expected_cost(np.geomspace(1e-9, 1, 100), batch=10**15, width=4)
    assert cost.touched_rows == pytest.approx(tree.num_rows)
    rare = np.full(100, 1.0)
    rare[0] = 1e-300
    pair = Tree.from_nested([[0], [*range(1, 100)]])
    cost = pair.expected_cost(rare, batch=10, width=4)
    assert cost.touched_rows == pytest.approx(2 + 99)
    chain = Tree.from_parents(np.arange(-1, 5000))
    assert chain.expected_cost(None, batch=3, width=2).touched_rows == 5000


@pytest.mark.parametrize("seed", range(30))
def test_masses_are_not_rounded_above_one(seed):
    counts = np.random.default_rng(seed).random(7 + seed)
    tree = Tree.from_nested([[*range(counts.size)]])
    cost = tree.expected_cost(counts, batch=2, width=3)
    assert cost.touched_rows == pytest.approx(1 + counts.size)


def test_text():
    cost = ExpectedCost(2000.04, 633304.6, 3.6e9, 1.5344e9, 1234.4, 1000, 300)
    assert str(cost).splitlines() == [
        "2,000.0 rows per example; a batch of 1,000 touches 633,305 rows",
        "a step at width 300: 3.6 GFLOP, 1.53 GB moved, about 1,234 ms",
    ]
    small = Tree.two_level(2).expected_cost(None, batch=1, width=1)
    assert "12 FLOP" in str(small) and " 44 B moved" in str(small)
    with pytest.raises(AttributeError):
        cost.flops = 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch": 3}, ValueError, "batch is 3 and width is None"),
        ({"width": 3}, ValueError, "batch is None and width is 3"),
        ({"cost_model": CostModel()}, ValueError, "batch is None and width"),
        ({"batch": 0, "width": 3}, ValueError, "batch is 0"),
        ({"batch": 1.5, "width": 3}, ValueError, "batch must be an integer"),
        ({"batch": 1, "width": -1}, ValueError, "width is -1"),
        ({"batch": 2**63, "width": 1}, ValueError, r"below 2\*\*63"),
        ({"batch": 1, "width": 10**400}, ValueError, r"below 2\*\*63"),
        (
            {"batch": 1, "width": 1, "cost_model": 0.5},
            TypeError,
            "must be a CostModel, not float",
        ),
        ({"counts": [1, -1, 1]}, ValueError, "count of class 1 is -1"),
        ({"counts": [0, 0, 0]}, ValueError, "all counts are zero"),
        ({"counts": [1, 1]}, ValueError, "counts has 2 entries"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        Tree.two_level(3).expected_cost(**arguments)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -1e-9, 2e9, "1", None, 1j]
)
@pytest.mark.parametrize(
    "name", ["call", "floor", "weight", "logit", "product"]
)
def test_bad_constants_of_a_model(name, value):
    with pytest.raises(ValueError, match=f"{name} of the cost model is"):
        CostModel(**{name: value})


def test_milliseconds_of_a_model_broadcast():
    model = CostModel(
        call=1.0, floor=10.0, weight=0.5, logit=0.25, product=0.125
    )
    assert model.milliseconds(2, 3, width=4) == 1 + 0.5 * 8 + 10
    assert model.milliseconds(20, 3, width=4) == 1 + 0.5 * 80 + 60 * (
        0.25 + 0.5
    )
    ms = model.milliseconds(np.array([2, 20])[:, np.newaxis], [3, 0], width=4)
    np.testing.assert_array_equal(ms, [[15, 15], [86, 51]])
