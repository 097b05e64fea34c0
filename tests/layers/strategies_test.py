"""Heads under tf.distribute: as on one replica with the same global batch."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import models, replicas
from tests.support.embedding_softmaxes import (
    make_inputs,
    make_labels,
    make_layer,
)
from tests.support.embedding_softmaxes import make_model as make_bags_model
from tests.support.in_place_models import arguments, make_adaptive, make_model
from tests.support.training import assert_near, assert_same
from tf_hsm.metrics import Perplexity, TopKAccuracy

STRATEGIES = {
    "one_device": lambda: tf.distribute.OneDeviceStrategy("CPU:1"),
    "mirrored": lambda: tf.distribute.MirroredStrategy(["CPU:0"]),
    "multi_worker": tf.distribute.MultiWorkerMirroredStrategy,
}


@functools.cache
def mirrored():
    """Two replicas; a second strategy of several would use the same keys."""
    return tf.distribute.MirroredStrategy(replicas.CPUS)


# In batches of 10, the last of which gives the replicas 3 and 0, or 5 and 2.
EXAMPLES = {"compile": 23, "endpoint": 27}


def ragged_data(form):
    """Also, one replica has no label that counts, another all of them."""
    tokens, labels = models.make_data(EXAMPLES[form])
    labels[:5] = labels[10:15, :3] = labels[21] = -1
    weights = np.random.default_rng(1).uniform(size=tokens.shape).astype("f4")
    return tokens, labels, weights


def fitted(
    strategy,
    form,
    optimizer,
    make_metrics=lambda head: (),
    make=models.make_head,
    eager=False,
):
    """A model after two epochs; its data, and the losses and metrics."""
    tokens, labels, weights = ragged_data(form)
    keras.utils.set_random_seed(0)

    def compiling(head):
        return {"metrics": None, "weighted_metrics": make_metrics(head)}

    if form == "endpoint":
        compiling = {"metrics": make_metrics(None)}
    with strategy.scope():
        model = make_model(
            form,
            own=False,
            weighted=True,
            compiling=compiling,
            optimizer=optimizer(),
            make=make,
            ignore_class=-1,
        )
    data = arguments(form, tokens, labels, weights)
    model.run_eagerly = eager
    history = model.fit(
        **data, epochs=2, shuffle=False, batch_size=10, verbose=0
    ).history
    return model, data, history


def results(strategy, form, asks=True):
    """What two epochs give: losses, metrics, weights, hidden vectors.

    `asks` says whether the model is evaluated and predicts then.
    """
    make = {
        "compile": lambda: tf_hsm.optimizers.LazyAdam(0.1),
        "endpoint": models.sgd,
    }

    def metrics(head):
        accuracies = [] if head is None else [TopKAccuracy(head, 3)]
        return [Perplexity(head), *accuracies]

    model, data, history = fitted(strategy, form, make[form], metrics)
    found = {"fit": history, "weights": model.get_weights()}
    if asks:
        options = {"batch_size": 10, "verbose": 0}
        found["evaluate"] = model.evaluate(**data, return_dict=True, **options)
        found["predict"] = model.predict(data["x"], **options)
    return found


@functools.cache
def results_without_a_strategy(form):
    return results(tf.distribute.get_strategy(), form)


@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_replicas_train_as_one(form):
    """Uneven and empty batches; labels ignored, masked, weighted unevenly."""
    one = results_without_a_strategy(form)
    several = results(mirrored(), form)
    accuracies = ["top_3_accuracy"] if form == "compile" else []
    assert list(one["fit"]) == ["loss", "perplexity", *accuracies]
    assert_near(one, several, 1e-4)


@pytest.mark.parametrize(
    "clip", [{"clipnorm": 0.1}, {"global_clipnorm": 0.1}, {"clipvalue": 0.01}]
)
def test_clipping_on_replicas(clip):
    """The sum of all gradients is clipped, of a layer and of rows."""

    def weights(strategy):
        optimizer = functools.partial(tf_hsm.optimizers.SGD, 1.0, **clip)
        return fitted(strategy, "compile", optimizer)[0].get_weights()

    one, two = map(weights, (tf.distribute.get_strategy(), mirrored()))
    assert_near(one, two, 1e-4)


def test_arrays_of_a_generator_stay():
    """Replicas on CPUs get slices that are parts of the user's own arrays."""
    rng = np.random.default_rng(0)
    data = [
        (
            rng.normal(size=(n, models.WIDTH)).astype("f4"),
            rng.integers(models.NUM_CLASSES, size=n),
            np.ones(n, "f4"),
        )
        for n in [12, 10, 6, 8] * 3
    ]
    before = [[array.copy() for array in batch] for batch in data]
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(data),
        output_signature=(
            tf.TensorSpec([None, models.WIDTH]),
            tf.TensorSpec([None], tf.int64),
            tf.TensorSpec([None]),
        ),
    )
    with mirrored().scope():
        head = models.make_head(dtype="float32")
        model = keras.Sequential([keras.Input([models.WIDTH]), head])
        model.compile(models.sgd(), head.loss)
    model.fit(dataset, epochs=3, verbose=0)
    assert_same(data, before)


@pytest.mark.parametrize(
    "name, form",
    [
        ("one_device", "compile"),
        ("mirrored", "endpoint"),
        ("multi_worker", "compile"),
    ],
)
def test_strategies_of_one_replica(name, form):
    """Not a bit differs, though Keras builds the model otherwise."""
    one = results_without_a_strategy(form)
    found = results(STRATEGIES[name](), form, asks=False)
    assert_same(found, {key: one[key] for key in found})


@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_replicas_draw_alike(form):
    """A sampled softmax has the same classes, and their counts agree.

    Replicas are in a graph in one form, and run eagerly in the other.
    """
    runs = []
    for strategy, eager in (
        (tf.distribute.get_strategy(), True),
        (mirrored(), form == "endpoint"),
    ):
        model, _, history = fitted(
            strategy, form, models.sgd, make=models.sampled_head, eager=eager
        )
        runs.append([history, model.get_weights()])
        assert model.get_weights()[-1] == 6
    assert_near(*runs, 1e-4)


def test_a_sequential_model_without_an_input():
    """Keras builds it on placeholders, from replicas of equal batches.

    A batch in which no label counts is then neither a step nor, in
    TensorFlow's exchange of no rows, a crash.
    """
    tokens, labels = models.make_data(10)
    with mirrored().scope():
        head = models.make_head(ignore_class=-1)
        model = keras.Sequential([*models.hidden_layers(), head])
        model.compile(models.sgd(), head.loss, metrics=[Perplexity(head)])
    losses = model.fit(tokens, labels, epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[0]
    before = model.get_weights()
    history = model.fit(tokens, np.full_like(labels, -1), verbose=0).history
    assert history["loss"] == [0]
    assert_same(model.get_weights(), before)


@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_losses_of_other_layers(form):
    """Each replica keeps its own while replicas exchange what they count.

    Replicas are in a graph in one form, and run eagerly in the other.
    """
    tokens, labels = models.make_data(10)
    x = tokens.astype("f4")

    def run(strategy, eager):
        keras.utils.set_random_seed(0)
        with strategy.scope():
            inputs = [keras.Input([5]), keras.Input([5], dtype="int64")]
            hidden = keras.layers.Dense(5 * models.WIDTH)(inputs[0])
            hidden = keras.layers.ActivityRegularization(l2=1.0)(hidden)
            hidden = keras.layers.Reshape([5, models.WIDTH])(hidden)
            head = models.make_head()
            if form == "compile":
                model = keras.Model(inputs[0], head(hidden))
                model.compile(models.sgd(), head.loss)
                data = x, labels
            else:
                model = keras.Model(inputs, head(hidden, inputs[1]))
                model.compile(models.sgd())
                data = [x, labels], None
        model.run_eagerly = eager
        losses = model.fit(*data, shuffle=False, verbose=0).history["loss"]
        return losses, model.get_weights()

    one = run(tf.distribute.get_strategy(), True)
    assert_near(run(mirrored(), form == "compile"), one, 1e-4)


def test_a_loop_by_hand():
    """The losses of replicas add up to the mean over the labels of all."""
    strategy = mirrored()
    x = tf.random.stateless_normal([2, 5, models.WIDTH], [0, 1])
    labels = np.array([[-1, 1, 2, 2, 3], [4, -1, -1, -1, -1]])
    with strategy.scope():
        head = models.make_head(ignore_class=-1)
        head.build(x.shape[1:])

    def step():
        context = tf.distribute.get_replica_context()
        i = context.replica_id_in_sync_group
        with tf.GradientTape() as tape:
            loss = head.loss(tf.gather(labels, i), head(x[i]))
        losses = head(x[i], tf.gather(labels, i))
        (added,) = head.losses
        gradients = tape.gradient(loss, head.trainable_weights)
        total = tf.reduce_sum(tf.convert_to_tensor(gradients[1]) ** 2)
        return loss, losses, added, total

    loss, losses, added, squares = map(
        strategy.experimental_local_results, strategy.run(step)
    )
    mean = np.sum(losses) / np.sum(labels >= 0)
    for i in range(2):
        assert_near([2 * loss[i], added[i]], [mean, mean], 1e-6)
        assert squares[i] > 0
    # Between the replicas, their first copy of the weights answers.
    with strategy.scope():
        classes = head.top_k(x, 1).classes[..., 0]
    assert_same(classes, head.predict_class(x))


@pytest.mark.parametrize("name", ["tree", "adaptive", "embeddings"])
def test_in_place_on_replicas(name):
    """Each would update weights of its own: refused, before anything moved."""
    data = {"x": make_inputs("padded", 10), "y": make_labels(10)}
    with mirrored().scope():
        if name == "embeddings":
            layer = make_layer(optimizer="sgd")
            model = make_bags_model(layer, "padded", optimizer=models.sgd())
        elif name == "tree":
            data = arguments("compile", *models.make_data(10))
            model = make_model("compile", "sgd", mask_zero=False)
        else:
            data = arguments("endpoint", *models.make_data(10))
            model = make_model(
                "endpoint", "sgd", mask_zero=False, make=make_adaptive
            )
    before = model.get_weights()
    with pytest.raises(ValueError, match="there are 2 replicas"):
        model.fit(**data, verbose=0)
    assert_same(model.get_weights(), before)


def test_a_table_of_embeddings_on_another_device():
    """Its op runs on the CPU, and so it is there, wherever the rest is."""
    data = {"x": make_inputs("padded", 10), "y": make_labels(10)}
    with tf.device("CPU:1"):
        layer = make_layer(optimizer="adagrad")
        model = make_bags_model(layer, "padded")
        model.fit(**data, verbose=0)
        rows = layer.row_variables()
        slots = map(layer.optimizer.slots, rows)
        variables = [*rows, *itertools.chain(*slots)]
    assert len(variables) == 6
    assert all(v.value.device.endswith("CPU:0") for v in variables)


def test_in_place_by_hand():
    """The function is refused on several replicas too."""
    x, labels = tf.ones([1, models.WIDTH]), tf.constant([1])
    tree = tf_hsm.Tree.two_level(models.NUM_CLASSES)
    with mirrored().scope():
        w = tf.Variable(tf.zeros([tree.num_rows, models.WIDTH]))
        optimizer = tf_hsm.optimizers.SGD(0.1)
        optimizer.build([w])

    def step():
        return tf_hsm.hierarchical_softmax_train_step(
            w, None, labels, x, tree, optimizer
        )

    with pytest.raises(ValueError, match="there are 2 replicas"):
        mirrored().run(step)
    assert not np.any(w.numpy())


@pytest.mark.parametrize(
    "make, form", [(models.make_head, "compile"), (make_adaptive, "endpoint")]
)
def test_in_place_on_one_replica(make, form):
    """It trains as it does without a strategy."""
    make = functools.partial(make, optimizer="adagrad")
    runs = [
        fitted(strategy, form, models.sgd, make=make, eager=form == "endpoint")
        for strategy in (tf.distribute.get_strategy(), STRATEGIES["mirrored"]())
    ]
    assert_same(*(model.get_weights() for model, *_ in runs))
    for model, *_ in runs:
        assert models.head_of(model).optimizer.iterations.numpy() == 6


@pytest.mark.parametrize(
    "name, eager", [("one_device", True), ("mirrored", False)]
)
def test_in_place_in_a_sequential_model_without_an_input(name, eager):
    """Its optimizer needs variables that are there."""
    tokens, labels = models.make_data(10)
    with STRATEGIES[name]().scope():
        head = models.make_head(optimizer="adagrad")
        model = keras.Sequential([*models.hidden_layers(), head])
        model.compile(models.sgd(), head.loss, run_eagerly=eager)
    losses = model.fit(tokens, labels, epochs=2, verbose=0).history["loss"]
    assert losses[1] < losses[0]
