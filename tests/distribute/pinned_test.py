"""Plans of pinned trees: half the rows of weights of the trees they stand for.

That such heads train and answer as one on one device does is tested beside
those of other trees, in training_test and predictions_test.
"""

import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import spread_heads as heads
from tests.support import trees
from tests.support.devices import CPUS
from tests.support.references import PINNED, build
from tests.support.training import assert_near, assert_same
from tf_hsm import distribute
from tf_hsm.layers import HierarchicalSoftmax

TREE = build("pinned huffman_203")


def plan_of(tree, count=3, top=8, **options):
    ranks = 1 + np.random.default_rng(0).permutation(tree.num_classes)
    return distribute.plan(
        tree, count, counts=1000 // ranks, top=top, **options
    )


@pytest.mark.parametrize("name", PINNED)
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_cut_as_the_expanded_tree(name, count):
    """The same units and shards; each group, once, has a row of weights."""
    tree = build(name)
    pinned, plain = plan_of(tree, count), plan_of(tree.expand(), count)
    assert pinned != plain
    assert (
        pinned.layout.top.pinned and pinned.layout.top == plain.layout.top.pin()
    )
    assert pinned.shards == tuple(
        # Work is rows of weights.
        tf_hsm.distribute.Shard(**{**vars(s), "work": s.work / 2})
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
        assert mine == tf_hsm.Forest(*its._arrays, pinned=True)
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


def test_a_forest_that_cannot_be_pinned():
    with pytest.raises(ValueError, match="group 2 has 3 rows; every group"):
        tf_hsm.Forest(
            [0, 2, 4, 7], [-1, 1, -1], [0, 2, 3, 6, 5, 4], pinned=True
        )


def test_one_device_at_a_time():
    """Masks and labels at nodes are answered by a copy on one device."""
    one, head = (heads.make_head("pinned", None, p) for p in (None, CPUS[:3]))
    distribute.copy_weights(one, head)
    inputs = np.random.default_rng(1).normal(size=(4, heads.WIDTH))
    with head.on_one_device():
        found = head.top_k(inputs, 3, allowed=[5, 9, 30, 41])
    assert_same(found, one.top_k(inputs, 3, allowed=[5, 9, 30, 41]))


def test_penalties_of_touched_rows():
    """Regularizers see each touched row of weights once."""
    labels = np.array([0, 7, 7, 50, -1])
    inputs = np.random.default_rng(2).normal(size=(5, heads.WIDTH))
    options = {"kernel_regularizer": "l2", "bias_regularizer": "l1"}
    one, several = (
        heads.make_head("pinned", None, place, **options)
        for place in (None, CPUS[:3])
    )
    one.bias.assign(np.random.default_rng(3).normal(size=one.bias.shape))
    distribute.copy_weights(one, several)
    totals = []
    for head in (one, several):
        head(inputs, labels)
        totals.append(float(tf.add_n(head.losses)))
    assert_near(*totals, 1e-12)
    kernel, bias, tree = one.kernel.numpy(), one.bias.numpy(), one.tree
    groups = np.unique(
        np.concatenate([tree.row_groups[tree.path(c)] for c in (0, 7, 50)])
    )
    penalty = 0.01 * ((kernel[groups] ** 2).sum() + abs(bias[groups]).sum())
    losses = one(inputs, labels)[:4]
    assert_near(totals[0], float(tf.reduce_mean(losses)) + penalty, 1e-6)


@pytest.mark.parametrize(
    "initializer, deviation",
    [
        (keras.initializers.RandomNormal(stddev=0.5), 0.5 * 2**0.5),
        # fan_avg is (2 * 202 rows + 300) / 2.
        ("glorot_normal", (2 / (2 * 202 + 300) * 2) ** 0.5),
    ],
)
def test_initial_values(initializer, deviation):
    """Differences of two rows, of the scale of all rows together."""
    head = HierarchicalSoftmax(
        TREE, plan=plan_of(TREE, CPUS), kernel_initializer=initializer
    )
    head.build([None, 300])
    kernels = [head.kernel, *head.shard_kernels]
    for i, kernel in enumerate(kernels):
        assert np.std(kernel) == pytest.approx(deviation, rel=0.1)
        for other in kernels[:i]:
            assert (kernel[0].numpy() != other[0].numpy()).all()
    counts = 1 + np.arange(TREE.num_classes)
    head = HierarchicalSoftmax(TREE, plan=head.plan, counts=counts)
    head.build([None, 4])
    prior = TREE.log_prior(counts)
    np.testing.assert_allclose(
        head.bias, prior[head.plan.weight_rows_of()], rtol=1e-6
    )
    for shard, bias in zip(head.plan.shards, head.shard_biases, strict=True):
        np.testing.assert_allclose(
            bias, prior[head.plan.weight_rows_of(shard)], rtol=1e-6
        )


def test_a_chain_has_one_shard():
    plan = plan_of(trees.chain(50).pin(), 2, top=256)
    assert plan.layout.top.num_weight_rows == 1
    assert [shard.num_rows for shard in plan.shards] == [98, 0]
