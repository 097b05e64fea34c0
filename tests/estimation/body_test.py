"""Parts of Keras models: variables, slots, FLOPs, the walk along the calls."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.estimates import bytes_of, setting_of, stacked, total
from tf_hsm.estimation import body
from tf_hsm.estimation.body import traced

layers = keras.layers
BATCH, STEPS = 3, 5
SETTING = setting_of(batch=BATCH, length=STEPS)


def to_itself(layer):
    """Returns a layer of attention as a function of one tensor."""
    return lambda x: layer(x, x, use_causal_mask=True)


# name: (layer, shape of one input without the batch)
LAYERS = {
    "dense": (lambda: layers.Dense(7), (STEPS, 6)),
    "dense relu": (lambda: layers.Dense(7, "relu", use_bias=False), (6,)),
    "lstm": (lambda: layers.LSTM(4, return_sequences=True), (STEPS, 6)),
    "lstm, the last": (lambda: layers.LSTM(4), (STEPS, 6)),
    "lstm without bias": (lambda: layers.LSTM(4, use_bias=False), (STEPS, 6)),
    "gru": (lambda: layers.GRU(4, return_sequences=True), (STEPS, 6)),
    "gru before": (lambda: layers.GRU(4, reset_after=False), (STEPS, 6)),
    "rnn": (lambda: layers.SimpleRNN(4, return_sequences=True), (STEPS, 6)),
    "norm": (layers.LayerNormalization, (STEPS, 6)),
    "rms norm": (layers.RMSNormalization, (STEPS, 6)),
    "batch norm": (layers.BatchNormalization, (6,)),
    "dropout": (lambda: layers.Dropout(0.1), (STEPS, 6)),
    "conv1": (lambda: layers.Conv1D(4, 3, padding="same"), (STEPS, 6)),
    "conv2": (lambda: layers.Conv2D(4, (3, 2), strides=2), (9, 8, 2)),
    "conv3": (lambda: layers.Conv3D(4, 2), (5, 4, 4, 2)),
    "groups": (lambda: layers.Conv1D(4, 3, groups=2), (STEPS, 6)),
    "pool": (lambda: layers.MaxPooling1D(2), (6, 4)),
    "both": (
        lambda: layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
        (STEPS, 6),
    ),
    "summed": (
        lambda: layers.Bidirectional(layers.GRU(4), merge_mode="sum"),
        (STEPS, 6),
    ),
    "each": (lambda: layers.TimeDistributed(layers.Dense(7)), (STEPS, 6)),
    "cell": (lambda: layers.RNN(layers.LSTMCell(4)), (STEPS, 6)),
    "flat": (layers.Flatten, (STEPS, 6)),
    "mha": (lambda: to_itself(layers.MultiHeadAttention(2, 3)), (STEPS, 6)),
    "mha, wider values": (
        lambda: to_itself(
            layers.MultiHeadAttention(2, 3, value_dim=5, output_shape=7)
        ),
        (STEPS, 6),
    ),
    "gqa": (lambda: to_itself(layers.GroupQueryAttention(3, 4, 2)), (STEPS, 6)),
}


def model_of(make, shape):
    return stacked(shape, make())


def parts_of(model, has_head=True, setting=SETTING):
    return body.of(model).parts(setting, has_head)


def check_variables(parts, model):
    assert total(parts, "parameters") == model.count_params()
    assert total(parts, "parameter_bytes") == bytes_of(model.weights)
    adam = keras.optimizers.Adam()
    adam.build(model.trainable_variables)
    assert total(parts, "slot_bytes") == bytes_of(adam.variables[2:])


@pytest.mark.parametrize("name", LAYERS)
def test_variables_and_slots_byte_for_byte(name):
    model = model_of(*LAYERS[name])
    parts = parts_of(model, has_head=False)
    check_variables(parts, model)
    trained = bytes_of(model.trainable_variables)
    assert total(parts, "gradient_bytes") == trained


def test_a_layer_that_is_called_twice_has_its_variables_once():
    layer = layers.Dense(6)
    parts = parts_of(stacked((6,), layer, layer), has_head=False)
    assert [p.parameters for p in parts] == [42, 0]
    assert parts[0].forward.flops == parts[1].forward.flops


def test_sizes_are_those_of_the_call():
    """An unknown length goes through pooling, and into models within."""
    for length in (24, None):
        pool, inner = (
            layers.MaxPooling1D(8),
            stacked((None, 6), layers.Dense(5)),
        )
        model = stacked((length, 6), pool, inner, layers.LSTM(4))
        setting = setting_of(batch=BATCH, length=24)
        *_, dense, lstm = parts_of(model, setting=setting)
        assert product_flops(dense.forward) == 2 * BATCH * 3 * 6 * 5
        assert product_flops(lstm.forward) == 2 * BATCH * 3 * 16 * (5 + 4)


def test_shared_heads_and_models_have_their_variables_once():
    inputs = [keras.Input((6,)), keras.Input((6,))]
    for head in (
        layers.Dense(50),
        tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(50)),
    ):
        model = keras.Model(inputs, [head(x) for x in inputs])
        parts = parts_of(model)
        check_variables(parts, model)
        assert parts[0].forward.flops == parts[1].forward.flops > 0


def test_models_in_models():
    inner = stacked((6,), layers.Dense(4))
    model = stacked((6,), inner, layers.Dense(2))
    parts = parts_of(model)
    check_variables(parts, model)
    assert parts[0].name == f"{inner.name}/{inner.layers[1].name}"


def test_the_last_dense_layer_is_a_head():
    model = stacked((6,), layers.Dense(4), layers.Dense(9))
    for has_head in (True, False):
        parts = parts_of(model, has_head)
        assert total(parts, "parameters") == model.count_params()
        # Its loss comes with it.
        assert parts[-1].forward.softmax == BATCH * 9 * has_head


def test_mixed_precision_halves_activations():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = model_of(lambda: layers.Dense(7), (STEPS, 6))
    finally:
        keras.config.set_dtype_policy("float32")
    found = body.of(model)
    assert found.dtypes == ("float32", "bfloat16")
    setting = dataclasses.replace(SETTING, compute_dtype="bfloat16")
    (part,) = found.parts(setting, has_head=False)
    assert part.parameter_bytes == 4 * 49
    assert part.saved_bytes == 2 * BATCH * STEPS * 7


def test_embeddings_have_sparse_gradients():
    model = stacked((STEPS,), layers.Embedding(50, 4), dtype="int32")
    (part,) = parts_of(model)
    tokens = BATCH * STEPS
    assert part.gradient_bytes == tokens * (4 * 4 + 4)
    assert part.forward.flops == 0


def test_bodies_without_values_have_no_memory():
    found = body.recurrent("lstm", [50_000, 50_000], vocabulary=10_000_000)
    numbers = 10_000_000 * 50_000 + 2 * 4 * 50_000 * (50_000 + 50_000 + 1)
    assert total(found.parts(SETTING), "parameters") == numbers


def test_models_of_users_without_values():
    with tf_hsm.estimation.without_values():
        table = layers.Embedding(10_000_000, 3_000)
        head = tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(5000))
        model = stacked((STEPS,), table, layers.GRU(8), head, dtype="int32")
    parts = parts_of(model)
    assert parts[0].parameters == 3e10
    assert parts[-1].kind == "HierarchicalSoftmax"
    # What is made later has values.
    assert np.all(layers.Dense(2, bias_initializer="ones")(np.ones([1, 1])))


def product_flops(work):
    return sum(product.flops for product in work.products)


def graph_of(model, shape):
    """The operations of a forward pass, and of its gradient."""

    @tf.function
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = model(x, training=True)
        forward = len(tf.compat.v1.get_default_graph().get_operations())
        tape.gradient(y, [x, *model.trainable_variables])
        run.forward = forward

    graph = run.get_concrete_function(
        tf.TensorSpec([BATCH, *shape], tf.float32)
    ).graph
    operations = graph.get_operations()
    return operations[: run.forward], operations[run.forward :]


def products(operations, trips):
    """FLOPs of matrix products, loops included."""
    kinds = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")
    only = [
        o
        for o in operations
        if o.type in kinds or "While" in o.type or "Conv" in o.type
    ]
    work, missing = traced.count(only, trips)
    assert not missing
    return work.flops


# What a formula counts as products, the graph must have as products.
EXACT = [
    *("dense", "dense relu", "conv1", "conv2", "conv3", "each"),
    *("norm", "pool", "flat", "mha", "mha, wider values", "gqa"),
]


@pytest.mark.parametrize("name", EXACT)
def test_products_are_those_of_the_graph(name):
    make, shape = LAYERS[name]
    model = model_of(make, shape)
    (part,) = parts_of(model, has_head=False)
    forward, backward = graph_of(model, shape)
    trips = {}
    assert product_flops(part.forward) == products(forward, trips)
    softmaxes = [o.outputs[0].shape for o in forward if o.type == "Softmax"]
    assert part.forward.softmax == sum(s.num_elements() for s in softmaxes)
    if "conv" not in name:  # the profiler counts padding there
        assert product_flops(part.backward) == products(backward, trips)


@pytest.mark.parametrize(
    ("name", "gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)]
)
def test_recurrent_products_by_hand_and_by_the_graph(name, gates):
    """A loop's products count as often as it runs."""
    make, shape = LAYERS[name]
    model = model_of(make, shape)
    (part,) = parts_of(model, has_head=False)
    by_hand = 2 * BATCH * STEPS * gates * 4 * (6 + 4)
    assert product_flops(part.forward) == by_hand
    forward, _ = graph_of(model, shape)
    work, missing = traced.count(forward)
    assert not missing
    # The graph's elementwise operations come on top.
    assert by_hand <= work.flops <= by_hand * 1.8
    formula = traced.formula(model.layers[1], [(BATCH, *shape)], ["float32"])
    assert formula.forward.flops == pytest.approx(work.flops, rel=0.2)
    # Two products for each one of the forward, and what is beside them.
    assert 2 * by_hand <= formula.backward.flops <= 4 * by_hand
    assert formula.uncounted == ()


def test_a_transformer_layer_by_the_formula_of_the_docs():
    d, wide, length = 16, 64, 8
    model = body.transformer(
        layers=1, d_model=d, heads=2, d_ff=wide, length=length
    ).model
    parts = parts_of(model, False, setting_of(batch=BATCH, length=length))
    per_token = 2 * (4 * d * d + 2 * d * wide) + 4 * length * d
    assert product_flops(total(parts, "forward")) == BATCH * length * per_token


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
