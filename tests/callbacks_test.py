"""Classes that are regrouped within `fit`."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.clustered_classes import (
    NUM_CLASSES,
    NUM_CLUSTERS,
    TREES,
    WIDTH,
    adam,
    fit,
    held_loss,
    hidden,
    make_data,
    make_model,
)
from tests.support.training import assert_near, assert_same
from tf_hsm import layers
from tf_hsm.callbacks import FollowLearningRate, RegroupClasses


def centroids(model, x, y):
    """The vectors of the classes, example by example."""
    inputs = model(x).numpy()
    return np.stack(
        [
            (inputs[y == c].sum(0) - np.sum(y == c) * inputs.mean(0))
            / (np.sum(y == c) + 1)
            for c in range(NUM_CLASSES)
        ]
    )


@pytest.mark.parametrize(
    "kind, own, options",
    [
        ("arrays", False, {}),
        ("dataset", True, {}),
        ("batches", False, {}),
        ("arrays", True, {"devices": ["CPU:0"] * 2}),
    ],
)
def test_regroups(kind, own, options, capsys):
    """By the vectors of all examples; `fit` goes on with the new tree."""
    x, y = make_data()
    data = {
        "arrays": (x, y),
        "dataset": tf.data.Dataset.from_tensor_slices((x, y)).batch(300),
        "batches": [(x[:150], y[:150]), (x[150:], y[150:])],
    }[kind]
    # One epoch of 20 steps ends in the state of step 20 of three epochs.
    model = make_model(own=own, **options)
    first = fit(model)
    old = model.layers[-1].tree
    want = old.regroup(centroids(model, x, y))
    loss = held_loss(model)
    model = make_model(own=own, **options)
    losses = fit(model, epochs=3, callbacks=[RegroupClasses(20, data)])
    assert model.layers[-1].tree == want != old
    assert losses[2] < losses[0] == first[0]
    assert np.isfinite(held_loss(model))
    out = capsys.readouterr().out
    moved = np.count_nonzero(want.class_rows != old.class_rows)
    assert f"step 20: moved {moved} of {NUM_CLASSES} classes" in out
    assert "by 2,000 labels" in out
    shown = re.search(r"(\S+) before, (\S+) after", out).groups()
    before, after = np.log(np.array(shown, float))
    assert abs(before - loss) < 0.3 and after < 1.02 * before


@pytest.mark.parametrize("own", [True, False])
def test_resumed(own, tmp_path):
    """A run that was saved goes on to the same bits, whenever it was saved."""
    data = make_data(examples=400)

    def callbacks():
        return [RegroupClasses([5, 10], data, verbose=False)]

    def run(model, epochs, **options):
        model.run_eagerly = True
        return fit(model, data, epochs, callbacks=callbacks(), **options)

    whole = make_model(own=own)
    losses = run(whole, 4)
    for epochs in (1, 2, 3):
        model = make_model(own=own)
        run(model, epochs)
        model.save(tmp_path / "model.keras")
        model = keras.models.load_model(tmp_path / "model.keras")
        found = run(model, 4, initial_epoch=epochs)
        assert found == losses[epochs:]
        assert_same(model.variables, whole.variables)
        assert model.layers[-1].tree == whole.layers[-1].tree


@pytest.mark.parametrize("own", [True, False])
def test_best_weights_of_another_tree(own):
    """Weights that Keras restores get back the tree that they were made for."""
    data = make_data(examples=400)
    model = make_model(own=own)
    head, old = model.layers[-1], model.layers[-1].tree
    # The first epoch is the best one.
    best = keras.callbacks.EarlyStopping(
        "loss", mode="max", patience=9, restore_best_weights=True
    )
    losses = []

    class Evaluate(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            losses.append(held_loss(model))

    regroup = RegroupClasses([5, 10], data, verbose=False)
    # Its epochs have four steps.
    fit(model, data, 3, callbacks=[Evaluate(), regroup, best])
    assert head.tree == old and held_loss(model) == losses[0] != losses[1]
    # Weights of the present tree are put in as they are.
    fit(model, data, 1, callbacks=[RegroupClasses(1000, data)])
    model.set_weights([0 * w for w in model.get_weights()])
    assert head.tree == old and not head.kernel.numpy().any()


def test_steps_that_are_done():
    """Steps before this fit are skipped; several at once are one execution."""
    model = make_model()
    fit(model)
    old = model.layers[-1].tree
    fit(model, callbacks=[RegroupClasses([10, 20], make_data())])
    assert model.layers[-1].tree == old
    model.compile(adam(), model.layers[-1].loss, steps_per_execution=8)
    fit(model, callbacks=[RegroupClasses(11, make_data(), verbose=False)])
    assert model.layers[-1].tree != old


def test_vectors_that_are_known():
    x, y = make_data()
    vectors = np.zeros([NUM_CLASSES, NUM_CLUSTERS])
    np.add.at(vectors, (y, x[:, 0]), 1)
    model = make_model()
    model.run_eagerly = True
    want = model.layers[-1].tree.regroup(vectors)
    callback = RegroupClasses(3, (x, y), vectors=vectors, probes=100)
    fit(model, callbacks=[callback])
    assert model.layers[-1].tree == want


@pytest.mark.parametrize("examples", [10_000, 1_000])
def test_what_does_not_count(examples, capsys):
    """Masked inputs, ignored labels and examples of weight 0."""
    x, y = (a.reshape(-1, 4) for a in make_data())
    x, weights = x + 1, np.ones(y.shape, "f4")
    x[::5, 2:], y[::7, 0], weights[::3, 1] = 0, -1, 0
    x[3::5, 3], y[1::4, 1] = 0, 99
    head = layers.HierarchicalSoftmax(TREES["ragged"](), ignore_class=99)
    table = keras.layers.Embedding(NUM_CLUSTERS + 1, WIDTH, mask_zero=True)
    model = keras.Sequential([keras.Input([4], dtype="int32"), table, head])
    model.compile(adam(), head.loss, run_eagerly=True)
    callback = RegroupClasses(2, (x, y, weights), examples=examples)
    model.fit(x, np.maximum(y, 0), 100, verbose=0, callbacks=[callback])
    seen = np.count_nonzero((x > 0) & (y >= 0) & (y != 99) & (weights > 0))
    assert f"by {min(seen, examples):,} labels" in capsys.readouterr().out


def endpoint(own):
    tokens = keras.Input([1], dtype="int32", name="tokens")
    labels = keras.Input([], dtype="int64", name="labels")
    hidden = keras.layers.Embedding(NUM_CLUSTERS, WIDTH)(tokens)
    head = layers.HierarchicalSoftmax(TREES["ragged"](), optimizer=own)
    losses = head(keras.layers.Flatten()(hidden), labels)
    x, y = make_data()
    return keras.Model([tokens, labels], losses), head, ([x, y], y)


def embedding_softmax(own):
    x, y = make_data()
    head = layers.EmbeddingSoftmax(
        TREES["balanced"](),
        num_embeddings=NUM_CLUSTERS,
        width=WIDTH,
        optimizer=own,
    )
    # A bag of an id twice for an optimizer of its own, else one id.
    x = x[:, 0] if own is None else np.append(x, x, 1)
    inputs = keras.Input(x.shape[1:], dtype="int64")
    return keras.Model(inputs, head(inputs)), head, (x, y)


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("make", [endpoint, embedding_softmax])
def test_other_models(make, is_own):
    model, head, data = make(adam() if is_own else None)
    model.compile(adam(), None if make is endpoint else head.loss)
    old = head.tree
    callback = RegroupClasses(20, data, verbose=False)
    losses = fit(model, data, epochs=3, callbacks=[callback])
    assert head.tree != old and losses[2] < losses[0]


class Subclassed(keras.Model):
    """A model whose layers are not known beforehand."""

    def __init__(self):
        super().__init__()
        self.table = keras.layers.Embedding(NUM_CLUSTERS, WIDTH)
        self.head = layers.HierarchicalSoftmax(TREES["ragged"]())

    def call(self, x):
        return self.head(self.table(x)[:, 0])


def test_subclassed_model():
    model = Subclassed()
    model.compile(adam(), model.head.loss)
    x, y = make_data()
    with pytest.raises(ValueError, match="give body="):
        fit(model, callbacks=[RegroupClasses(2, (x, y))])
    old = model.head.tree

    def body(x):
        return model.table(x)[:, 0]

    fit(model, callbacks=[RegroupClasses(22, (x, y), body=body)])
    assert model.head.tree != old


def test_head_of_several():
    tokens = keras.Input([1], dtype="int32")
    inputs = keras.layers.Flatten()(keras.layers.Embedding(12, WIDTH)(tokens))
    heads = [
        layers.HierarchicalSoftmax(TREES["ragged"](), name=name)
        for name in ("first", "second")
    ]
    # A head that has no tree of its own.
    heads.append(
        layers.AdaptiveSoftmax(NUM_CLASSES, cutoffs=[20], name="third")
    )
    model = keras.Model(tokens, [head(inputs) for head in heads])
    model.compile(adam(), [head.loss for head in heads], run_eagerly=True)
    x, y = make_data()
    with pytest.raises(ValueError, match="its heads are first, second"):
        fit(model, (x, [y] * 3), callbacks=[RegroupClasses(2, (x, y))])
    trees = [head.tree for head in heads[:2]]
    callback = RegroupClasses(5, (x, y), head=heads[1], verbose=False)
    fit(model, (x, [y] * 3), callbacks=[callback])
    assert heads[0].tree is trees[0] and heads[1].tree != trees[1]
    model.set_weights(model.get_weights())


@pytest.mark.parametrize(
    "make, options, message",
    [
        (layers.LabelTree, {}, "regroup is not possible for LabelTree"),
        (lambda _: keras.layers.Dense(3), {}, "must have one head"),
        (
            layers.HierarchicalSoftmax,
            {"several_labels": True},
            "several_labels or node_labels",
        ),
    ],
)
def test_refuses_models(make, options, message):
    head = make(TREES["ragged"](), **options)
    callback = RegroupClasses(2, make_data())
    callback.set_model(keras.Sequential([keras.Input([4]), head]))
    with pytest.raises(ValueError, match=message):
        callback.on_train_begin()


def test_refuses_replicas():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = make_model()
    callback = RegroupClasses(2, make_data())
    with pytest.raises(ValueError, match="on several replicas"):
        fit(model, callbacks=[callback])
    head = model.layers[-1]
    with pytest.raises(ValueError, match="on several replicas"):
        head.regroup(head.tree, hidden(model))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"at": 0}, "at is 0; it must be at least 1"),
        ({"at": []}, "at is empty"),
        ({"at": 1.5}, "at must be an integer"),
        ({"data": iter([])}, "data is an iterator"),
        ({"data": [*make_data()]}, "data is a list of arrays"),
        ({"examples": 0}, "examples is 0"),
        ({"probes": -1}, "probes is -1"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_refuses_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        RegroupClasses(**{"at": 2, "data": make_data(), **arguments})


def test_refuses_wrong_data():
    x, y = make_data()
    model = make_model()
    model.run_eagerly = True
    with pytest.raises(ValueError, match=r"label 60, but hier.* 60 classes"):
        fit(model, callbacks=[RegroupClasses(2, (x, np.full_like(y, 60)))])
    with pytest.raises(ValueError, match="fewer than 2 labels"):
        fit(model, callbacks=[RegroupClasses(5, (x, np.full_like(y, -1)))])


@pytest.mark.parametrize("eager", [False, True])
def test_rates_that_follow(eager, tmp_path):
    """Each step in place has the model's rate times a factor; after loading."""
    x, y = (a[:40] for a in make_data())
    scheduler = keras.callbacks.LearningRateScheduler(
        lambda epoch, _: 0.1 / (1 + epoch)
    )

    def trained(callbacks, rates=(None, None)):
        """A model after an epoch for each rate of the head's optimizer."""
        model = make_model(own=True)
        model.compile("sgd", model.layers[-1].loss, run_eagerly=eager)
        for epoch, own in enumerate(rates):
            if own is not None:
                model.layers[-1].optimizer.learning_rate = own
            options = {"shuffle": False, "initial_epoch": epoch, "verbose": 0}
            every = [scheduler, *callbacks]
            model.fit(x, y, 20, epoch + 1, callbacks=every, **options)
        return model

    model = trained([FollowLearningRate(3.0)])
    wanted = trained([], rates=(0.3, 0.15))
    assert_near(model.get_weights(), wanted.get_weights(), 1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.fit(x, y, verbose=0, callbacks=[FollowLearningRate(2.0)])
    np.testing.assert_allclose(loaded.layers[-1].optimizer.learning_rate, 0.1)


def test_rates_that_cannot_follow():
    x, y = np.zeros([4, WIDTH]), np.arange(4)
    with pytest.raises(ValueError, match=r"factor is 0.*must be above 0"):
        FollowLearningRate(0.0)
    variable = keras.Variable(0.1)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    for optimizer, message in (
        (None, "a head with an optimizer of its own"),
        (tf_hsm.optimizers.SGD(schedule), "has a schedule"),
        (tf_hsm.optimizers.SGD(lambda: variable), "has a schedule"),
    ):
        head = layers.HierarchicalSoftmax(
            TREES["balanced"](), optimizer=optimizer
        )
        model = keras.Sequential([keras.Input([WIDTH]), head])
        model.compile("sgd", head.loss)
        with pytest.raises(ValueError, match=message):
            model.fit(x, y, verbose=0, callbacks=[FollowLearningRate()])
