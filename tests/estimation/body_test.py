"""Parts of Keras models: variables and slots, and the walk along the calls."""

import math

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.estimated_bodies import (
    BATCH,
    LAYERS,
    SETTING,
    STEPS,
    check_variables,
    model_of,
)
from tf_hsm.estimation import body, slots
from tf_hsm.estimation.setting import Setting

layers = keras.layers


@pytest.mark.parametrize("name", LAYERS)
def test_variables_and_slots_byte_for_byte(name):
    model = model_of(*LAYERS[name])
    parts = body.of(model).parts(SETTING, has_head=False)
    check_variables(parts, model)
    trained = sum(4 * math.prod(v.shape) for v in model.trainable_variables)
    assert sum(p.gradient_bytes for p in parts) == trained


def test_a_layer_that_is_called_twice_has_its_variables_once():
    inputs, layer = keras.Input((6,)), layers.Dense(6)
    model = keras.Model(inputs, layer(layer(inputs)))
    parts = body.of(model).parts(SETTING, has_head=False)
    assert [p.parameters for p in parts] == [42, 0]
    assert parts[0].forward.flops == parts[1].forward.flops


def test_sizes_are_those_of_the_call():
    """An unknown length goes through pooling, and into models within."""
    for length in (24, None):
        inputs = keras.Input((length, 6))
        x = layers.MaxPooling1D(8)(inputs)
        inner = keras.Sequential([keras.Input((None, 6)), layers.Dense(5)])
        model = keras.Model(inputs, layers.LSTM(4)(inner(x)))
        setting = Setting(BATCH, 24, "float32", "float32", slots.of("adam"))
        parts = body.of(model).parts(setting)
        dense, lstm = parts[-2:]
        flops = [
            sum(p.flops for p in q.forward.products) for q in (dense, lstm)
        ]
        assert flops == [
            2 * BATCH * 3 * 6 * 5,
            2 * BATCH * 3 * 4 * 4 * (5 + 4),
        ]


def test_shared_heads_and_models_have_their_variables_once():
    inputs = [keras.Input((6,)), keras.Input((6,))]
    for head in (
        layers.Dense(50),
        tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(50)),
    ):
        model = keras.Model(inputs, [head(x) for x in inputs])
        parts = body.of(model).parts(SETTING)
        check_variables(parts, model)
        assert parts[0].forward.flops == parts[1].forward.flops > 0


def test_models_in_models():
    inner = model_of(lambda: layers.Dense(4), (6,))
    inputs = keras.Input((6,))
    model = keras.Model(inputs, layers.Dense(2)(inner(inputs)))
    parts = body.of(model).parts(SETTING)
    check_variables(parts, model)
    assert parts[0].name == f"{inner.name}/{inner.layers[1].name}"


def test_the_last_dense_layer_is_a_head():
    inputs = keras.Input((6,))
    model = keras.Model(inputs, layers.Dense(9)(layers.Dense(4)(inputs)))
    kinds = body.of(model).parts(SETTING, has_head=True)
    without = body.of(model).parts(SETTING, has_head=False)
    assert sum(p.parameters for p in kinds) == sum(
        p.parameters for p in without
    )
    # Its loss comes with it.
    assert kinds[-1].forward.softmax == BATCH * 9
    assert without[-1].forward.softmax == 0


def test_mixed_precision_halves_activations():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = model_of(lambda: layers.Dense(7), (STEPS, 6))
    finally:
        keras.config.set_dtype_policy("float32")
    found = body.of(model)
    assert found.dtypes == ("float32", "bfloat16")
    setting = Setting(BATCH, STEPS, *found.dtypes, slots.of("adam"))
    (part,) = found.parts(setting, has_head=False)
    assert part.parameter_bytes == 4 * 49
    assert part.saved_bytes == 2 * BATCH * STEPS * 7


def test_embeddings_have_sparse_gradients():
    inputs = keras.Input((STEPS,), dtype="int32")
    model = keras.Model(inputs, layers.Embedding(50, 4)(inputs))
    (part,) = body.of(model).parts(SETTING)
    tokens = BATCH * STEPS
    assert part.gradient_bytes == tokens * (4 * 4 + 4)
    assert part.forward.flops == 0


def test_bodies_without_values_have_no_memory():
    found = body.recurrent("lstm", [50_000, 50_000], vocabulary=10_000_000)
    parts = found.parts(SETTING)
    assert sum(p.parameters for p in parts) == (
        10_000_000 * 50_000 + 2 * 4 * 50_000 * (50_000 + 50_000 + 1)
    )


def test_models_of_users_without_values():
    with tf_hsm.estimation.without_values():
        inputs = keras.Input((STEPS,), dtype="int32")
        x = layers.Embedding(10_000_000, 3_000)(inputs)
        head = tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(5000))
        model = keras.Model(inputs, head(layers.GRU(8)(x)))
    parts = body.of(model).parts(SETTING)
    assert parts[0].parameters == 3e10
    assert parts[-1].kind == "HierarchicalSoftmax"
    # What is made later has values.
    assert np.all(layers.Dense(2, bias_initializer="ones")(np.ones([1, 1])))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: body.of(3), "body must be a Keras model"),
        (lambda: body.of(layers.Dense(3)), "not built"),
        (lambda: body.transformer(heads=3), "heads is 3, which does not"),
        (lambda: body.transformer(kv_heads=3), "kv_heads is 3, which does"),
        (lambda: body.transformer(layers=0), "layers is 0"),
        (lambda: body.recurrent("lstmm", 3), "cell is 'lstmm'"),
        (lambda: body.recurrent("lstm", []), "units is empty"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
