"""HierarchicalSoftmax with an optimizer of its own, in training."""

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.in_place_models import (
    FORMS,
    arguments,
    assert_trains_the_same,
    fit,
    head_state,
    make_model,
    random_weights,
    same_start,
    weights,
)
from tests.support.models import (
    NUM_CLASSES,
    WIDTH,
    head_of,
    make_data,
    make_head,
)
from tests.support.training import assert_near, assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import optimizers

# Faster where a graph would show nothing more.
EAGERLY = {"run_eagerly": True}


@pytest.mark.parametrize(
    "rule, form", [*zip(OPTIMIZERS, 3 * FORMS, strict=True)]
)
def test_every_rule(rule, form):
    """Masked, ignored and weighted labels among them."""
    data = arguments(form, *make_data(), random_weights())
    assert_trains_the_same(form, rule, data, weighted=True, ignore_class=4)


def test_ways_to_run():
    """Eagerly or several steps at a time, the run is the same."""
    data = arguments("endpoint", *make_data())
    ways = (EAGERLY, {"steps_per_execution": 2})
    models = same_start(
        *(make_model("endpoint", compiling=way) for way in ways)
    )
    for model in models:
        # The mean of an epoch's losses counts batches by their execution.
        fit(model, data)
    assert_near(*map(weights, models), 1e-5)


@pytest.mark.parametrize("reduction", ["sum", "mean_with_sample_weight"])
def test_reductions(reduction):
    """What is minimized is what the loss of `compile` makes of the losses."""
    data = arguments("compile", *make_data(), random_weights())
    models = same_start(
        *(make_model("compile", own=own, mask_zero=False) for own in (1, 0))
    )
    for model, eager in zip(models, (False, True), strict=True):
        loss = tf_hsm.losses.HeadLoss(head_of(model), reduction)
        model.compile(OPTIMIZERS["adagrad"](), loss=loss, run_eagerly=eager)
    assert_near(*[fit(model, data) for model in models], 1e-4)
    assert_near(*map(weights, models), 1e-4)


@pytest.mark.parametrize(
    "form, compiling", [("compile", {}), ("endpoint", EAGERLY)]
)
def test_evaluate_and_predict_change_nothing(form, compiling):
    """Neither weights nor the optimizer's state."""
    data = arguments(form, *make_data())
    model = make_model(form, "lazy_adam", compiling=compiling)
    fit(model, data, epochs=1)
    before = head_state(model)
    model.evaluate(**data, verbose=0)
    model.predict(data["x"], verbose=0)
    model.test_on_batch(**data)
    model(data["x"])
    assert_same(head_state(model), before)
    fit(model, data, epochs=1)
    assert all(map(np.any, map(np.not_equal, head_state(model), before)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("whole", [False, True])
def test_not_trainable(whole, form):
    """The head, or the model, is frozen; and trains again after that."""
    data = arguments(form, *make_data())
    model = make_model(form, "lazy_adam")
    frozen = model if whole else head_of(model)
    before, body = head_state(model), weights(model)[0]
    frozen.trainable = False
    model.compile(optimizers.SGD(0.3), loss=model.loss, **EAGERLY)
    fit(model, data)
    assert_same(head_state(model), before)
    assert np.array_equal(weights(model)[0], body) == whole
    frozen.trainable = True
    model.compile(optimizers.SGD(0.3), loss=model.loss, **EAGERLY)
    fit(model, data)
    assert all(map(np.any, map(np.not_equal, head_state(model), before)))


@pytest.mark.parametrize("form", FORMS)
def test_variables_are_not_the_models(form):
    """Its optimizer keeps nothing of their size."""
    model = make_model(form, "lazy_adam", compiling=EAGERLY)
    head = head_of(model)
    assert head.trainable_weights == []
    assert [v.shape for v in head.row_variables()] == [(44, WIDTH), (44,)]
    assert len(model.trainable_weights) == 3
    fit(model, arguments(form, *make_data()), epochs=1)
    mine = [id(v) for v in (*head.variables, *head.optimizer.variables)]
    assert not {id(v) for v in model.optimizer.variables} & set(mine)
    assert all(v.shape != (44, WIDTH) for v in model.optimizer.variables)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_below_to_train(form):
    """Fixed features and a head: the gradient of its anchor is asked for."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, WIDTH)).astype("f4")
    y = rng.integers(NUM_CLASSES, size=64)
    models = []
    for own in (True, False):
        head = make_head(
            optimizer=optimizers.Adagrad(0.1, 0.1) if own else None
        )
        inputs = keras.Input([WIDTH])
        labels = keras.Input([], dtype="int64")
        if form == "compile":
            model, loss = keras.Model(inputs, head(inputs)), head.loss
        else:
            model = keras.Model([inputs, labels], head(inputs, labels))
            loss = None
        model.compile(optimizers.Adagrad(0.1, 0.1), loss, run_eagerly=not own)
        models.append(model)
    same_start(*models)
    data = {"x": x, "y": y} if form == "compile" else {"x": [x, y]}
    assert_near(*[fit(model, data) for model in models], 1e-5)
    assert_near(*map(weights, models), 1e-5)


def test_two_outputs():
    """A head beside another loss: the total is their weighted sum."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 5)).astype("f4")
    y = {"head": rng.integers(NUM_CLASSES, size=64), "value": x.sum(1)}
    models = []
    for own in (True, False):
        head = make_head(
            optimizer=optimizers.SGD(0.1) if own else None, name="head"
        )
        inputs = keras.Input([5])
        hidden = keras.layers.Dense(WIDTH)(inputs)
        value = keras.layers.Dense(1, name="value")(hidden)
        model = keras.Model(inputs, {"head": head(hidden), "value": value})
        model.compile(
            optimizers.SGD(0.1),
            loss={"head": head.loss, "value": "mse"},
            loss_weights={"head": 0.5, "value": 0.25},
            run_eagerly=not own,
        )
        models.append(model)
    same_start(*models)
    assert_near(*[fit(model, {"x": x, "y": y}) for model in models], 1e-5)
    assert_near(*map(weights, models), 1e-5)


@pytest.mark.parametrize(
    "form, compiling", [("compile", EAGERLY), ("endpoint", {})]
)
def test_assigned_learning_rate(form, compiling):
    """A callback's assignment takes effect, as of ReduceLROnPlateau."""
    model = make_model(form, "sgd", compiling=compiling)
    head = head_of(model)
    states = []

    class Halt(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            states.append(weights(model))
            head.optimizer.learning_rate = 0.0 if epoch == 0 else 0.3

    data = arguments(form, *make_data())
    fit(model, data, epochs=3, callbacks=[Halt()])
    assert_same(states[0][-2:], states[1][-2:])
    assert np.any(states[0][0] != states[1][0])
    assert np.any(states[2][-2] != states[1][-2])


@pytest.mark.parametrize(
    "name",
    ["SGD", "Adagrad", "RowwiseAdagrad", "RMSprop", "LazyAdam", "Lion"],
)
def test_names_in_any_case(name):
    """As Keras takes them: "sgd", "SGD"; and "rowwise_adagrad"."""
    kind = getattr(optimizers, name)
    snake = {"RowwiseAdagrad": "rowwise_adagrad", "LazyAdam": "lazy_adam"}
    for text in (name, name.lower(), name.upper(), snake.get(name, name)):
        head = make_head(optimizer=text)
        assert type(head.optimizer) is kind
    with pytest.raises(ValueError, match="but is 'Adam'"):
        make_head(optimizer="Adam")
