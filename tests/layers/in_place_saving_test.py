"""A head with an optimizer of its own is saved and loaded, state included."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.in_place_models import (
    FORMS,
    arguments,
    assert_goes_on,
    everything,
    fit,
    make_adaptive,
    make_model,
    own_variables,
    same_start,
)
from tests.support.models import WIDTH, head_of, make_data, make_head
from tests.support.training import assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import optimizers

# Faster where a graph would show nothing more.
EAGERLY = {"run_eagerly": True}

each_head = pytest.mark.parametrize("make", [make_head, make_adaptive])


@pytest.mark.parametrize(
    "rule, form, make",
    [
        *zip(OPTIMIZERS, 3 * FORMS[::-1], 6 * [make_head], strict=True),
        ("rowwise_adagrad", "compile", make_adaptive),
    ],
)
def test_loaded_model_trains_on(rule, form, make, tmp_path):
    """To the same bits as without the interruption."""
    data = arguments(form, *make_data())
    model = make_model(form, rule, compiling=EAGERLY, make=make)
    fit(model, data, epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(head_of(loaded).optimizer) is type(head_of(model).optimizer)
    assert_goes_on(loaded, model, data)


@each_head
def test_what_does_not_decay_is_loaded(make, tmp_path):
    """Keras' config of an optimizer does not have it."""
    data = arguments("endpoint", *make_data())
    optimizer = optimizers.LazyAdam(0.01, weight_decay=10.0)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model = make_model(
        "endpoint",
        "lazy_adam",
        compiling=EAGERLY,
        make=lambda **options: make(**{**options, "optimizer": optimizer}),
    )
    fit(model, data, epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert head_of(loaded).optimizer.weight_decay == 10
    assert_goes_on(loaded, model, data)


@each_head
def test_bfloat16_goes_on_with_its_rounding(make, tmp_path):
    """The random numbers follow from the seed and the step, saved both."""
    data = arguments("endpoint", *make_data())
    options = {"dtype": "bfloat16", "seed": 5, "make": make}
    model = make_model("endpoint", "lazy_adam", **options)
    fit(model, data, epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert head_of(loaded).seed == 5
    assert_goes_on(loaded, model, data)


@each_head
def test_checkpoint(make, tmp_path):
    """tf.train.Checkpoint of the model holds the head's slots too."""
    data = arguments("compile", *make_data())
    model, other = (
        make_model("compile", "lazy_adam", compiling=EAGERLY, make=make)
        for _ in range(2)
    )
    fit(model, data, epochs=1)
    path = tf.train.Checkpoint(model=model).save(tmp_path / "checkpoint")
    other.optimizer.build(other.trainable_variables)
    tf.train.Checkpoint(model=other).restore(path).assert_consumed()
    assert_goes_on(other, model, data)


def test_weights_file(tmp_path):
    """As `.keras`, without the architecture."""
    data = arguments("compile", *make_data())
    model, other = (make_model("compile", compiling=EAGERLY) for _ in range(2))
    fit(model, data, epochs=1)
    model.save_weights(tmp_path / "model.weights.h5")
    other.optimizer.build(other.trainable_variables)
    other.load_weights(tmp_path / "model.weights.h5")
    assert_same(everything(other), everything(model))


@each_head
def test_clone(make):
    """A clone has a fresh optimizer of the same kind, for itself."""
    data = arguments("compile", *make_data())
    model = make_model("compile", "lazy_adam", compiling=EAGERLY, make=make)
    fit(model, data, epochs=1)
    clone = keras.models.clone_model(model)
    clone.compile(
        OPTIMIZERS["lazy_adam"](), loss=head_of(clone).loss, **EAGERLY
    )
    one, other = head_of(model).optimizer, head_of(clone).optimizer
    assert one is not other and int(other.iterations) == 0
    assert one.get_config() == other.get_config()
    same_start(model, clone)
    before = everything(model)
    fit(clone, data, epochs=1)
    assert_same(everything(model), before)


def test_config_of_a_model():
    """It survives JSON, and what comes back trains the same."""
    model = make_model("endpoint", "rowwise_adagrad", compiling=EAGERLY)
    config = json.loads(json.dumps(model.get_config()))
    copy = keras.Model.from_config(config)
    copy.compile(OPTIMIZERS["rowwise_adagrad"](), **EAGERLY)
    same_start(model, copy)
    data = arguments("endpoint", *make_data())
    assert_same(fit(copy, data), fit(model, data))
    assert_same(everything(copy), everything(model))


@pytest.mark.parametrize(
    "optimizer",
    [
        "rowwise_adagrad",
        optimizers.LazyAdam(0.02, sparse_beta_1=0.7, beta_2=0.9, epsilon=1e-3),
        optimizers.Adagrad(
            keras.optimizers.schedules.CosineDecay(0.1, 100),
            initial_accumulator_value=0.3,
        ),
    ],
    ids=["name", "adam", "schedule"],
)
def test_config_of_a_head(optimizer):
    """Its optimizer's hyperparameters come back, and its other arguments."""
    head = make_head(
        optimizer=optimizer,
        stochastic_rounding=True,
        seed=np.int64(9),
        dtype="bfloat16",
    )
    config = head.get_config()
    copy = type(head).from_config(json.loads(json.dumps(config)))
    assert copy.get_config() == config
    assert copy.optimizer.get_config() == head.optimizer.get_config()
    assert copy.optimizer is not head.optimizer
    assert (copy.seed, copy.stochastic_rounding) == (9, True)
    assert make_head().get_config()["optimizer"] is None


def test_weights_of_a_head_without_an_optimizer():
    """Weights go over between heads with and without an optimizer."""
    plain, own = (
        make_model("compile", own=own, compiling=EAGERLY) for own in (0, 1)
    )
    for source, target in ((plain, own), (own, plain)):
        fit(source, arguments("compile", *make_data()), epochs=1)
        head_of(target).load_own_variables(own_variables(head_of(source)))
        x = np.ones([2, WIDTH], "f4")
        assert_same(
            head_of(target)(x, np.array([1, 2])),
            head_of(source)(x, np.array([1, 2])),
        )


@each_head
def test_exported_models_do_not_train(make, tmp_path):
    """Both kinds of SavedModel give losses, and hold no training step."""
    tokens, labels = make_data()
    data = arguments("endpoint", tokens, labels)
    model = make_model("endpoint", "lazy_adam", make=make)
    fit(model, data, epochs=1)
    losses = model.predict(data["x"], verbose=0)
    inputs = [tf.constant(tokens, tf.int32), tf.constant(labels)]
    model.export(tmp_path / "exported", verbose=False)
    tf.saved_model.save(model, tmp_path / "saved")
    exported = tf.saved_model.load(tmp_path / "exported")
    saved = tf.saved_model.load(tmp_path / "saved")
    signature = saved.signatures["serving_default"]
    for _ in range(2):
        np.testing.assert_allclose(exported.serve(inputs), losses, rtol=1e-6)
        served = signature(inputs=inputs[0], inputs_1=inputs[1])["output_0"]
        np.testing.assert_allclose(served, losses, rtol=1e-6)
    graphs = [exported.serve.concrete_functions[0].graph, signature.graph]
    for graph in graphs:
        functions = graph.as_graph_def().library.function
        types = {node.op for f in functions for node in f.node_def}
        types |= {op.type for op in graph.get_operations()}
        assert "ResourceTfHsmLoss" in types
        assert "ResourceTfHsmLossStep" not in types
