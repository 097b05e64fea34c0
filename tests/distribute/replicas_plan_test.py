"""Plans of heads over replicas: bytes and work, against examples one by one."""

import json
import tracemalloc

import numpy as np
import pytest

import tf_hsm
from tests.support import replicated_heads as heads
from tests.support import trees
from tests.support.estimated_heads import bytes_of
from tf_hsm.distribute import Plan, Step, plan
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.tree import Tree

WIDTH = 5
# An input or its gradient, and a row of the gradient of the top: numbers of
# float32, and two numbers of the row, of 8 bytes.
VECTOR, ROW = 4 * WIDTH, 4 * (WIDTH + 1) + 2 * 8


def by_paths(p, labels):
    """What each replica sends, receives and scores, from each path alone.

    Returns:
      `[S]`: the bytes sent and received; the rows scored in each shard; for
      each replica the rows scored and the rows touched in the top; and the
      seconds of its network, where it sends and receives at the same time, for
      examples, results and gradients one after the other.
    """
    tree, count = p.tree, len(p.devices)
    fanouts = np.diff(tree.group_offsets)
    shard_of_row = np.full(tree.num_rows, -1)
    for i, shard in enumerate(p.shards):
        shard_of_row[p.layout.rows_of(shard)] = i
    work, of_top = np.zeros([2, count], np.int64)
    sent, received = np.zeros([2, 3, count], np.int64)
    touched = [set() for _ in range(count)]
    for replica, part in enumerate(split(labels, count)):
        for c in part:
            path = tree.path(c)
            for group in tree.row_groups[path]:
                shard = shard_of_row[tree.group_offsets[group]]
                if shard >= 0:
                    work[shard] += fanouts[group]
                else:
                    of_top[replica] += fanouts[group]
                    touched[replica].add(group)
            owner = shard_of_row[path[-1]]
            if owner in (-1, replica):
                continue
            there = VECTOR + 4 + 4  # input, label, loss gradient
            back = VECTOR + 4  # gradient and loss
            for phase, size, begin, end in (
                (0, there, replica, owner),
                (1, back, owner, replica),
            ):
                sent[phase, begin] += size
                received[phase, end] += size
    touched = np.array([fanouts[sorted(groups)].sum() for groups in touched])
    for replica in range(count):
        for other in range(count):
            if other != replica:
                sent[2, replica] += ROW * touched[replica]
                received[2, other] += ROW * touched[replica]
    seconds = np.maximum(sent, received) / 1e6
    seconds = seconds[:2].sum(0).max() + seconds[2].max()
    return sent.sum(0), received.sum(0), work, of_top, touched, seconds


def split(labels, count):
    """The part of each replica."""
    parts = [[] for _ in range(count)]
    for i, c in enumerate(labels):
        parts[i * count // len(labels)].append(c)
    return parts


@pytest.mark.parametrize("name", trees.CATALOGUE)
@pytest.mark.parametrize("count", [1, 3, 8])
def test_simulation_against_paths(name, count):
    tree = trees.CATALOGUE[name]()
    p = plan(tree, replicas=count, top=8, width=WIDTH, network=1e6)
    rng = np.random.default_rng(0)
    batches = [rng.integers(tree.num_classes, size=size) for size in (24, 0, 7)]
    result = p.simulate(batches)
    model = p.step.cost_model
    for i, labels in enumerate(batches):
        sent, received, work, of_top, touched, seconds = by_paths(p, labels)
        np.testing.assert_array_equal(result.work[i], work)
        np.testing.assert_array_equal(result.top_work[i], of_top)
        np.testing.assert_array_equal(result.wire_bytes[i], sent + received)
        assert result.network_milliseconds[i] == pytest.approx(1000 * seconds)
        np.testing.assert_allclose(
            result.top_milliseconds[i],
            [
                model.call
                + model.weights(rows, width=WIDTH)
                + model.products(scored, 1, width=WIDTH)
                if scored
                else 0
                for rows, scored in zip(touched, of_top, strict=True)
            ],
        )
        assert result.step_milliseconds[i] == pytest.approx(
            result.top_milliseconds[i].max()
            + result.network_milliseconds[i]
            + result.milliseconds[i].max()
        )
    whole = plan(tree, count, top=8, width=WIDTH).simulate(batches)
    for field in ("examples", "work", "touched_rows", "milliseconds"):
        np.testing.assert_array_equal(
            getattr(result, field), getattr(whole, field)
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [2, 4])
def test_bytes_that_a_head_sends(monkeypatch, dtype, count):
    """The bytes of all tensors that replicas exchange in a step."""
    head = heads.make_head("ternary", "sgd", count, dtype=dtype)
    inputs, labels, weights = next(heads.batches("ternary"))
    labels = np.maximum(labels, 0)
    sent = heads.sent_in_a_step(
        monkeypatch,
        count,
        heads.step_of(head),
        [inputs.astype(dtype), labels, weights.astype(dtype)],
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


@pytest.mark.parametrize("zipf", [False, True])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_drawn_batches_are_as_the_plan_expects(zipf, count):
    tree = Tree.balanced(8000, 20)
    counts = None
    if zipf:
        counts = 1 / (1 + np.random.default_rng(0).permutation(8000))
    p = plan(tree, replicas=count, counts=counts, batch=1600, width=WIDTH)
    cost = p.cost
    result = p.simulate(counts=counts, steps=100)
    np.testing.assert_allclose(
        result.wire_bytes.mean(0),
        [s.wire_bytes for s in cost.shards],
        rtol=0.03,
    )
    np.testing.assert_allclose(
        result.milliseconds.mean(0),
        [s.milliseconds for s in cost.shards],
        rtol=0.03,
    )
    np.testing.assert_allclose(
        result.top_milliseconds.mean(0), cost.top.milliseconds, rtol=0.03
    )
    assert result.top_work.mean() == pytest.approx(
        1600 / count * cost.top.work, rel=0.03
    )
    # The mean of the largest is above the largest mean, by chance.
    mean = result.step_milliseconds.mean()
    assert cost.milliseconds <= 1.001 * mean <= 1.15 * cost.milliseconds
    assert sum(s.sent_bytes for s in cost.shards) == pytest.approx(
        cost.wire_bytes
    )
    assert sum(s.received_bytes for s in cost.shards) == pytest.approx(
        cost.wire_bytes
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
        for pair in [
            [layer.kernel, layer.bias],
            *zip(layer.shard_kernels, layer.shard_biases, strict=True),
        ]
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


def test_all_labels_on_one_of_eight():
    p = plan(Tree.two_level(10_000), replicas=8, batch=8000, width=300)
    result = p.simulate(shard=2, steps=3)
    assert (result.examples[:, 2] == 8000).all()
    assert result.waiting == pytest.approx(7 / 8)
    # The body and the top are as even as before.
    assert (result.top_work == 1000 * 100).all()
    assert result.step_milliseconds.max() == pytest.approx(
        p.cost.worst_milliseconds, rel=0.03
    )
    # 7,000 examples come from the other replicas, and their results return.
    examples = 7000 * (2 * 300 * 4 + 12)
    gradient = result.wire_bytes[:, 2] - examples
    assert (gradient <= 14 * 100 * (301 * 4 + 16)).all()
    assert p.cost.worst_milliseconds > 4 * p.cost.milliseconds
    counts = np.zeros(10_000)
    counts[int(p.layout.place_classes[0])] = 1
    assert (p.simulate(counts=counts, shard=0).examples[:, 0] == 8000).all()
    for arguments, message in (
        ({"shard": 8}, "shard is 8; the plan has 8 shards"),
        ({"shard": -1}, "shard is -1"),
        ({"shard": 1, "counts": counts}, "shard 1 has no class that occurs"),
        ({"shard": 1, "batches": [[1]]}, "say how to draw batches"),
    ):
        with pytest.raises(ValueError, match=message):
            p.simulate(**arguments)


def test_nothing_travels():
    """On one replica, and from a tree without subtrees."""
    one = plan(Tree.balanced(1000, 10), replicas=1, batch=16, width=WIDTH).cost
    assert one.wire_bytes == one.wire_milliseconds == 0
    assert one.shards[0].sent_bytes == one.shards[0].received_bytes == 0
    for devices in ({"replicas": 4}, {"devices": 4}):
        flat = plan(Tree.balanced(9, 9), **devices, batch=16, width=WIDTH).cost
        assert flat.worst_milliseconds == flat.milliseconds
    assert flat.wire_milliseconds == 0


def test_more_replicas_than_subtrees():
    p = plan(Tree.two_level(9), replicas=5, batch=16, width=WIDTH)
    assert p.cost.remarks[0] == (
        "There are 5 replicas, but only 3 subtrees; the other replicas have "
        "none."
    )
    with pytest.raises(ValueError, match="shard 4 has no class that occurs"):
        p.simulate(shard=4)
    assert [s.bytes for s in p.cost.shards[3:]] == [p.cost.top.bytes] * 2


def test_the_top_binds():
    """Its gradients go to all replicas, however many these are."""
    tree = Tree.two_level(1_000_000)
    few, many = (
        plan(tree, replicas=n, batch=4096, width=64).cost for n in (2, 64)
    )
    assert not any("top binds" in x for x in few.remarks)
    (text,) = (x for x in many.remarks if "top binds" in x)
    assert "to exchange the gradients of the top" in text
    gathering = 1e3 * many.top.sent_bytes / 1.25e9
    assert gathering > max(s.milliseconds for s in many.shards)
    # A head on devices has one top, for the whole batch.
    (other,) = (
        x
        for x in plan(tree, 200, batch=4096, width=64).cost.remarks
        if "top binds" in x
    )
    assert "gradients" not in other
    flat = plan(Tree.balanced(9, 9), replicas=2).cost.remarks
    assert "each replica has a copy of it" in " ".join(flat)


def test_a_plan_has_no_array_of_all_classes():
    """So that a hundred million take no memory beside their tree."""
    tree = Tree.two_level(4_000_000)
    assert tree._levels.size == 3  # made once
    tracemalloc.start()
    try:
        p = plan(tree, replicas=64, batch=4096, width=WIDTH)
        assert "over 64 replicas" in str(p)
        p.simulate(steps=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < tree.num_classes  # a byte for each


def test_text():
    p = plan(Tree.two_level(10_000), replicas=8, batch=400, width=8)
    text = str(p)
    assert "over 8 replicas" in text
    assert "100 rows, 7.2 kB, a copy on each replica; 100.0 rows" in text
    assert "sent  received" in text
    assert "for the gradients of the top" in text
    assert "if all labels are in one shard" in text
    text = str(p.simulate(steps=2))
    assert "2 steps of 400 examples on 8 replicas" in text
    assert "5,000 in the top by the mean replica" in text
    assert "wire" not in str(plan(Tree.two_level(10_000), replicas=2))


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
