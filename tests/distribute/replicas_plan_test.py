"""Plans of heads over replicas: bytes and work, against examples one by one."""

import json
import tracemalloc

import numpy as np
import pytest

import tf_hsm
from tests.support import spread_heads as heads
from tests.support.estimates import bytes_of
from tf_hsm.distribute import Plan, Step, plan
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.tree import Tree

WIDTH = 5


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("count", [2, 4])
def test_bytes_that_a_head_sends(monkeypatch, dtype, count):
    """The bytes of all tensors that replicas exchange in a step."""
    sent, head, labels = heads.sent_in_a_step(
        monkeypatch, "ternary", count, dtype
    )
    places = head.plan.layout.class_places[labels]
    starts = [shard.first_place for shard in head.plan.shards]
    shards = np.searchsorted(starts, places, side="right") - 1
    replicas = np.arange(labels.size) * count // labels.size
    leave = (shards >= 0) & (shards != replicas)
    leaving = np.bincount(replicas[leave], minlength=count)
    arriving = np.bincount(shards[leave], minlength=count)
    step = Step(width=heads.WIDTH, dtype=dtype, on_replicas=True)
    np.testing.assert_array_equal(
        sent, step.sent_bytes(leaving, arriving, heads.N)
    )


def test_bytes_of_each_replica():
    """The top, a shard and their slots, as a head has them that is built."""
    tree, count = Tree.balanced(500, 4), 4
    with heads.strategy_of(count).scope():
        p = plan(tree, "replicas", width=WIDTH, batch=64)
        layer = HierarchicalSoftmax(
            tree, devices="replicas", plan=p, optimizer="adagrad"
        )
        layer.build([None, WIDTH])
        assert HierarchicalSoftmax(
            tree, devices="replicas", optimizer="adagrad"
        ).plan.step.on_replicas
    assert layer.plan == p and layer.plan.step == p.step
    top, *shards = [
        bytes_of([*pair, *(s for v in pair for s in layer.optimizer.slots(v))])
        for pair in heads.parts_of(layer)
    ]
    assert [s.bytes for s in p.cost.shards] == [top + shard for shard in shards]
    found = tf_hsm.estimate(None, layer, batch=64, width=WIDTH, optimizer="sgd")
    assert found.parameter_bytes + found.slot_bytes == top + max(shards)


def test_bytes_as_estimated():
    """Where shards are even, an estimate has the bytes of the plan."""
    tree = Tree.balanced(4096, 16)
    p = plan(tree, replicas=8, batch=800, width=WIDTH)
    found = tf_hsm.estimate(
        None,
        tree,
        batch=800,
        width=WIDTH,
        head_optimizer="adagrad",
        replicas=8,
        shards=8,
    )
    wire = found.parts[-1]
    sent = wire.forward.bytes + wire.backward.bytes
    for shard in p.cost.shards:
        assert shard.sent_bytes == pytest.approx(
            sent + found.replicas.wire_bytes
        )
    network = wire.seconds(None) + found.replicas.seconds
    assert p.cost.wire_milliseconds == pytest.approx(1000 * network)
    assert found.replicas.wire_bytes == pytest.approx(p.cost.top.sent_bytes)


@pytest.mark.parametrize("replicas, touched", [(2, 90), (4, 40), (4, 60)])
def test_the_sum_with_fewer_bytes(replicas, touched):
    """All rows around a ring, or touched ones to each other replica."""
    step = Step(width=WIDTH, dtype="float64", on_replicas=True)
    others = replicas - 1
    summed = 2 * others / replicas * 100 * (WIDTH + 2) * 8
    # Both gradients have the numbers of their rows.
    gathered = others * touched * ((WIDTH + 1) * 8 + 2 * 8)
    assert step.top_gradient_bytes(100, touched, replicas) == (
        min(summed, gathered),
        summed < gathered,
    )


def test_nothing_travels():
    """On one replica, and from a tree without subtrees."""
    one = plan(Tree.balanced(1000, 10), replicas=1, batch=16, width=WIDTH).cost
    assert one.wire_bytes == one.wire_milliseconds == 0
    assert one.shards[0].sent_bytes == one.shards[0].received_bytes == 0
    for devices in ({"replicas": 4}, {"devices": 4}):
        flat = plan(Tree.balanced(9, 9), **devices, batch=16, width=WIDTH).cost
        assert flat.worst_milliseconds == flat.milliseconds
    assert flat.wire_milliseconds == 0


def test_a_plan_has_no_array_of_all_classes():
    """So that a hundred million take no memory beside their tree."""
    tree = Tree.two_level(4_000_000)
    assert tree._levels.size == 3  # made once
    tracemalloc.start()
    try:
        p = plan(tree, replicas=64, batch=4096, width=WIDTH)
        assert "over 64 replicas" in str(p)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < tree.num_classes  # a byte for each


def test_arguments():
    tree = Tree.two_level(100)
    p = plan(tree, replicas=3)
    assert p == plan(tree, 3)
    assert p.step.on_replicas and not plan(tree, 3).step.on_replicas
    assert p.on(2).step == p.on("replicas").step == p.step
    assert p.on(["CPU:0", "CPU:0"]).step == plan(tree, 3).step
    config = json.loads(json.dumps(p.get_config()))
    assert Plan.from_config(config, tree).step == p.step
    # A config of a version without replicas.
    del config["step"]["on_replicas"]
    assert not Plan.from_config(config, tree).step.on_replicas
    # One device is one replica.
    assert plan(tree, "replicas").devices in (("CPU:0",), ("GPU:0",))
    for arguments, message in (
        ({}, "give either devices or replicas"),
        ({"devices": 2, "replicas": 2}, "give either devices or replicas"),
        ({"replicas": 0}, "replicas is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            plan(tree, **arguments)


@pytest.mark.parametrize(
    "count, batch, zipf", [(4, 1024, False), (8, 1024, True), (64, 512, False)]
)
def test_padding(count, batch, zipf):
    """The largest message between processes, beside draws of labels."""
    tree = Tree.two_level(10_000)
    counts = 1 / np.arange(1.0, 10_001) if zipf else None
    planned = plan(tree, replicas=count, batch=batch, counts=counts)
    shares = [shard.examples_share for shard in planned.cost.shards]
    rng, size = np.random.default_rng(0), batch // count
    shares = np.append(shares, max(1 - sum(shares), 0))  # Some end in the top.
    drawn = rng.multinomial(size, shares, (1000, count))[..., :-1]
    largest = drawn.max((1, 2)).mean() * count / size / shares[:-1].sum()
    assert planned.cost.padding == pytest.approx(largest, rel=0.03)
    assert f"x {planned.cost.padding:.2f} padded" in str(
        plan(tree, replicas=count, batch=batch, counts=counts, width=8)
    )


def test_no_padding():
    """Where nothing is sent, or nobody says how much."""
    tree = Tree.two_level(100)
    for options in (
        {"replicas": 1, "batch": 8},
        {"replicas": 4},
        {"devices": 4, "batch": 8},
    ):
        assert plan(tree, **options).cost.padding is None
    flat = plan(Tree.balanced(100, 100), replicas=4, batch=8)
    assert flat.cost.padding is None
