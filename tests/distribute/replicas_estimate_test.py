"""`tf_hsm.estimate` of a head over replicas, against one that is built."""

import re

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support import spread_heads as heads
from tests.support.estimates import bytes_of
from tf_hsm.cost.gradient_costs import exchanged_bytes
from tf_hsm.layers import HierarchicalSoftmax

REPLICAS, WIDTH, BATCH = 4, 6, 4000
TREE = tf_hsm.Tree.two_level(5000)
OPTIONS = {"batch": BATCH, "width": WIDTH, "optimizer": "sgd"}


def make_layer(rule="lazy_adam"):
    """A head over the replicas."""
    with heads.strategy_of(REPLICAS).scope():
        return HierarchicalSoftmax(TREE, devices="replicas", optimizer=rule)


def estimate(rule, *, tails=False, **options):
    """By the sizes alone, of a tree or of an adaptive softmax."""
    options = {"replicas": REPLICAS, "shards": REPLICAS, **OPTIONS, **options}
    if tails:
        options["num_classes"] = TREE.num_classes
    head = "adaptive" if tails else TREE
    return tf_hsm.estimate(None, head, head_optimizer=rule, **options)


@pytest.mark.parametrize("rule", ["sgd", "lazy_adam"])
def test_bytes_of_a_device(rule):
    """The top and the fullest shard, with slots, and nothing else."""
    layer = make_layer(rule)
    with heads.strategy_of(REPLICAS).scope():
        layer.build([None, WIDTH])
    pairs = heads.parts_of(layer)
    slots = [
        [slot for variable in pair for slot in layer.optimizer.slots(variable)]
        for pair in pairs
    ]
    for found in (tf_hsm.estimate(None, layer, **OPTIONS), estimate(rule)):
        top, shard, _ = found.parts
        assert top.parameter_bytes == bytes_of(pairs[0])
        assert top.slot_bytes == bytes_of(slots[0])
        assert shard.parameter_bytes == max(map(bytes_of, pairs[1:]))
        assert shard.slot_bytes == max(map(bytes_of, slots[1:]))
        assert found.parameter_bytes == top.parameter_bytes + (
            shard.parameter_bytes
        )
        # All rows of the top go around a ring, with a number for each.
        num_rows = top.parameters / (WIDTH + 1)
        assert found.replicas.wire_bytes == 2 * 3 / 4 * num_rows * 4 * (
            WIDTH + 2
        )
        assert found.labels == BATCH / REPLICAS


def test_work_of_all_replicas():
    """As that on one device with the whole batch."""
    top, shard, _ = estimate("sgd").parts
    (whole,) = tf_hsm.estimate(
        None, TREE, head_optimizer="sgd", **OPTIONS
    ).parts
    flops = [
        sum(getattr(p, name).flops for name in ("forward", "backward"))
        for p in (top, shard, whole)
    ]
    assert REPLICAS * sum(flops[:2]) == pytest.approx(flops[2], rel=0.1)


def test_in_a_model():
    """The model has the number of replicas."""
    with heads.strategy_of(REPLICAS).scope():
        model = keras.Sequential([keras.Input([WIDTH]), make_layer()])
    found = tf_hsm.estimate(model, batch=BATCH, optimizer="sgd")
    parts = estimate("lazy_adam").parts
    assert [p.parameters for p in found.parts[-3:]] == [
        p.parameters for p in parts
    ]
    assert f"on each of {REPLICAS} devices" in str(found)
    assert "not counted" in str(found)


@pytest.mark.parametrize("form", heads.TAILS)
@pytest.mark.parametrize("count", [2, 4])
def test_bytes_of_tails(form, count):
    """The shortlist, the projections and the tails of the fullest replica."""
    layer = heads.make_head(form, "lazy_adam", count)
    found = tf_hsm.estimate(
        None, layer, dtype="float64", **OPTIONS | {"width": heads.WIDTH}
    )
    assert found.replicas.count == count
    parts = {part.name.removeprefix(layer.name): part for part in found.parts}
    of_tails = [0] * count
    for i, tail in enumerate(layer._head.parts):
        of_tails[i % count] += bytes_of(tail.head.variables())
    own = [p for name, p in parts.items() if re.fullmatch(r" tail \d", name)]
    assert sum(p.parameter_bytes for p in own) == max(of_tails)
    assert sum(p.slot_bytes for p in own) == 2 * max(of_tails)
    shortlist = parts[" shortlist"]
    assert shortlist.parameter_bytes == bytes_of(
        layer._head.shortlist.variables()
    )
    assert shortlist.slot_bytes == 2 * shortlist.parameter_bytes
    projections = [p for p in found.parts if p.kind == "projection"]
    assert sum(p.parameter_bytes for p in projections) == bytes_of(
        heads.projections_of(layer)
    )
    # All gradients go around a ring, with a number for each row of the
    # shortlist.
    dense = sum(p.gradient_bytes for p in projections)
    num_rows = layer._head.shortlist.tree.num_rows
    dense += shortlist.parameter_bytes + 8 * num_rows
    assert found.replicas.wire_bytes == pytest.approx(
        2 * (count - 1) * dense / count
    )


def test_a_whole_head_is_gathered():
    """Keras gathers the rows of a head that no replica has parts of."""
    found = tf_hsm.estimate(
        None, "adaptive", num_classes=5000, replicas=REPLICAS, **OPTIONS
    )
    sent = sum(
        exchanged_bytes(p.gradient_bytes, REPLICAS, is_sparse=p.is_sparse)
        for p in found.parts
    )
    assert found.replicas.wire_bytes == pytest.approx(sent)


def sent_to_tails(labels, count, size):
    """The bytes for labels in the tails "three", of numbers of `size` bytes.

    The products and their gradient; label, loss and its gradient.
    """
    ranks = np.empty(heads.N, int)
    ranks[np.argsort(-heads.TAIL_COUNTS, kind="stable")] = np.arange(heads.N)
    tail = np.searchsorted([10, 20, 40], ranks[labels], side="right")
    replica = np.arange(labels.size) * count // labels.size
    return sum(
        ((tail == number) & (replica != (number - 1) % count)).sum()
        * (2 * width * size + 8 + 2 * size)
        for number, width in ((1, 4), (2, 2), (3, 1))
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("count", [2, 4])
def test_bytes_that_tails_send(monkeypatch, dtype, count):
    """The bytes of all tensors that replicas exchange in a step."""
    sent, _, labels = heads.sent_in_a_step(monkeypatch, "three", count, dtype)
    size = max(np.dtype(dtype).itemsize, 4)  # Products are made in float32.
    assert sent.sum() == sent_to_tails(labels, count, size) > 0


@pytest.mark.parametrize("dtype, size", [("bfloat16", 4), ("float64", 8)])
def test_what_travels_to_tails(dtype, size):
    """As for labels that are drawn."""
    layer = heads.make_head("three", "sgd", 2, dtype=dtype)
    found = tf_hsm.estimate(
        None, layer, dtype=dtype, **OPTIONS | {"width": heads.WIDTH}
    )
    probs = heads.TAIL_COUNTS / heads.TAIL_COUNTS.sum()
    labels = np.random.default_rng(0).choice(heads.N, size=BATCH, p=probs)
    wire = found.parts[-1]
    assert wire.kind == "network"
    sent = 2 * (wire.forward.bytes + wire.backward.bytes)
    assert sent == pytest.approx(sent_to_tails(labels, 2, size), rel=0.05)


def test_tails_by_sizes_alone():
    """As the layer that is made under the strategy."""
    with heads.strategy_of(REPLICAS).scope():
        layer = tf_hsm.layers.AdaptiveSoftmax(
            5000, devices="replicas", optimizer="sgd"
        )
    made = tf_hsm.estimate(None, layer, **OPTIONS)
    found = estimate("sgd", tails=True)
    for field in ("parameter_bytes", "slot_bytes", "gradient_bytes"):
        assert getattr(found, field) == getattr(made, field)
    assert found.replicas == made.replicas


def test_tails_on_one_replica():
    """As the head that is whole."""
    one = estimate("sgd", tails=True, replicas=1, shards=1)
    assert str(one) == str(estimate("sgd", tails=True, replicas=1, shards=None))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: estimate("sgd", shards=3), "replicas is 4, but.* shards is 3"),
        (lambda: estimate(None), "give head_optimizer"),
        (
            lambda: tf_hsm.estimate(None, make_layer(), replicas=3, **OPTIONS),
            "replicas is 3, but .* is over 4 replicas",
        ),
        (
            lambda: tf_hsm.estimate(
                None, heads.make_head("one", "sgd", 2), replicas=3, **OPTIONS
            ),
            "replicas is 3, but .* is over 2 replicas",
        ),
        (
            lambda: estimate(None, tails=True),
            "give head_optimizer",
        ),
        (
            lambda: estimate("sgd", tails=True, replicas=1),
            "shards is 4, but adaptive has no estimate",
        ),
        (
            lambda: estimate("sgd", tails=True, replicas=1, shards=0),
            "shards is 0; it must be at least 1",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
