"""What heads do: against what is measured, other functions, and by hand."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import trees
from tests.support.estimates import setting_of
from tf_hsm import baselines
from tf_hsm.estimation import heads
from tf_hsm.estimation.heads import visits

WIDTH, BATCH = 6, 40


def test_a_tree_moves_what_it_touches():
    """The gradient has the rows of the groups that a batch visits."""
    tree = tf_hsm.Tree.two_level(10_000)
    (part,) = heads.head(tree).parts(setting_of(), WIDTH)
    labels = np.random.default_rng(0).integers(10_000, size=BATCH)
    weights = tf.Variable(tf.zeros([tree.num_rows, WIDTH]))
    biases = tf.Variable(tf.zeros([tree.num_rows]))
    with tf.GradientTape() as tape:
        losses = tf_hsm.hierarchical_softmax_loss(
            weights, biases, labels, tf.zeros([BATCH, WIDTH]), tree
        )
    gradients = tape.gradient(losses, [weights, biases])
    measured = sum(
        g.values.numpy().nbytes + g.indices.numpy().nbytes for g in gradients
    )
    assert part.gradient_bytes == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("name", ["hierarchical", "label_tree"])
def test_flops_and_rows_are_those_of_the_expected_cost(name):
    tree, counts = trees.CATALOGUE["huffman_4ary"](), np.arange(1, 152)
    cost = tree.expected_cost(counts, batch=BATCH, width=WIDTH)
    for rule, row_bytes in ((None, 4 * WIDTH + 4 + 2 * 8), ("sgd", 0)):
        head = heads.head(name, tree, counts=counts, optimizer=rule)
        (part,) = head.parts(setting_of(), WIDTH)
        flops = part.forward.flops + part.backward.flops
        assert flops == pytest.approx(cost.flops)
        found = part.gradient_bytes
        assert found == pytest.approx(cost.touched_rows * row_bytes)


@pytest.mark.parametrize("name", ["hierarchical", "label_tree"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("rule", "slots"), [("sgd", 0), ("lazy_adam", 2)])
def test_a_step_keeps_what_a_gradient_needs(name, dtype, rule, slots):
    """The step has no gradient, and moves the slots of the touched rows."""
    tree, setting = trees.CATALOGUE["random"](), setting_of(dtype=dtype)
    (plain,), (in_place,) = (
        heads.head(name, tree, optimizer=own).parts(setting, WIDTH)
        for own in (None, rule)
    )
    for field in (
        *("saved_bytes", "forward_bytes", "backward_bytes", "tensor_bytes"),
        "forward",
    ):
        assert getattr(in_place, field) == getattr(plain, field)
    assert in_place.backward.flops == plain.backward.flops
    assert in_place.gradient_bytes == 0 < plain.gradient_bytes
    assert in_place.in_place and not plain.in_place
    rows = tree.expected_cost(batch=BATCH, width=WIDTH).touched_rows
    moved = in_place.backward.bytes - plain.backward.bytes
    assert moved == pytest.approx(2 * slots * 4 * rows * WIDTH)
    machine = tf_hsm.estimation.machines["nvidia-h100"]
    slower = in_place.seconds(machine) - plain.seconds(machine)
    assert slower == pytest.approx(moved / machine.read_write)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_keeps_the_sums_of_chunks(dtype):
    """A float gradient takes the memory of the sums."""
    head = heads.head("hierarchical", tf_hsm.Tree.flat(20_000))
    setting = setting_of(dtype=dtype, batch=4_000)
    (plain,), (in_place,) = (
        one.parts(setting, 128) for one in (head, head.in_place("sgd"))
    )
    sums = 4 * 20_000 * 128
    moved = sums if dtype == "float32" else 0
    assert in_place.saved_bytes == plain.saved_bytes + moved
    assert in_place.forward_bytes == plain.forward_bytes - moved
    assert in_place.forward.flops == plain.forward.flops
    assert in_place.backward.flops == plain.backward.flops == 0


@pytest.mark.parametrize("name", ["two_level_100", "random", "chain_50"])
@pytest.mark.parametrize("num_labels", [0, 1, 4])
def test_a_label_tree_visits_what_labels_do(name, num_labels):
    """Visits, logits and gradient, against label sets that are drawn."""
    tree, batch = trees.CATALOGUE[name](), 2000
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(tree.num_classes))
    labels = rng.choice(tree.num_classes, [batch, num_labels], p=shares)
    paths = [tree.path(c) for c in range(tree.num_classes)]
    fanouts = np.diff(tree.group_offsets)
    visits, logits, touched = 0, 0, set()
    for row in labels:
        above = {-1}.union(*(paths[c].tolist() for c in row))
        groups = np.flatnonzero(np.isin(tree.group_parents, list(above)))
        visits += groups.size
        logits += fanouts[groups].sum()
        touched.update(groups)
    head = heads.head("label_tree", tree, counts=shares)
    setting = dataclasses.replace(
        setting_of(batch=batch), labels_per_example=num_labels
    )
    (part,) = head.parts(setting, WIDTH)
    rows = fanouts[list(touched)].sum()
    assert part.gradient_bytes == pytest.approx(
        rows * (4 * WIDTH + 4 + 16), rel=0.1
    )
    flops = part.forward.flops + part.backward.flops
    assert flops == pytest.approx(6 * logits * WIDTH, rel=0.05)
    # Inputs of visits, of 6 numbers and 10 zeros; dz; losses and dx.
    lasting = 4 * (16 * visits + logits + batch * (1 + WIDTH))
    plan = 50 * visits + 150 * len(touched) + 10 * batch
    assert 0.95 * lasting < part.saved_bytes < 1.05 * (lasting + plan)
    assert part.forward_bytes == pytest.approx(4 * 16 * visits, rel=0.05)


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_visits_of_trees(name):
    """The masses of groups, against paths one by one."""
    tree = trees.CATALOGUE[name]()
    counts = np.random.default_rng(0).integers(1, 9, tree.num_classes)
    found = visits.of(tree, counts)
    masses = np.zeros(tree.num_groups)
    for c, share in enumerate(counts / counts.sum()):
        masses[tree.row_groups[tree.path(c)]] += share
    np.testing.assert_allclose(found.masses, masses, atol=1e-12)
    np.testing.assert_array_equal(found.fanouts, np.diff(tree.group_offsets))
    np.testing.assert_allclose(
        found.groups(7), np.sum(1 - (1 - np.minimum(masses, 1)) ** 7)
    )
    assert found.pairs(10) == pytest.approx(10 * masses.sum())
    assert found.logits(10) == pytest.approx(10 * masses @ found.fanouts)


@pytest.mark.parametrize("num_classes", [1, 2, 3, 7, 100, 1013, 10_007])
@pytest.mark.parametrize("counts", [None, "zipf", "drawn"])
def test_two_levels_without_the_tree(num_classes, counts):
    if counts == "drawn":
        counts = np.random.default_rng(1).integers(9, size=num_classes) + 1
    tree = tf_hsm.Tree.two_level(num_classes)
    there, here = visits.of(tree, counts), visits.of(num_classes, counts)
    assert there.num_rows == here.num_rows
    np.testing.assert_array_equal(there.fanouts, here.fanouts)
    np.testing.assert_allclose(there.masses, here.masses, rtol=1e-12)


@pytest.mark.parametrize("rule", [None, "sgd", "rowwise_adagrad"])
@pytest.mark.parametrize("name", ["binary_37", "huffman_2ary", "chain_50"])
def test_a_pinned_tree_takes_half(name, rule):
    tree = trees.CATALOGUE[name]()
    (whole,), (half,) = (
        heads.head(t, optimizer=rule).parts(setting_of(), WIDTH)
        for t in (tree, tree.pin())
    )
    for field in ("parameter_bytes", "gradient_bytes", "slot_bytes"):
        twice = 2 * getattr(half, field)
        assert twice == pytest.approx(getattr(whole, field))
    for direction in ("forward", "backward"):
        flops = getattr(half, direction).flops
        assert 2 * flops == pytest.approx(getattr(whole, direction).flops)
    # The nodes are the same, and so are the examples that visit groups.
    assert half.constant_bytes == whole.constant_bytes
    with pytest.raises(ValueError, match=r"but 'gather' has.*expand\(\)"):
        heads.head("gather", tree.pin())


@pytest.mark.parametrize("name", ["two_level_100", "random", "chain_50"])
@pytest.mark.parametrize("function", ["gather", "embedding_lookup", "map_fn"])
def test_copies_are_those_of_the_baselines(name, function):
    tree = trees.CATALOGUE[name]()
    (part,) = heads.head(function, tree).parts(setting_of("sgd"), WIDTH)
    biases = part.gradient_bytes * 1 / WIDTH
    found = part.saved_bytes + part.backward_bytes + part.gradient_bytes
    expected = baselines.peak_bytes(
        function, tree, batch=BATCH, width=WIDTH, itemsize=4
    )
    # The gradient has biases and numbers of rows beside the copies.
    assert expected <= found <= expected + 4 * biases
    assert part.parameters == tree.num_rows * (WIDTH + 1)


def test_a_full_and_a_sampled_softmax_by_hand():
    (part,) = heads.head("full", 1000).parts(setting_of(), WIDTH)
    assert part.gradient_bytes == part.parameter_bytes == 28_000
    product = 2 * BATCH * 1000 * WIDTH
    assert product <= part.forward.flops <= product + 10 * BATCH * 1000
    assert 2 * product <= part.backward.flops <= 2 * product + BATCH * 1000
    assert part.forward.softmax == BATCH * 1000
    assert part.saved_bytes == 4 * BATCH * 1000  # logits
    head = heads.head("sampled", 1000, num_sampled=50)
    (part,) = head.parts(setting_of(), WIDTH)
    assert part.gradient_bytes == (BATCH + 50) * (4 * 7 + 16)
    product = 2 * BATCH * 50 * WIDTH
    assert product <= part.forward.flops <= 2 * product
    # No more are drawn than there are.
    layer = tf_hsm.layers.SampledSoftmax(5, num_sampled=9)
    assert heads.of(layer).num_sampled == 5


def test_large_tables_are_made_by_blocks():
    head = heads.head("hierarchical", 10_000_000)
    (part,) = head.parts(setting_of(), 300)
    assert part.making_bytes < 1e9
    (full,) = heads.head("full", 10_000_000).parts(setting_of(), 300)
    assert full.making_bytes == 2 * 4 * 300 * 10_000_000


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("full", 3), {"shards": 2}, "is not cut over devices"),
        (("label_tree", 3), {"shards": 2}, "'label_tree' is not cut over"),
        (("hierarchical", 3), {"shards": 0}, "shards is 0"),
        (("soft", 3), {}, "head is 'soft'; it must be"),
        (("full", 0), {}, "num_classes is 0"),
        (("full", 3), {"optimizer": "sgd"}, "'full' cannot update its own"),
        (("hierarchical", 3), {"counts": "x"}, "counts is 'x'"),
        (("hierarchical", 3), {"optimizer": "x"}, "optimizer"),
        (("hierarchical", 3), {"counts": [1, 2]}, "counts"),
        (("hierarchical", 3), {"counts": [0, 0, 0]}, "all count"),
    ],
)
def test_bad_arguments(arguments, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        heads.head(*arguments, **options)


@pytest.mark.parametrize("value", ["full", True])
def test_what_is_no_head(value):
    with pytest.raises(TypeError, match="head must be a Tree"):
        heads.of(value)
