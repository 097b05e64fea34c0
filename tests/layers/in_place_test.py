"""HierarchicalSoftmax with an optimizer of its own, in training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.in_place_models import (
    FORMS,
    REFUSED_OPTIMIZERS,
    arguments,
    assert_trains_the_same,
    check_no_gradient_of_log_probs,
    fit,
    head_state,
    make_adaptive,
    make_model,
    random_weights,
    same_start,
    weights,
)
from tests.support.models import (
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
    "rule, form, make, policy, tolerance",
    [
        *(
            (rule, form, make_head, "float32", 1e-5)
            for rule, form in zip(OPTIMIZERS, 3 * FORMS, strict=True)
        ),
        ("rowwise_adagrad", "compile", make_adaptive, "float32", 1e-5),
        ("lazy_adam", "endpoint", make_adaptive, "float32", 1e-5),
        # To rounding of the weights.
        ("sgd", "compile", make_head, "bfloat16", 2.0**-6),
        ("lazy_adam", "endpoint", make_head, "bfloat16", 2.0**-6),
        ("rowwise_adagrad", "compile", make_head, "mixed_bfloat16", 1e-5),
        ("lazy_adam", "compile", make_adaptive, "bfloat16", 2.0**-5),
        ("lazy_adam", "compile", make_adaptive, "mixed_bfloat16", 1e-2),
    ],
)
def test_as_by_gradients(rule, form, make, policy, tolerance):
    """It trains as the model's optimizer does.

    Masked, ignored and weighted labels among them.
    """
    assert_trains_the_same(
        form,
        rule,
        arguments(form, *make_data(), random_weights()),
        tolerance,
        weighted=True,
        ignore_class=4,
        make=make,
        compiling={} if rule in ("sgd", "lazy_adam") else EAGERLY,
        dtype=policy,
        stochastic_rounding=False,
    )


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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("frozen", ["head", "model", "head without its own"])
def test_not_trainable(frozen, form):
    """The head, or the model, is frozen; and trains again after that."""
    data = arguments(form, *make_data())
    model = make_model(form, "lazy_adam", own=frozen in ("head", "model"))
    layer = model if frozen == "model" else head_of(model)
    before, body = head_state(model), weights(model)[0]
    layer.trainable = False
    model.compile(optimizers.SGD(0.3), loss=model.loss, **EAGERLY)
    fit(model, data)
    assert_same(head_state(model), before)
    assert np.array_equal(weights(model)[0], body) == (layer is model)
    layer.trainable = True
    model.compile(optimizers.SGD(0.3), loss=model.loss, **EAGERLY)
    fit(model, data)
    assert all(map(np.any, map(np.not_equal, head_state(model), before)))


@pytest.mark.parametrize(
    "form, make",
    [
        ("compile", make_head),
        ("endpoint", make_head),
        ("compile", make_adaptive),
    ],
)
def test_variables_are_not_the_models(form, make):
    """The model's optimizer has slots for the projections, not the rows."""
    model = make_model(form, "lazy_adam", make=make, compiling=EAGERLY)
    head = head_of(model)
    shapes = [(6, 4), (6, 2)] if make is make_adaptive else []
    assert [v.shape for v in head.trainable_weights] == shapes
    assert len(model.trainable_weights) == 3 + len(shapes)
    fit(model, arguments(form, *make_data()), epochs=1)
    # Two slots of each variable, two numbers, and nothing of the anchor.
    count = 2 + 2 * len(model.trainable_weights)
    assert len(model.optimizer.variables) == count
    mine = [id(v) for v in (*head.variables, *head.optimizer.variables)]
    assert not {id(v) for v in model.optimizer.variables} & set(mine)
    rows = {v.shape for v in head.row_variables()}
    assert not {v.shape for v in model.optimizer.variables} & rows
    assert {v.shape for v in head.optimizer.variables} > rows


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


@pytest.mark.parametrize("name", REFUSED_OPTIMIZERS)
def test_optimizers_of_the_model(name):
    """Refused before the head has moved."""
    optimizer, match = REFUSED_OPTIMIZERS[name]
    model = make_model("endpoint", optimizer=optimizer(), compiling=EAGERLY)
    before = head_state(model)
    with pytest.raises(ValueError, match=match):
        fit(model, arguments("endpoint", *make_data()))
    assert_same(head_state(model), before)


@pytest.mark.parametrize("form", FORMS)
def test_loss_scaling_by_policy(form):
    """Under mixed_float16 Keras scales the loss, which moves no row further."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        models = same_start(
            *(
                make_model(
                    form,
                    "sgd",
                    compiling={"auto_scale_loss": scale, "run_eagerly": eager},
                )
                for scale, eager in ((True, form == "endpoint"), (False, True))
            )
        )
        data = arguments(form, *make_data())
        losses = [fit(model, data) for model in models]
    finally:
        keras.config.set_dtype_policy("float32")
    assert losses[0][1] < losses[0][0]
    assert_near(*losses, 1e-2)
    assert_near(*map(weights, models), 1e-2)


@pytest.mark.parametrize("make", [make_head, make_adaptive])
def test_a_gradient_of_log_probs(make, tmp_path):
    """It would train the body and projections alone, without a word."""
    head = make(optimizer=optimizers.SGD(0.1))
    head.build([None, WIDTH])
    inputs = tf.random.normal([3, WIDTH])

    # Saving traces what gradients there are.
    module = tf.Module()
    module.head = head
    module.log_probs = tf.function(
        head.log_probs, input_signature=[tf.TensorSpec([None, WIDTH])]
    )
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert_near(loaded.log_probs(inputs), head.log_probs(inputs), 1e-6)
    check_no_gradient_of_log_probs(head, inputs)
