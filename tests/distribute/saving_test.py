"""Files and checkpoints of heads on devices, and others that load them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import heads_by_name
from tests.support.devices import CPUS
from tests.support.models import (
    TREE,
    WIDTH,
    hidden_layers,
    hidden_model,
    make_data,
    sequential,
)
from tests.support.training import assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import distribute
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.runtime import row_parts

PLAN = distribute.plan(TREE, CPUS[:2], counts=np.ones(30), top=6)
PINNED = distribute.plan(
    tf_hsm.Tree.huffman(1 + np.arange(30), pinned=True), CPUS[:2], top=6
)


def make_model(count, rule="lazy_adam", own=True, plan=PLAN, **options):
    """A model whose head is on `count` devices, or without a plan."""
    optimizer = OPTIMIZERS[rule]()
    head = HierarchicalSoftmax(
        plan.tree,
        plan=count and plan.on(CPUS[:count]),
        optimizer=optimizer if own else None,
        name="head",
        **options,
    )
    model = sequential(*hidden_layers(mask_zero=False), head)
    # A few steps eagerly take less time than their graph.
    model.compile("sgd" if own else optimizer, loss=head.loss, run_eagerly=True)
    return model


def trained(model):
    tokens, labels = make_data()
    model.fit(tokens, labels, batch_size=8, verbose=0)
    return model


def optimizer_of(model):
    return model.layers[-1].optimizer or model.optimizer


def rows(model):
    """Weights and slots of the head, and the step, as those of one device."""
    head, optimizer, store = model.layers[-1], optimizer_of(model), {}
    variables = head.row_variables()
    slots = [s for v in variables for s in optimizer.slots(v)]
    row_parts.save([*variables, *slots, optimizer.iterations], store)
    return list(store.values())


def checkpoint_of(model):
    head = distribute.checkpoint(
        model.layers[-1], optimizer=optimizer_of(model)
    )
    return tf.train.Checkpoint(head=head)


@pytest.mark.parametrize(
    "rule, own, counts, options",
    [
        ("lazy_adam", True, (3, 1, 8, 2), {}),
        # Slots in the optimizer of the model, others, and none.
        ("lazy_adam", False, (1, 3), {}),
        ("rowwise_adagrad", True, (1, 3), {"use_bias": False}),
        ("sgd", True, (3,), {}),
        ("lazy_adam", True, (3, 1, 2), {"plan": PINNED}),
        ("lazy_adam", True, (1, 3), {"plan": PINNED, "use_bias": False}),
    ],
)
def test_other_numbers_of_devices(rule, own, counts, options, tmp_path):
    """The same bits from 2 devices to others, one after the other."""
    model = trained(make_model(2, rule, own, **options))
    wanted = rows(model)
    path = checkpoint_of(model).save(tmp_path / "first")
    for count in counts:
        model = trained(make_model(count, rule, own, **options))
        with pytest.raises(AssertionError):
            assert_same(rows(model), wanted)
        status = checkpoint_of(model).restore(path)
        status.assert_consumed()
        assert_same(rows(model), wanted)
        path = checkpoint_of(model).save(tmp_path / f"{count}")


@pytest.mark.parametrize(
    "own, plan", [(True, PLAN), (False, PLAN), (True, PINNED)]
)
def test_files_of_models(own, plan, tmp_path):
    """They are loaded as they were saved, on as many devices."""
    model = trained(make_model(2, own=own, plan=plan))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same(rows(loaded), rows(model))
    assert loaded.layers[-1].plan == model.layers[-1].plan


@pytest.mark.parametrize(
    "before, after, own, plan",
    [
        (2, 3, False, PLAN),
        (None, 3, True, PLAN),
        (3, None, True, PLAN),
        (2, 3, True, PINNED),
        (2, None, True, PINNED),
    ],
)
def test_files_of_weights(before, after, own, plan, tmp_path):
    """Any devices, or one, load what any others saved, slots too."""
    model = trained(make_model(before, own=own, plan=plan))
    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    other = trained(make_model(after, own=own, plan=plan))
    other.load_weights(path)
    tokens, labels = make_data(seed=5)
    np.testing.assert_allclose(
        other.evaluate(tokens, labels, verbose=0),
        model.evaluate(tokens, labels, verbose=0),
        rtol=1e-5,
    )
    if own:
        assert_same(rows(other), rows(model))


@pytest.mark.parametrize(
    "before, after, plan",
    [(None, 3, PLAN), (3, None, PLAN), (8, 2, PLAN), (None, 2, PINNED)],
)
def test_copies(before, after, plan):
    model = trained(make_model(before, plan=plan))
    other = make_model(after, plan=plan)
    distribute.copy_weights(model.layers[-1], other.layers[-1])
    assert_same(rows(other), rows(model))


def test_a_pinned_tree_is_not_the_expanded_one(tmp_path):
    heads = [
        HierarchicalSoftmax(
            tree, plan=distribute.plan(tree, CPUS[:2]), optimizer="lazy_adam"
        )
        for tree in (PINNED.tree, PINNED.tree.expand())
    ]
    pinned, expanded = heads
    for head in heads:
        head.build([None, WIDTH])
    path = distribute.checkpoint(pinned).save(tmp_path / "saved")
    with pytest.raises(ValueError, match="another tree"):
        distribute.checkpoint(expanded).restore(path)
    with pytest.raises(ValueError, match="must have the same tree"):
        distribute.copy_weights(pinned, expanded)


def test_export(tmp_path):
    """A head on devices is served from one, and trains on as before."""
    model = trained(make_model(3))
    tokens, _ = make_data(seed=5)
    hidden = hidden_model(model)(tokens)
    head = model.layers[-1]
    tf_hsm.serving.export(model, str(tmp_path / "served"), k=4)
    loaded = tf.saved_model.load(str(tmp_path / "served"))
    served = loaded.signatures["serving_default"](
        inputs=tf.constant(tokens, tf.int32)
    )
    best = head.top_k(hidden, 4)
    np.testing.assert_array_equal(served["classes"], best.classes)
    np.testing.assert_allclose(served["log_probs"], best.log_probs, rtol=1e-5)
    saved = tf.train.list_variables(
        str(tmp_path / "served/variables/variables")
    )
    shapes = [shape for _, shape in saved]
    assert shapes.count([TREE.num_rows, WIDTH]) == 1
    # The layers below have 30 and 6 rows; the parts are not saved again.
    assert sum(s[0] for s in shapes if s[1:] == [WIDTH]) == 36 + TREE.num_rows
    trained(model)


def test_another_cut_is_refused(tmp_path):
    model = trained(make_model(2))
    path = checkpoint_of(model).save(tmp_path / "saved")
    other = distribute.plan(
        TREE, CPUS[:2], counts=1 + np.arange(30) ** 3, top=6
    )
    assert other.layout.top.num_rows == PLAN.layout.top.num_rows
    head = HierarchicalSoftmax(TREE, plan=other, optimizer="lazy_adam")
    head.build([None, WIDTH])
    with pytest.raises(ValueError, match="a plan that cuts it elsewhere"):
        tf.train.Checkpoint(head=distribute.checkpoint(head)).restore(path)


def test_checkpoints_that_cannot_be():
    model = trained(make_model(2, own=False))
    with pytest.raises(TypeError, match="must be one of tf_hsm"):
        distribute.checkpoint(
            model.layers[-1], optimizer=keras.optimizers.Adam()
        )
    with pytest.raises(ValueError, match="no weights yet"):
        distribute.checkpoint(HierarchicalSoftmax(TREE))


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_checkpoints_of_every_head(name, tmp_path):
    """All weights of a layer, with the number of draws of a sampled softmax."""

    def make(epochs):
        head = heads_by_name.built(name)
        inputs = heads_by_name.inputs(name).numpy()
        x = keras.Input(inputs.shape[1:], dtype=inputs.dtype)
        model = keras.Model(x, head(x))
        optimizer = tf_hsm.optimizers.LazyAdam(0.1)
        model.compile(optimizer, head.loss, run_eagerly=True)
        model.fit(inputs, heads_by_name.labels(name), epochs=epochs, verbose=0)
        saved = distribute.checkpoint(head, optimizer=optimizer)
        return saved, [*head.weights, *optimizer.variables]

    saved, wanted = make(2)
    restored, found = make(1)
    restored.restore(saved.save(tmp_path / "saved")).assert_consumed()
    for one, other in zip(found, wanted, strict=True):
        # The rate is an argument.
        if "learning_rate" not in one.name:
            np.testing.assert_array_equal(one, other)


def test_checkpoint_of_a_regrouped_head(tmp_path):
    """It belongs to the tree that the head has when it is saved."""
    model = trained(make_model(2))
    saved, head = checkpoint_of(model), model.layers[-1]
    before = saved.save(tmp_path / "before")
    old, vectors = head.tree, np.random.default_rng(0).normal(size=[30, 2])
    head.regroup(old.regroup(vectors, verbose=False), model=model)
    assert head.tree != old
    after = saved.save(tmp_path / "after")
    plan = distribute.plan(head.tree, CPUS[:2], counts=np.ones(30), top=6)
    for path, of_path, of_other in (
        (before, PLAN, plan),
        (after, plan, PLAN),
    ):
        right, wrong = make_model(2, plan=of_path), make_model(2, plan=of_other)
        checkpoint_of(trained(right)).restore(path).assert_consumed()
        with pytest.raises(ValueError, match="is of a head with another tree"):
            checkpoint_of(trained(wrong)).restore(path)
    assert_same(rows(right), rows(model))
