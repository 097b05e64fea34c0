"""Files and checkpoints of heads on devices or replicas, and of others."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import heads_by_name
from tests.support import spread_heads as heads
from tests.support.devices import CPUS
from tests.support.training import assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import distribute
from tf_hsm.layers import AdaptiveSoftmax, HierarchicalSoftmax

N, WIDTH = heads.N, heads.WIDTH
X = np.random.default_rng(0).normal(size=(8, WIDTH))
LABELS = np.random.default_rng(1).integers(N, size=8)


def make_model(name, place, rule="lazy_adam", own=True, seed=1, **options):
    """A model of a head, which trains its rows itself or leaves them to it.

    The model trains the projections of tails.
    """
    head = heads.make_head(name, rule if own else None, place, seed, **options)
    return model_of(head, place, "adagrad" if own else rule)


def model_of(head, place, rule="adagrad"):
    """A compiled model of a head."""
    with heads.scope_of(place):
        model = keras.Sequential([keras.Input([WIDTH], dtype="float64"), head])
        model.compile(OPTIMIZERS[rule](), loss=head.loss)
        model.optimizer.build(model.trainable_variables)
    # A few steps eagerly take less time than their graph.
    model.run_eagerly = not heads.has_strategy(place)
    return model


def train(model):
    model.fit(X, LABELS, batch_size=4, epochs=2, verbose=0)
    return model


@functools.cache
def trained(name, place, own=True):
    """A model to be read alone; a place of devices is a tuple."""
    return train(make_model(name, place, own=own, seed=0))


def state(model):
    """Weights and slots of all rows, as one device has them, and the steps."""
    (head,) = model.layers
    trains = head.optimizer is None or heads.projections_of(head)
    return heads.state(head, *([model.optimizer] if trains else []))


def assert_same_state(model, wanted, place):
    """All copies have the same bits."""
    assert_same(state(model), wanted)
    if heads.has_strategy(place):
        heads.assert_copies_agree(model.layers[0])


def checkpoint_of(model):
    return distribute.checkpoint(model.layers[0], optimizer=model.optimizer)


# Lists of devices by their number. Tails are on other devices than the first.
ON, TAILS_ON = {i: CPUS[:i] for i in (1, 2, 3, 8)}, [CPUS[1:3], CPUS[2:3]]
NO_BIAS = {"use_bias": False}


@pytest.mark.parametrize(
    "name, rule, own, options, places",
    [
        ("huffman", "lazy_adam", True, {}, [ON[2], ON[3], ON[1], ON[8], 2, 8]),
        ("huffman", "lazy_adam", True, {}, [2, 1, ON[2]]),
        # Slots in the optimizer of the model, others, and none.
        ("huffman", "lazy_adam", False, {}, [ON[2], ON[1], ON[3]]),
        ("huffman", "rowwise_adagrad", True, NO_BIAS, [ON[2], ON[1], ON[3]]),
        ("huffman", "sgd", True, {}, [ON[2], ON[3]]),
        ("pinned", "lazy_adam", True, {}, [ON[2], ON[3], ON[1]]),
        ("pinned", "lazy_adam", True, NO_BIAS, [ON[2], ON[1], ON[3]]),
        ("three", "lazy_adam", True, {}, [*TAILS_ON, None, CPUS[1:3], 2]),
        ("three", "lazy_adam", True, {}, [2, None, 8, 2]),
        ("three", "adagrad", False, {}, [*TAILS_ON, None, ON[8]]),
    ],
)
def test_checkpoints(name, rule, own, options, places, tmp_path):
    """The same bits from one place to others, one after the other."""
    first, *others = places
    model = train(make_model(name, first, rule, own, 0, **options))
    wanted = state(model)
    for place in others:
        path = checkpoint_of(model).save(tmp_path / "saved")
        model = make_model(name, place, rule, own, **options)
        with pytest.raises(AssertionError):
            assert_same(state(model), wanted)
        checkpoint_of(model).restore(path).assert_consumed()
        assert_same_state(model, wanted, place)


MANY, FEW = tuple(CPUS[:3]), tuple(CPUS[:2])


@pytest.mark.parametrize(
    "name, own, before, after",
    [
        ("huffman", True, FEW, FEW),
        ("huffman", False, FEW, FEW),
        ("pinned", True, FEW, FEW),
        ("three", True, FEW, FEW),
        ("three", False, FEW, FEW),
        ("huffman", True, 2, None),
        ("huffman", True, 2, 4),
        ("three", True, 2, None),
        ("three", True, 2, 4),
    ],
)
def test_files_of_models(name, own, before, after, tmp_path):
    """They are on as many devices, or take the replicas that there are."""
    model = trained(name, before, own)
    model.save(tmp_path / "model.keras")
    with heads.scope_of(after):
        loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_state(loaded, state(model), after)
    (head,), (saved,) = loaded.layers, model.layers
    if name == "three":
        assert head.devices == saved.devices
        on = {kernel.value.device for kernel in head.tail_kernels}
        assert len(on) == (2 if after is FEW else min(3, after or 1))
    elif after is FEW:
        assert head.plan == saved.plan
    else:
        assert len(head.plan.shards) == (after or 1)


@pytest.mark.parametrize(
    "name, own, before, after",
    [
        ("huffman", False, FEW, MANY),
        ("huffman", True, None, MANY),
        ("huffman", True, MANY, None),
        ("huffman", True, tuple(CPUS), FEW),
        ("huffman", True, None, 4),
        ("pinned", True, FEW, MANY),
        ("pinned", True, FEW, None),
        ("three", True, FEW, None),
        ("three", False, FEW, None),
        ("huffman", True, 2, None),
        ("huffman", True, 2, 4),
        ("three", True, 2, None),
        ("three", True, 2, 4),
    ],
)
def test_weights_of_other_places(name, own, before, after, tmp_path):
    """Any place loads a file of any other, with the head's own slots.

    A tree's weights are copied without a file, too.
    """
    model = trained(name, before, own)
    model.save_weights(tmp_path / "model.weights.h5")
    other = make_model(name, after, own=own)
    other.load_weights(tmp_path / "model.weights.h5")
    (head,), (saved,) = other.layers, model.layers
    assert_same(heads.state(head), heads.state(saved))
    if heads.has_strategy(after):
        heads.assert_copies_agree(head)
    if own and name != "three":
        copy = heads.make_head(name, "lazy_adam", after, 2)
        distribute.copy_weights(saved, copy)
        assert_same(heads.state(copy), heads.state(saved))
        if heads.has_strategy(after):
            heads.assert_copies_agree(copy)


@pytest.mark.parametrize(
    "name, place", [("huffman", CPUS[:3]), ("three", CPUS[1:4]), ("three", 2)]
)
def test_export(name, place, tmp_path):
    """A head on devices is served from one, and trains on as before."""
    model = train(make_model(name, place))
    (head,) = model.layers
    tf_hsm.serving.export(model, str(tmp_path / "served"), k=4)
    served = tf.saved_model.load(str(tmp_path / "served"))
    signature = served.signatures["serving_default"]
    found, best = signature(inputs=tf.constant(X)), head.top_k(X, 4)
    np.testing.assert_array_equal(found["classes"], best.classes)
    np.testing.assert_allclose(found["log_probs"], best.log_probs, rtol=1e-5)
    on = {op.device for op in signature.graph.get_operations()}
    assert not any(name in device for name in CPUS[1:] for device in on)
    # The matrix is there once, and no parts of it.
    shapes = tf.train.list_variables(
        str(tmp_path / "served/variables/variables")
    )
    shapes = [shape for _, shape in shapes if shape[1:] == [WIDTH]]
    rows = heads.tree_named(name).num_rows if name == "huffman" else 10 + 3
    assert shapes == [[rows, WIDTH]]
    train(model)


def planned(tree, **options):
    """A head of a tree on two devices, not built."""
    plan = distribute.plan(tree, FEW, **{"top": 8, **options})
    return HierarchicalSoftmax(tree, plan=plan, optimizer="lazy_adam")


def clusters(cutoffs):
    """A head of clusters on one device, not built."""
    return AdaptiveSoftmax(N, cutoffs=cutoffs, div_value=2)


@pytest.mark.parametrize(
    "make, other, message",
    [
        (
            lambda: planned(heads.tree_named("pinned")),
            lambda: planned(heads.tree_named("pinned").expand()),
            "another tree",
        ),
        (
            lambda: planned(heads.tree_named("huffman")),
            lambda: planned(
                heads.tree_named("huffman"), counts=heads.COUNTS**3
            ),
            "a plan that cuts it elsewhere",
        ),
        (
            lambda: clusters([10, 30]),
            lambda: clusters([30, 50]),
            "another tree",
        ),
    ],
    ids=["expanded tree", "cut", "clusters"],
)
def test_checkpoints_of_other_heads(make, other, message, tmp_path):
    saved, restored = make(), other()
    for head in (saved, restored):
        head.build([None, WIDTH])
    path = distribute.checkpoint(saved).save(tmp_path / "saved")
    with pytest.raises(ValueError, match=message):
        distribute.checkpoint(restored).restore(path)
    if saved.get_config().get("tree") != restored.get_config().get("tree"):
        with pytest.raises(ValueError, match="must have the same tree"):
            distribute.copy_weights(saved, restored)


def test_checkpoint_of_a_regrouped_head(tmp_path):
    """It belongs to the tree that the head has when it is saved."""

    def make(tree, seed=1):
        plan = distribute.plan(tree, FEW, counts=np.ones(N), top=8)
        head = HierarchicalSoftmax(tree, plan=plan, optimizer="adagrad")
        head.build([None, WIDTH])
        keras.utils.set_random_seed(seed)
        head.kernel.assign(np.random.normal(size=head.kernel.shape))
        return head

    old = heads.tree_named("huffman")
    head = make(old, seed=0)
    saved = distribute.checkpoint(head)
    before = saved.save(tmp_path / "before")
    vectors = np.random.default_rng(0).normal(size=[N, 2])
    new = old.regroup(vectors, verbose=False)
    assert new != old
    head.regroup(new)
    after = saved.save(tmp_path / "after")
    for path, right, wrong in ((before, old, new), (after, new, old)):
        restored = make(right)
        distribute.checkpoint(restored).restore(path).assert_consumed()
        with pytest.raises(ValueError, match="is of a head with another tree"):
            distribute.checkpoint(make(wrong)).restore(path)
    np.testing.assert_array_equal(restored.kernel, head.kernel)


def test_checkpoints_that_cannot_be(tmp_path):
    step = tf.train.Checkpoint(step=tf.Variable(0))
    strategy = tf.distribute.get_strategy()
    for number in (0, -1, 1.5):
        with pytest.raises(ValueError, match="max_to_keep"):
            distribute.save(step, tmp_path / "a", strategy, max_to_keep=number)
    assert not [*tmp_path.iterdir()]
    model = trained("huffman", FEW, own=False)
    with pytest.raises(TypeError, match="must be one of tf_hsm"):
        distribute.checkpoint(
            model.layers[0], optimizer=keras.optimizers.Adam()
        )
    with pytest.raises(ValueError, match="no weights yet"):
        distribute.checkpoint(HierarchicalSoftmax(heads.tree_named("flat")))


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
