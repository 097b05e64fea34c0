"""Simulated steps against the cost that plans expect."""

import numpy as np
import pytest

from benchmarks.distribute.simulation import simulate
from tests.support.pairs import all_pairs
from tf_hsm.distribute import plan
from tf_hsm.tree import Tree

WIDTH = 5


def plan_of(tree, count, on_replicas, **options):
    """A plan of replicas, or of the devices of one process."""
    options = {"width": WIDTH, "network": 1e6, **options}
    options["replicas" if on_replicas else "devices"] = count
    return plan(tree, **options)


@pytest.mark.parametrize(
    "make, count, zipf, on_replicas",
    all_pairs(
        [
            lambda: Tree.balanced(8000, 20),
            lambda: Tree.two_level(10_000),
            lambda: Tree.balanced(4096, 2, pinned=True),
        ],
        [1, 2, 8, 64],
        [False, True],
        [False, True],
    ),
)
def test_drawn_batches_are_as_the_plan_expects(make, count, zipf, on_replicas):
    tree, counts = make(), None
    rng = np.random.default_rng(0)
    if zipf:
        counts = 1 / (1 + rng.permutation(tree.num_classes))
    p = plan_of(tree, count, on_replicas, counts=counts, batch=3200)
    cost = p.cost
    probs = None if counts is None else counts / counts.sum()
    result = simulate(p, rng.choice(tree.num_classes, [100, 3200], p=probs))
    for found, field in (
        (result.work / 3200, "work"),
        (result.touched, "touched_rows"),
        (result.wire_bytes, "wire_bytes"),
        (result.milliseconds, "milliseconds"),
    ):
        wanted = [getattr(shard, field) for shard in cost.shards]
        np.testing.assert_allclose(found.mean(0), wanted, rtol=0.1)
        assert found.mean() == pytest.approx(np.mean(wanted), rel=0.01)
    np.testing.assert_allclose(
        result.top_milliseconds.mean(0), cost.top.milliseconds, rtol=0.03
    )
    assert result.top_work.mean() == pytest.approx(
        3200 / (count if on_replicas else 1) * cost.top.work, rel=0.01
    )
    assert result.largest_work == pytest.approx(
        cost.largest_by_chance, rel=0.02
    )
    if on_replicas:
        for field in ("sent_bytes", "received_bytes"):
            total = sum(getattr(shard, field) for shard in cost.shards)
            assert total == pytest.approx(cost.wire_bytes)
    # The mean of the largest is above the largest mean, by chance.
    mean = result.step_milliseconds.mean()
    assert cost.milliseconds <= 1.001 * mean <= 1.15 * cost.milliseconds


@pytest.mark.parametrize("on_replicas", [False, True])
def test_all_labels_on_one_of_eight(on_replicas):
    sizes = {"batch": 8000, "width": 300, "network": 1.25e9}
    p = plan_of(Tree.two_level(10_000), 8, on_replicas, **sizes)
    shard = p.shards[2]
    places = np.arange(24_000) % shard.num_classes
    labels = p.layout.place_classes[shard.first_place + places]
    result = simulate(p, labels.reshape(3, 8000))
    assert (result.examples.sum(1)[:, 2] == 8000).all()
    assert result.largest_work == 8
    assert result.waiting == pytest.approx(7 / 8)
    # The body and the top are as even as before.
    assert np.ptp(result.top_work) == 0
    assert result.step_milliseconds.max() == pytest.approx(
        p.cost.worst_milliseconds, rel=0.03
    )
    if on_replicas:
        assert p.cost.worst_milliseconds > 4 * p.cost.milliseconds
