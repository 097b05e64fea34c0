"""Every head, byte for byte against the layer that is built."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import trees
from tests.support.estimates import bytes_of, setting_of, stacked, total
from tf_hsm import layers
from tf_hsm.estimation import heads

WIDTH, BATCH, N = 24, 40, 151
TREE = trees.CATALOGUE["random"]()
TAILS = {"cutoffs": [20, 60], "div_value": 2.0}
TREES = {"tail": "two_level", **TAILS}
PINNED = tf_hsm.Tree.balanced(N, 2).pin()
VECTORS = {"num_embeddings": 50, "width": WIDTH}
PINNED_TAIL = {"cutoffs": [50], "tail": [tf_hsm.Tree.balanced(101, 2).pin()]}
# A layer, the name of the same head without a layer, the arguments of both.
LAYERS = {
    "hierarchical": (layers.HierarchicalSoftmax, "hierarchical", TREE, {}),
    "pinned": (layers.HierarchicalSoftmax, "hierarchical", PINNED, {}),
    "label tree": (layers.LabelTree, "label_tree", TREE, {}),
    "adaptive": (layers.AdaptiveSoftmax, "adaptive", N, TAILS),
    "two-level tails": (layers.AdaptiveSoftmax, "adaptive", N, TREES),
    "pinned tail": (layers.AdaptiveSoftmax, None, N, PINNED_TAIL),
    "embeddings": (layers.EmbeddingSoftmax, None, TREE, VECTORS),
}
STOCK = {
    "sampled": lambda use_bias: layers.SampledSoftmax(
        N, num_sampled=50, use_bias=use_bias
    ),
    "full": lambda use_bias: keras.layers.Dense(N, use_bias=use_bias),
}


def make_layer(name, **options):
    make, _, classes, known = LAYERS[name]
    return make(classes, **known, **options)


def split_variables(layer):
    """Lists the variables that the layer's and the model's optimizer update."""
    rows = [] if layer.optimizer is None else layer.row_variables()
    known = {id(v) for v in [*rows, layer.in_place.anchor]}
    return rows, [v for v in layer.trainable_variables if id(v) not in known]


def slot_bytes(optimizer, variables):
    optimizer.build(variables)
    return sum(bytes_of(optimizer.slots(v)) for v in variables)


@pytest.mark.parametrize(
    ("dtype", "use_bias"),
    [("float32", True), ("bfloat16", False), ("float64", True)],
)
@pytest.mark.parametrize("rule", [None, "sgd", "rowwise_adagrad", "lazy_adam"])
@pytest.mark.parametrize("name", LAYERS)
def test_variables_gradients_and_slots(name, use_bias, rule, dtype):
    options = {"optimizer": rule, "use_bias": use_bias}
    layer = make_layer(name, **options, dtype=dtype)
    layer.build((None,) if name == "embeddings" else (None, WIDTH))
    rows, others = split_variables(layer)
    slots = slot_bytes(tf_hsm.optimizers.LazyAdam(), others)
    if rows:
        slots += sum(bytes_of(layer.optimizer.slots(v)) for v in rows)
    setting = setting_of("lazy_adam", dtype)
    found = [heads.of(layer)]
    _, by_name, classes, known = LAYERS[name]
    if by_name is not None:
        found.append(heads.head(by_name, classes, **known, **options))
    for head in found:
        parts = head.parts(setting, WIDTH)
        assert total(parts, "parameter_bytes") == bytes_of([*rows, *others])
        assert total(parts, "slot_bytes") == slots
        gradients = total(parts, "gradient_bytes")
        if rule is not None:
            assert gradients == bytes_of(others)
        assert gradients > 0 or not others


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("name", STOCK)
def test_heads_of_stock_tensorflow(name, use_bias):
    layer = STOCK[name](use_bias)
    layer.build((None, WIDTH))
    options = {"num_sampled": 50} if name == "sampled" else {}
    named = heads.head(name, N, use_bias=use_bias, **options)
    one, other = (
        head.parts(setting_of(), WIDTH)[0] for head in (heads.of(layer), named)
    )
    assert one.parameter_bytes == bytes_of(layer.trainable_variables)
    assert one.gradient_bytes == other.gradient_bytes
    assert (one.forward, one.backward) == (other.forward, other.backward)


def test_an_adaptive_head_whose_layer_is_not_built_stays_so():
    layer = layers.AdaptiveSoftmax(50_000)
    parts = heads.of(layer).parts(setting_of(), 256)
    assert not layer.built
    layer.build((None, 256))
    assert total(parts, "parameter_bytes") == bytes_of(
        layer.trainable_variables
    )


@pytest.mark.parametrize("rule", [None, "adagrad"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_head_on_devices(rule, shards):
    """The fullest of the shards that the layer makes, and its top."""
    tree = tf_hsm.Tree.two_level(5000)
    layer = layers.HierarchicalSoftmax(
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


@pytest.mark.parametrize("bag", [(), (1,), (3,)])
def test_the_gradient_of_embeddings_has_a_row_for_each_id(bag):
    layer = make_layer("embeddings")
    rng = np.random.default_rng(0)
    ids = tf.constant(rng.integers(50, size=[BATCH, *bag]), tf.int32)
    labels = rng.integers(layer.num_classes, size=BATCH)
    layer(ids, labels)
    with tf.GradientTape() as tape:
        losses = layer(ids, labels)
    gradient = tape.gradient(losses, layer.embeddings)
    table, tree = heads.of(layer).parts_of((BATCH, *bag), setting_of())
    assert table.gradient_bytes == (
        gradient.values.numpy().nbytes + gradient.indices.numpy().nbytes
    )
    # The tree reads the vectors, however many ids each is the mean of.
    (vectors,) = heads.head(layer.tree).parts(setting_of(), WIDTH)
    assert tree.forward == vectors.forward


@pytest.mark.parametrize("rule", [None, "adagrad"])
def test_bags_cost_more_than_ids(rule):
    head = heads.of(make_layer("embeddings", optimizer=rule))
    (ids, tree), (bags, other) = (
        head.parts_of(shape, setting_of()) for shape in ((BATCH,), (BATCH, 5))
    )
    for name in ("forward", "backward"):
        assert getattr(bags, name).bytes > 3 * getattr(ids, name).bytes
        assert getattr(other, name) == getattr(tree, name)
    gradient = 4 * WIDTH * BATCH
    held = gradient if rule else 0
    assert ids.backward_bytes == held
    assert bags.backward_bytes == 5 * (gradient + held)


@pytest.mark.parametrize("rule", ["sgd", "lazy_adam"])
def test_a_step_of_embeddings_does_what_an_optimizer_does(rule):
    plain, in_place = (
        heads.of(make_layer("embeddings", optimizer=own)).parts(
            setting_of(rule), 0
        )[0]
        for own in (None, rule)
    )
    assert in_place.forward == plain.forward
    assert in_place.backward == plain.backward + plain.update
    assert in_place.slot_bytes == plain.slot_bytes
    assert in_place.gradient_bytes == in_place.update.bytes == 0


@pytest.mark.parametrize("name", ["hierarchical", "adaptive", "sampled", "cut"])
def test_several_labels_repeat_the_inputs(name):
    head = {
        "hierarchical": lambda: heads.head(TREE),
        "adaptive": lambda: heads.head("adaptive", N, **TAILS),
        "sampled": lambda: heads.head("sampled", N, num_sampled=9),
        "cut": lambda: heads.head(tf_hsm.Tree.two_level(500), shards=2),
    }[name]()
    several = dataclasses.replace(setting_of(), labels_per_example=3)
    found = head.parts(several, WIDTH)
    paths = head.parts(setting_of(batch=3 * BATCH), WIDTH)
    assert total(found, "forward") == total(paths, "forward")
    repeated = total(found, "saved_bytes") - total(paths, "saved_bytes")
    assert repeated == pytest.approx(3 * BATCH * WIDTH * 4)


@pytest.mark.parametrize("name", ["adaptive", "hierarchical", "embeddings"])
def test_class_weights_are_there_twice(name):
    """As an array of the layer, and as the tensor of a step."""
    weights = np.linspace(0, 1, make_layer(name).num_classes)
    plain, weighted = (
        total(heads.of(layer).parts(setting_of(), 64), "constant_bytes")
        for layer in (make_layer(name), make_layer(name, class_weights=weights))
    )
    assert weighted - plain == 2 * weights.nbytes


def test_a_tied_table_is_counted_once_with_a_dense_gradient():
    embedding = keras.layers.Embedding(5_000, 32)
    head = layers.HierarchicalSoftmax(
        tf_hsm.Tree.flat(5_000), tied_to=embedding
    )
    cell = keras.layers.GRU(32, return_sequences=True)
    model = stacked((7,), embedding, cell, head, dtype="int32")
    slots = slot_bytes(tf_hsm.optimizers.LazyAdam(), model.trainable_variables)
    found = tf_hsm.estimate(model, batch=4).parts
    assert sum(p.parameters for p in found) == model.count_params()
    assert sum(p.slot_bytes for p in found) == slots
    (part,) = [p for p in found if p.kind == "HierarchicalSoftmax"]
    assert part.gradient_bytes == 4 * (5_000 * 32 + 5_000)
