"""What a head with an optimizer of its own refuses; its types and its seed."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.in_place_models import (
    FORMS,
    REFUSED_OPTIMIZERS,
    arguments,
    check_no_gradient_of_log_probs,
    fit,
    head_state,
    make_model,
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
from tests.support.pairs import all_pairs
from tests.support.training import assert_near, assert_same, layer_step
from tf_hsm import optimizers

# Faster where a graph would show nothing more.
EAGERLY = {"run_eagerly": True}


@pytest.mark.parametrize("name", REFUSED_OPTIMIZERS)
def test_optimizers_of_the_model(name):
    """Refused before the head has moved."""
    optimizer, match = REFUSED_OPTIMIZERS[name]
    model = make_model("endpoint", optimizer=optimizer(), compiling=EAGERLY)
    before = head_state(model)
    with pytest.raises(ValueError, match=match):
        fit(model, arguments("endpoint", *make_data()))
    assert_same(head_state(model), before)


def test_weight_decay_of_the_model():
    """It acts on the layers below alone."""
    data = arguments("compile", *make_data(8))
    decays = keras.optimizers.AdamW(0.1, weight_decay=5.0)
    models = same_start(
        *(
            make_model("compile", optimizer=optimizer, compiling=EAGERLY)
            for optimizer in (decays, keras.optimizers.SGD(0.1))
        )
    )
    for model in models:
        for layer in model.layers[:-1]:
            layer.trainable = False
        fit(model, data)
    assert_same(*map(head_state, models))


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


def in_place_and_eager(form, rule, eager=False, **options):
    """A head with its own optimizer, and one that the eager model trains.

    The first one is in a graph, unless it is `eager` too.
    """
    return same_start(
        *(
            make_model(
                form, rule, own, compiling={"run_eagerly": way}, **options
            )
            for own, way in ((True, eager), (False, True))
        )
    )


@pytest.mark.parametrize(
    "policy, rule, form",
    all_pairs(["bfloat16", "float64"], ["sgd", "lazy_adam"], FORMS),
)
def test_policies(policy, rule, form):
    """Trains as the model's optimizer does, to rounding of the weights."""
    data = arguments(form, *make_data())
    models = in_place_and_eager(
        form,
        rule,
        eager=policy == "float64",
        dtype=policy,
        stochastic_rounding=False,
    )
    tolerance = {"bfloat16": 2.0**-6, "float64": 1e-12}[policy]
    assert_near(*[fit(model, data) for model in models], tolerance)
    assert_near(*map(weights, models), tolerance)
    own = head_of(models[0])
    assert own.kernel.dtype == policy
    wide = "float64" if policy == "float64" else "float32"
    slots = own.optimizer.slots(own.kernel)
    assert [s.dtype for s in slots] == [wide] * len(slots)


@pytest.mark.parametrize(
    "rule, form", [("rowwise_adagrad", "compile"), ("lazy_adam", "endpoint")]
)
def test_mixed_bfloat16(rule, form):
    """Inputs alone have 16 bits: nothing of the optimizer is cast."""
    data = arguments(form, *make_data())
    models = in_place_and_eager(form, rule, dtype="mixed_bfloat16")
    assert_near(*[fit(model, data) for model in models], 1e-5)
    assert_near(*map(weights, models), 1e-5)


def stalling_head(**options):
    """A bfloat16 head whose steps are a fraction of a unit in the last place.

    Each weight is 1, and its spacing 2^-7 above and 2^-8 below.
    """
    head = make_head(
        tree=tf_hsm.Tree.balanced(NUM_CLASSES, NUM_CLASSES),
        optimizer=optimizers.SGD(2.0**-10),
        kernel_initializer="ones",
        dtype="bfloat16",
        use_bias=False,
        **options,
    )
    return head, tf.ones([8, WIDTH]), tf.zeros([8], tf.int32)


def test_stochastic_rounding_trains_where_nearest_stalls():
    """By default: the mean of many small steps is their sum."""
    losses = {}
    for option in (None, True, False):
        head, x, labels = stalling_head(stochastic_rounding=option)
        step = tf.function(functools.partial(layer_step, head, x, labels))
        losses[option] = [float(step()[0]) for _ in range(200)]
    assert losses[False][-1] == losses[False][0]
    assert losses[None] == losses[True]
    # The same in float32, where nothing is lost.
    w = tf.Variable(tf.ones([NUM_CLASSES, WIDTH]))
    optimizer = optimizers.SGD(2.0**-10)
    optimizer.build([w])
    for _ in range(200):
        exact = tf_hsm.hierarchical_softmax_train_step(
            w, None, labels, x, head.tree, optimizer
        )
    np.testing.assert_allclose(losses[None][-1], exact[0], rtol=0.05)
    assert exact[0] < 0.8 * losses[None][0]


def test_seed():
    """One seed gives the same bits, another one others."""

    def run(**options):
        head, x, labels = stalling_head(**options)
        for _ in range(3):
            layer_step(head, x, labels)
        return head.kernel.numpy().astype(np.float32)

    assert_same(run(), run(seed=0))
    assert_same(run(seed=3), run(seed=3))
    assert np.any(run(seed=3) != run())


def test_a_gradient_of_log_probs(tmp_path):
    """It would train the body alone, without a word."""
    head = make_head(optimizer=optimizers.SGD(0.1))
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
