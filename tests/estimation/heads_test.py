"""Parts of heads: against built layers, other functions, and by hand."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import trees
from tests.support.estimated_heads import (
    bytes_of,
    setting_of,
    total,
    weight_bytes,
)
from tf_hsm import baselines
from tf_hsm.estimation import heads

WIDTH, BATCH = 6, 40


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(
    "rule", [None, "sgd", "adagrad", "rmsprop", "lazy_adam"]
)
@pytest.mark.parametrize("use_bias", [False, True])
def test_a_tree_byte_for_byte(dtype, rule, use_bias):
    tree = trees.CATALOGUE["random"]()
    layer = tf_hsm.layers.HierarchicalSoftmax(
        tree, optimizer=rule, use_bias=use_bias, dtype=dtype
    )
    layer.build((None, WIDTH))
    for head in (
        heads.of(layer),
        heads.head(tree, optimizer=rule, use_bias=use_bias),
    ):
        (part,) = head.parts(setting_of(dtype=dtype), WIDTH)
        assert part.parameter_bytes == weight_bytes(layer)
        optimizer = layer.optimizer
        if optimizer is None:
            optimizer = keras.optimizers.Adam()
            optimizer.build(layer.trainable_variables)
        own = [
            v
            for v in optimizer.variables
            if v is not optimizer.iterations and "learning_rate" not in v.path
        ]
        assert part.slot_bytes == bytes_of(own)
        assert (part.gradient_bytes == 0) == (rule is not None)


def test_a_tree_moves_what_it_touches():
    """The gradient has the rows of the groups that a batch passes."""
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


def test_flops_are_those_of_the_expected_cost():
    tree, counts = trees.CATALOGUE["huffman_4ary"](), np.arange(1, 152)
    cost = tree.expected_cost(counts, batch=BATCH, width=WIDTH)
    for rule in (None, "sgd"):
        head = heads.head(tree, counts=counts, optimizer=rule)
        (part,) = head.parts(setting_of(), WIDTH)
        flops = part.forward.flops + part.backward.flops
        assert flops == pytest.approx(cost.flops)


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
        "saved_bytes",
        "forward_bytes",
        "backward_bytes",
        "tensor_bytes",
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


@pytest.mark.parametrize(
    "rule", [None, "sgd", "adagrad", "rmsprop", "lazy_adam"]
)
@pytest.mark.parametrize("use_bias", [False, True])
def test_a_label_tree_byte_for_byte(rule, use_bias):
    tree = trees.CATALOGUE["random"]()
    options = {"optimizer": rule, "use_bias": use_bias}
    layer = tf_hsm.layers.LabelTree(tree, **options)
    layer.build((None, WIDTH))
    optimizer = layer.optimizer or tf_hsm.optimizers.Adagrad()
    optimizer.build(layer.row_variables())
    slot_bytes = sum(
        bytes_of(optimizer.slots(v)) for v in layer.row_variables()
    )
    setting = setting_of(tf_hsm.optimizers.Adagrad())
    for head in (heads.of(layer), heads.head("label_tree", tree, **options)):
        (part,) = head.parts(setting, WIDTH)
        assert part.kind == "LabelTree"
        assert part.parameter_bytes == weight_bytes(layer)
        assert part.slot_bytes == slot_bytes
        assert (part.gradient_bytes == 0) == (rule is not None)


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
    (in_place,) = heads.head(
        "label_tree", tree, counts=shares, optimizer="sgd"
    ).parts(setting, WIDTH)
    rows = fanouts[list(touched)].sum()
    assert part.gradient_bytes == pytest.approx(
        rows * (4 * WIDTH + 4 + 16), rel=0.1
    )
    flops = part.forward.flops + part.backward.flops
    assert flops == pytest.approx(6 * logits * WIDTH, rel=0.05)
    for name in ("forward", "backward"):
        assert getattr(in_place, name).flops == getattr(part, name).flops
    # Inputs of visits, of 6 numbers and 10 zeros; dz; losses and dx.
    lasting = 4 * (16 * visits + logits + batch * (1 + WIDTH))
    plan = 50 * visits + 150 * len(touched) + 10 * batch
    assert 0.95 * lasting < part.saved_bytes < 1.05 * (lasting + plan)
    assert part.forward_bytes == pytest.approx(4 * 16 * visits, rel=0.05)


def test_a_label_tree_of_one_label_visits_its_path():
    """As many groups as a hierarchical softmax passes."""
    tree, counts = trees.CATALOGUE["huffman_4ary"](), np.arange(1, 152)
    (one,), (other,) = (
        heads.head(name, tree, counts=counts).parts(setting_of(), WIDTH)
        for name in ("label_tree", "hierarchical")
    )
    for pass_ in ("forward", "backward"):
        assert getattr(one, pass_).flops == pytest.approx(
            getattr(other, pass_).flops
        )
    assert one.gradient_bytes == pytest.approx(other.gradient_bytes)


@pytest.mark.parametrize("rule", [None, "sgd", "rowwise_adagrad"])
@pytest.mark.parametrize("name", ["binary_37", "huffman_2ary", "chain_50"])
def test_a_pinned_tree_takes_half(name, rule):
    tree = trees.CATALOGUE[name]()
    layer = tf_hsm.layers.HierarchicalSoftmax(tree.pin(), optimizer=rule)
    layer.build((None, WIDTH))
    (whole,) = heads.head(tree, optimizer=rule).parts(setting_of(), WIDTH)
    for head in heads.of(layer), heads.head(tree.pin(), optimizer=rule):
        (half,) = head.parts(setting_of(), WIDTH)
        assert half.parameter_bytes == bytes_of(layer.row_variables())
        for field in (
            "parameters",
            "parameter_bytes",
            "gradient_bytes",
            "slot_bytes",
        ):
            twice = 2 * getattr(half, field)
            assert twice == pytest.approx(getattr(whole, field))
        for direction in ("forward", "backward"):
            flops = getattr(half, direction).flops
            twice = getattr(whole, direction).flops
            assert 2 * flops == pytest.approx(twice)
        # The nodes are the same, and so are the examples that pass groups.
        assert half.constant_bytes == whole.constant_bytes
    with pytest.raises(ValueError, match=r"but 'gather' has.*expand\(\)"):
        heads.head("gather", tree.pin())


def test_a_pinned_tail_byte_for_byte():
    tail = tf_hsm.Tree.balanced(150, 2, pinned=True)
    layer = tf_hsm.layers.AdaptiveSoftmax(200, cutoffs=[50], tail=[tail])
    layer.build((None, 32))
    parts = heads.of(layer).parts(setting_of(), 32)
    assert total(parts, "parameter_bytes") == weight_bytes(layer)


def test_a_whole_model_on_a_pinned_tree():
    tree = tf_hsm.Tree.balanced(3_000, 2)
    options = {"width": 500, "batch": 8, "optimizer": "adagrad"}
    whole, half = (
        tf_hsm.estimate(None, t, **options) for t in (tree, tree.pin())
    )
    assert 2 * half.parameters == whole.parameters
    assert half.peak_bytes == pytest.approx(whole.peak_bytes / 2, rel=0.05)
    assert sum(half.flops) == pytest.approx(sum(whole.flops) / 2, rel=0.05)


@pytest.mark.parametrize("name", ["two_level_100", "random", "chain_50"])
@pytest.mark.parametrize("function", ["gather", "embedding_lookup"])
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


def test_map_fn_makes_dense_gradients():
    tree = trees.CATALOGUE["random"]()
    (part,) = heads.head("map_fn", tree).parts(setting_of("sgd"), WIDTH)
    found = part.saved_bytes + part.backward_bytes + part.gradient_bytes
    expected = baselines.peak_bytes(
        "map_fn", tree, batch=BATCH, width=WIDTH, itemsize=4
    )
    assert found == pytest.approx(expected, rel=0.05)


def test_a_full_softmax_by_hand():
    (part,) = heads.head("full", 1000).parts(setting_of(), WIDTH)
    assert part.parameters == 1000 * 7
    assert part.gradient_bytes == part.parameter_bytes == 28_000
    assert part.slot_bytes == 56_000
    product = 2 * BATCH * 1000 * WIDTH
    assert product <= part.forward.flops <= product + 10 * BATCH * 1000
    assert 2 * product <= part.backward.flops <= 2 * product + BATCH * 1000
    assert part.forward.softmax == BATCH * 1000


def test_a_sampled_softmax_by_hand():
    head = heads.head("sampled", 1000, num_sampled=50)
    (part,) = head.parts(setting_of(), WIDTH)
    assert part.parameters == 1000 * 7
    rows = BATCH + 50
    assert part.gradient_bytes == rows * (4 * 7 + 16)
    product = 2 * BATCH * 50 * WIDTH
    assert product <= part.forward.flops <= 2 * product


@pytest.mark.parametrize("use_bias", [False, True])
def test_a_sampled_softmax_as_a_layer(use_bias):
    layer = tf_hsm.layers.SampledSoftmax(
        1000, num_sampled=50, use_bias=use_bias
    )
    layer.build((None, WIDTH))
    (part,) = heads.of(layer).parts(setting_of(), WIDTH)
    assert part.parameter_bytes == bytes_of(layer.trainable_variables)
    named = heads.head("sampled", 1000, num_sampled=50, use_bias=use_bias)
    (other,) = named.parts(setting_of(), WIDTH)
    assert part.gradient_bytes == other.gradient_bytes
    assert (part.forward, part.backward) == (other.forward, other.backward)
    # No more are drawn than there are.
    assert (
        heads.of(tf_hsm.layers.SampledSoftmax(5, num_sampled=9)).num_sampled
        == 5
    )


@pytest.mark.parametrize("tail", ["flat", "two_level"])
@pytest.mark.parametrize("use_bias", [False, True])
def test_adaptive_byte_for_byte(tail, use_bias):
    options = {"cutoffs": [20, 100], "tail": tail, "use_bias": use_bias}
    layer = tf_hsm.layers.AdaptiveSoftmax(500, **options)
    layer.build((None, 64))
    parts = heads.of(layer).parts(setting_of(), 64)
    assert total(parts, "parameter_bytes") == weight_bytes(layer)
    optimizer = keras.optimizers.Adam()
    optimizer.build(layer.trainable_variables)
    assert total(parts, "slot_bytes") == bytes_of(optimizer.variables[2:])
    named = heads.head("adaptive", 500, **options).parts(setting_of(), 64)
    assert total(named, "parameters") == total(parts, "parameters")


@pytest.mark.parametrize(
    "rule", ["sgd", "rowwise_adagrad", "lion", "lazy_adam"]
)
def test_adaptive_in_place_byte_for_byte(rule):
    """Its own optimizer has the rows, and the model's the projections."""
    options = {"cutoffs": [20, 100], "optimizer": rule}
    layer = tf_hsm.layers.AdaptiveSoftmax(500, **options)
    layer.build((None, 64))
    model = tf_hsm.optimizers.LazyAdam()
    model.build(layer.projections)
    slots_of = (
        (layer.optimizer, layer.row_variables()),
        (model, layer.projections),
    )
    expected = sum(
        bytes_of(optimizer.slots(v)) for optimizer, vs in slots_of for v in vs
    )
    for head in (
        heads.of(layer),
        heads.head("adaptive", 500, **options),
    ):
        parts = head.parts(setting_of(), 64)
        assert total(parts, "parameter_bytes") == weight_bytes(layer)
        assert total(parts, "slot_bytes") == expected
        assert total(parts, "gradient_bytes") == bytes_of(layer.projections)
    with pytest.raises(
        ValueError, match="'full' cannot update its own weights"
    ):
        heads.head("full", 500, optimizer=rule)


def test_an_adaptive_head_whose_layer_is_not_built_stays_so():
    layer = tf_hsm.layers.AdaptiveSoftmax(50_000)
    parts = heads.of(layer).parts(setting_of(), 256)
    assert not layer.built
    layer.build((None, 256))
    assert total(parts, "parameter_bytes") == weight_bytes(layer)


def test_large_tables_are_made_by_blocks():
    head = heads.head("hierarchical", 10_000_000)
    (part,) = head.parts(setting_of(), 300)
    assert part.making_bytes < 1e9
    (full,) = heads.head("full", 10_000_000).parts(setting_of(), 300)
    assert full.making_bytes == 2 * 4 * 300 * 10_000_000


@pytest.mark.parametrize("rule", [None, "adagrad"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_head_on_devices_byte_for_byte(rule, shards):
    """The fullest of the shards that the layer makes, and its top."""
    tree = tf_hsm.Tree.two_level(5000)
    layer = tf_hsm.layers.HierarchicalSoftmax(
        tree, devices=["CPU:0"] * shards, optimizer=rule
    )
    layer.build((None, WIDTH))
    tables = [
        bytes_of(pair)
        for pair in zip(layer.shard_kernels, layer.shard_biases, strict=True)
    ]
    by_name = heads.head(tree, shards=shards, optimizer=rule)
    for head in (heads.of(layer), by_name):
        top, shard, wire = head.parts(setting_of(), WIDTH)
        assert top.parameter_bytes == bytes_of([layer.kernel, layer.bias])
        assert shard.parameter_bytes == max(tables)
        assert wire.parameter_bytes == 0
        assert wire.seconds(None) > 0
    # All examples pass the top, and each shard has its part of them.
    whole = heads.head(tree, optimizer=rule).parts(setting_of(), WIDTH)
    flops = top.forward.flops + shards * shard.forward.flops
    assert flops == pytest.approx(total(whole, "forward").flops, rel=0.2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: heads.head("full", 3, shards=2), "is not cut over devices"),
        (
            lambda: heads.head("label_tree", 3, shards=2),
            "'label_tree' is not cut over devices",
        ),
        (lambda: heads.head("hierarchical", 3, shards=0), "shards is 0"),
        (lambda: heads.head("soft", 3), "head is 'soft'; it must be"),
        (lambda: heads.head("full", 0), "num_classes is 0"),
        (lambda: heads.head("full", 3, optimizer="sgd"), "cannot update"),
        (lambda: heads.head("hierarchical", 3, counts="x"), "counts is 'x'"),
        (lambda: heads.head("hierarchical", 3, optimizer="x"), "optimizer"),
        (lambda: heads.head("hierarchical", 3, counts=[1, 2]), "counts"),
        (lambda: heads.head("hierarchical", 3, counts=[0, 0, 0]), "all count"),
        (lambda: heads.of("full"), "head must be a Tree"),
        (lambda: heads.of(True), "head must be a Tree"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
