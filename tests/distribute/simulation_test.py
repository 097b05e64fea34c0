"""Simulated steps: against paths one by one, and the cost that plans expect."""

import numpy as np
import pytest

from benchmarks.distribute.simulation import simulate
from tests.support import trees
from tests.support.pairs import all_pairs
from tests.support.references import PINNED, build
from tf_hsm.distribute import plan
from tf_hsm.tree import Tree

WIDTH = 5
# An input or its gradient, and a row of the gradient of the top: numbers of
# float32, and two numbers of the row, of 8 bytes.
VECTOR, ROW = 4 * WIDTH, 4 * (WIDTH + 1) + 2 * 8
TREES = [*trees.CATALOGUE, *PINNED]


def plan_of(tree, count, on_replicas, **options):
    """A plan of replicas, or of the devices of one process."""
    options = {"width": WIDTH, "network": 1e6, **options}
    options["replicas" if on_replicas else "devices"] = count
    return plan(tree, **options)


def by_paths(p, labels):
    """A step from each path alone.

    Returns:
      The rows scored and the rows touched in each shard, and in the top for
      each replica; the bytes that each device sends and receives; and the
      seconds of the network, where a device sends and receives at the same
      time, for examples, results and gradients one after the other.
    """
    tree, count = p.tree, len(p.devices)
    fanouts = np.diff(tree.group_offsets) // (2 if tree.pinned else 1)
    shard_of_row = np.full(tree.num_rows, -1)
    for i, shard in enumerate(p.shards):
        shard_of_row[p.layout.rows_of(shard)] = i
    # Without replicas the body's device has the top and all examples.
    num_replicas = count if p.step.on_replicas else 1
    work, of_top = np.zeros(count, int), np.zeros(num_replicas, int)
    sent, received = np.zeros([2, 3, count], int)
    in_shards = [set() for _ in range(count)]
    in_tops = [set() for _ in range(num_replicas)]
    for i, c in enumerate(labels):
        replica = i * num_replicas // len(labels)
        path = tree.path(c)
        for group in tree.row_groups[path]:
            shard = shard_of_row[tree.group_offsets[group]]
            if shard >= 0:
                work[shard] += fanouts[group]
                in_shards[shard].add(group)
            else:
                of_top[replica] += fanouts[group]
                in_tops[replica].add(group)
        owner = shard_of_row[path[-1]]
        if owner == -1 or (p.step.on_replicas and owner == replica):
            continue
        there = VECTOR + 4 + 4  # input, label, loss gradient
        back = VECTOR + 4  # gradient and loss
        received[0, owner] += there
        sent[1, owner] += back
        if p.step.on_replicas:
            sent[0, replica] += there
            received[1, replica] += back
    touched, touched_of_top = (
        np.array([fanouts[sorted(groups)].sum() for groups in sets])
        for sets in (in_shards, in_tops)
    )
    if p.step.on_replicas:
        sent[2] = ROW * touched_of_top * (count - 1)
        received[2] = ROW * (touched_of_top.sum() - touched_of_top)
        seconds = np.maximum(sent, received)
        seconds = seconds[:2].sum(0).max() + seconds[2].max()
    else:  # The bytes both ways, half of them at a time.
        seconds = (sent + received).sum() / 2
    wire = (sent + received).sum(0)
    return work, touched, of_top, touched_of_top, wire, seconds / 1e6


@pytest.mark.parametrize(
    "name, count, on_replicas", all_pairs(TREES, [1, 3, 8], [False, True])
)
def test_against_paths(name, count, on_replicas):
    tree = build(name)
    p = plan_of(tree, count, on_replicas, top=8)
    rng = np.random.default_rng(0)
    batches = [rng.integers(tree.num_classes, size=size) for size in (24, 0, 7)]
    result = simulate(p, batches)
    model = p.step.cost_model
    for i, labels in enumerate(batches):
        work, touched, of_top, touched_of_top, wire, seconds = by_paths(
            p, labels
        )
        np.testing.assert_array_equal(result.work[i], work)
        np.testing.assert_array_equal(result.touched[i], touched)
        np.testing.assert_array_equal(result.top_work[i], of_top)
        np.testing.assert_array_equal(result.top_touched[i], touched_of_top)
        np.testing.assert_array_equal(result.wire_bytes[i], wire)
        assert result.network_milliseconds[i] == pytest.approx(1000 * seconds)
        slowest = [
            max(
                model.call
                + model.weights(rows, width=WIDTH)
                + model.products(scored, 1, width=WIDTH)
                if scored
                else 0
                for rows, scored in zip(*pair, strict=True)
            )
            for pair in ((touched, work), (touched_of_top, of_top))
        ]
        assert result.step_milliseconds[i] == pytest.approx(
            sum(slowest) + 1000 * seconds
        )


@pytest.mark.parametrize(
    "make, count, zipf, on_replicas",
    all_pairs(
        [lambda: Tree.balanced(8000, 20), lambda: Tree.two_level(10_000)],
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
