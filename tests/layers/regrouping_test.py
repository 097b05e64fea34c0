"""Heads that move to other groups of classes, in place."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.clustered_classes import (
    NUM_CLASSES,
    TREES,
    clustered,
    fit,
    held_loss,
    hidden,
    make_data,
    make_model,
)
from tests.support.training import assert_same
from tf_hsm import Tree, layers
from tf_hsm.runtime import kept_rows, row_parts


@pytest.mark.parametrize(
    "name, own, options",
    [
        ("balanced", True, {}),
        ("pinned", False, {}),
        ("pinned", True, {}),
        ("ragged", False, {"use_bias": False}),
        ("ragged", True, {"dtype": "bfloat16"}),
    ],
)
def test_loss_hardly_changes(name, own, options):
    tree = TREES[name]()
    model = make_model(tree, own, **options)
    head = model.layers[-1]
    first = fit(model, epochs=2)[-1]
    before, new = held_loss(model), clustered(tree)
    assert head.regroup(new, hidden(model), model=model) is None
    assert head.tree is new and new != tree
    after = held_loss(model)
    assert after < 1.02 * before
    # Rows that stay as they are would not do.
    head._set_tree(tree)
    model.compile(model.optimizer, head.loss)
    assert held_loss(model) > 1.2 * before
    head._set_tree(new)
    model.compile(model.optimizer, head.loss)
    assert fit(model, epochs=2)[-1] < first


def test_without_inputs():
    """The tangent is not as good as the fit, but better than nothing."""
    model = make_model()
    head = model.layers[-1]
    fit(model)
    before = held_loss(model)
    head.regroup(clustered(head.tree), model=model)
    assert held_loss(model) < 1.1 * before


def swapped(tree, a, b):
    """The tree with two classes at each other's leaf."""
    class_rows = tree.class_rows.copy()
    class_rows[[a, b]] = class_rows[[b, a]]
    return Tree(tree.group_offsets, tree.group_parents, class_rows)


@pytest.mark.parametrize(
    "own, make",
    [
        (True, lambda: keras.optimizers.SGD(0.1)),
        (False, lambda: tf_hsm.optimizers.RowwiseAdagrad(0.1)),
        (False, lambda: keras.optimizers.Adam(0.02)),
        (False, lambda: keras.optimizers.SGD(0.5, momentum=0.9)),
        (
            False,
            lambda: tf_hsm.optimizers.LossScaleOptimizer(
                tf_hsm.optimizers.LazyAdam(0.02)
            ),
        ),
    ],
)
def test_kept_groups(own, make):
    """Groups of the same classes keep rows and slots; leaves their slots."""
    tree = TREES["balanced"]()
    model = make_model(tree, own, make())
    fit(model)
    head, optimizer = model.layers[-1], model.optimizer
    trainer = head.optimizer or getattr(optimizer, "inner_optimizer", optimizer)
    rows = head.row_variables()
    slots = [v for v in trainer.variables if v.shape[:1] == (tree.num_rows,)]
    others = [
        v
        for v in [*model.variables, *optimizer.variables]
        if v.shape[:1] != (tree.num_rows,)
    ]
    variables = [*rows, *slots, *others]
    before = [v.numpy() for v in variables]
    # Two classes of two groups that have another grandparent.
    new = swapped(tree, 0, NUM_CLASSES - 1)
    head.regroup(new, hidden(model), model=model)
    after = [v.numpy() for v in variables]
    paths = [tree.path(0), tree.path(NUM_CLASSES - 1)]
    touched = np.isin(tree.row_groups, tree.row_groups[np.concatenate(paths)])
    assert 0 < touched.sum() < tree.num_rows
    assert slots
    for i, (one, other) in enumerate(zip(before, after, strict=True)):
        if i < len(rows):
            np.testing.assert_array_equal(one[~touched], other[~touched])
            assert (one[touched] != other[touched]).any()
        elif i < len(rows) + len(slots):
            source = np.arange(tree.num_rows)
            source[new.class_rows] = tree.class_rows
            np.testing.assert_array_equal(one[source], other)
            assert one.any()
        else:
            np.testing.assert_array_equal(one, other)
    assert np.isfinite(fit(model)).all()


def test_groups_at_another_place():
    """A group whose classes stay together takes its rows along, to the bit."""
    tree = Tree.from_nested([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    new = Tree.from_nested([[5, 4, 3], [0, 1, 2], [6, 7, 8]])
    head = layers.HierarchicalSoftmax(tree, bias_initializer="random_normal")
    head.build([None, 4])
    inputs = np.random.default_rng(0).normal(size=[9, 4]).astype("f4")
    want = head.log_probs(inputs).numpy()
    rows = head.kernel.numpy(), head.bias.numpy()
    head.regroup(new)
    np.testing.assert_allclose(head.log_probs(inputs), want, atol=1e-6)
    source = new.map_rows(tree)
    for old, variable in zip(rows, [head.kernel, head.bias], strict=True):
        np.testing.assert_array_equal(variable, old[source])
    head.regroup(new, inputs)
    np.testing.assert_array_equal(head.kernel, rows[0][source])


def test_loop_of_ones_own():
    """`optimizer=` has its slots moved; a new trace has the new tree."""
    model = make_model()
    head, optimizer = model.layers[-1], model.optimizer
    fit(model)
    moment = optimizer.slots(head.kernel)[1]
    before, old = moment.numpy(), head.tree
    new = clustered(old)
    head.regroup(new, hidden(model), optimizer=optimizer)
    leaves = [tree.class_rows for tree in (old, new)]
    np.testing.assert_array_equal(moment.numpy()[leaves[1]], before[leaves[0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(head(hidden(model), labels=make_data(2, 200)[1]))
    assert np.isfinite(loss) and tape.gradient(loss, head.kernel) is not None


REFUSED = pytest.raises(ValueError, match="of a head with another tree")


@pytest.mark.parametrize("own", [True, False])
def test_saved(own, tmp_path):
    """A model goes on from a file as it does without; weights know the tree."""
    model = make_model(own=own)
    head, before = model.layers[-1], tmp_path / "before.weights.h5"
    model.save_weights(before)
    checkpoint = tf.train.Checkpoint(model=model)
    written = checkpoint.write(str(tmp_path / "before"))
    new = clustered(head.tree)
    fit(model)
    head.regroup(new, hidden(model), model=model)
    fit(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].tree == new
    assert fit(loaded, epochs=2) == fit(model, epochs=2)
    with REFUSED:
        model.load_weights(before)
    with REFUSED:
        checkpoint.restore(written)
    after = tmp_path / "after.weights.h5"
    model.save_weights(after)
    written = checkpoint.write(str(tmp_path / "after"))
    other, old = make_model(new, own), make_model(own=own)
    other.load_weights(after)
    with REFUSED:
        old.load_weights(after)
    tf.train.Checkpoint(model=other).restore(written)
    with REFUSED:
        tf.train.Checkpoint(model=old).restore(written)


DEVICES = ["CPU:0"] * 3


def leaf_slots(model):
    """The slots of the leaves of a head on devices: a row for each class."""
    head = model.layers[-1]
    found = []
    for parts in row_parts.wholes(head.row_variables()):
        slots = kept_rows.slots_of(head.optimizer or model.optimizer, parts)
        assert slots
        rows = head.tree.class_rows // (2 if head.tree.pinned else 1)
        found += [row_parts.read_rows(s, rows, parts) for s in slots]
    return found


@pytest.mark.parametrize(
    "name, own, optimizer",
    [
        ("ragged", False, None),
        ("pinned", True, None),
        ("ragged", False, keras.optimizers.SGD(0.5, momentum=0.9)),
    ],
)
def test_devices(name, own, optimizer, tmp_path):
    """A head on devices moves as on one, to the bit, and saves its tree."""
    tree = TREES[name]()
    plan = tf_hsm.distribute.plan(tree, DEVICES, counts=range(1, 61))
    assert sum(shard.num_units > 0 for shard in plan.shards) > 1

    def make(tree, **options):
        one = optimizer and type(optimizer).from_config(optimizer.get_config())
        return make_model(tree, own, one, **options)

    cut, whole = make(tree, plan=plan), make(tree)
    fit(cut)
    whole.build([None, 1])
    cut.save_weights(tmp_path / "cut.weights.h5")
    whole.load_weights(tmp_path / "cut.weights.h5")
    new, inputs = clustered(tree), hidden(cut)
    slots = leaf_slots(cut)
    for model in (cut, whole):
        head = model.layers[-1]
        before = held_loss(model)
        head.regroup(new, inputs, model=model)
        assert held_loss(model) < 1.02 * before
    head = cut.layers[-1]
    assert head.tree is head.plan.tree is new
    for before, after in zip(slots, leaf_slots(cut), strict=True):
        assert tree.pinned or (before == after).all()
        assert before.any()
    assert head.plan.layout.class_places.tolist() != (
        plan.layout.class_places.tolist()
    )
    cut.save(tmp_path / "cut.keras")
    cut.save_weights(tmp_path / "cut.weights.h5")
    one_device = make(new)
    one_device.load_weights(tmp_path / "cut.weights.h5")
    pairs = zip(one_device.weights, whole.weights, strict=True)
    for got, want in pairs:
        np.testing.assert_array_equal(got, want)
    loaded = keras.models.load_model(tmp_path / "cut.keras")
    assert loaded.layers[-1].plan.tree == new
    assert fit(loaded) == pytest.approx(fit(cut), rel=1e-6)


def test_smoothing_prior_follows():
    """Label smoothing goes towards the prior of the new groups."""
    prior = 1.0 + np.arange(NUM_CLASSES)
    model = make_model(label_smoothing=0.1, smoothing_prior=prior)
    head = model.layers[-1]
    fit(model)
    new = clustered(head.tree)
    head.regroup(new, hidden(model), model=model)
    other = layers.HierarchicalSoftmax(
        new, label_smoothing=0.1, smoothing_prior=prior
    )
    inputs, labels = hidden(model), make_data(2, 200)[1]
    other(inputs)
    other.set_weights(head.get_weights())
    assert_same(head(inputs, labels), other(inputs, labels))


def test_optimizer_of_the_rest():
    """It may have any state where the layer has an optimizer of its own."""
    model = make_model(own=True, optimizer=keras.optimizers.Adafactor(0.1))
    fit(model)
    head = model.layers[-1]
    new = clustered(head.tree)
    head.regroup(new, hidden(model), model=model)
    assert head.tree == new


def test_refuses_averages_of_weights():
    optimizer = keras.optimizers.SGD(0.1, use_ema=True)
    model = make_model(optimizer=optimizer)
    fit(model)
    head = model.layers[-1]
    kernel = head.kernel.numpy()
    with pytest.raises(ValueError, match="use_ema"):
        head.regroup(clustered(head.tree), hidden(model), model=model)
    np.testing.assert_array_equal(head.kernel, kernel)
