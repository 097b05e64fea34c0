"""Parts of Keras models: against built variables, the profiler and by hand."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm.estimation import body, slots
from tf_hsm.estimation.body import formulas, graph_flops, traced
from tf_hsm.estimation.setting import Setting

layers = keras.layers
BATCH, STEPS = 3, 5
SETTING = Setting(BATCH, STEPS, "float32", "float32", slots.of("adam"))
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
}
ATTENTION = {
    "mha": lambda: layers.MultiHeadAttention(2, 3),
    "mha, wider values": lambda: layers.MultiHeadAttention(
        2, 3, value_dim=5, output_shape=7
    ),
    "gqa": lambda: layers.GroupQueryAttention(3, 4, 2),
}


def model_of(make, shape):
    inputs = keras.Input(shape)
    return keras.Model(inputs, make()(inputs))


def attention_of(make):
    inputs = keras.Input((STEPS, 6))
    return keras.Model(inputs, make()(inputs, inputs, use_causal_mask=True))


def check_variables(parts, model, setting=SETTING):
    weights = model.weights
    numbers = sum(math.prod(v.shape) for v in weights)
    assert sum(p.parameters for p in parts) == numbers
    sizes = [math.prod(v.shape) * np.dtype(v.dtype).itemsize for v in weights]
    assert sum(p.parameter_bytes for p in parts) == sum(sizes)
    model.optimizer = keras.optimizers.Adam()
    model.optimizer.build(model.trainable_variables)
    slot_bytes = sum(
        4 * math.prod(v.shape) for v in model.optimizer.variables[2:]
    )
    assert sum(p.slot_bytes for p in parts) == slot_bytes


@pytest.mark.parametrize("name", LAYERS)
def test_variables_and_slots_byte_for_byte(name):
    model = model_of(*LAYERS[name])
    parts = body.of(model).parts(SETTING, has_head=False)
    check_variables(parts, model)
    trained = sum(4 * math.prod(v.shape) for v in model.trainable_variables)
    assert sum(p.gradient_bytes for p in parts) == trained


def graph_of(model, shape):
    """The operations of a forward, and those of its gradient."""

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
    work, missing = graph_flops.count(only, trips)
    assert not missing
    return work.flops


# What a formula counts as products, the graph must have as products.
EXACT = [
    *("dense", "dense relu", "conv1", "conv2", "conv3", "each"),
    *("norm", "pool", "flat"),
]


@pytest.mark.parametrize("name", EXACT)
def test_products_are_those_of_the_graph(name):
    make, shape = LAYERS[name]
    model = model_of(make, shape)
    (part,) = body.of(model).parts(SETTING, has_head=False)
    forward, backward = graph_of(model, shape)
    trips = {}
    counted = sum(p.flops for p in part.forward.products)
    assert counted == products(forward, trips)
    if "conv" not in name:  # the profiler counts padding there
        counted = sum(p.flops for p in part.backward.products)
        assert counted == products(backward, trips)


@pytest.mark.parametrize("name", ATTENTION)
def test_products_of_attention(name):
    model = attention_of(ATTENTION[name])
    parts = body.of(model).parts(SETTING, has_head=False)
    check_variables(parts, model)
    (part,) = parts
    forward, backward = graph_of(model, (STEPS, 6))
    trips = {}
    found = products(forward, trips)
    counted = sum(p.flops for p in part.forward.products)
    assert counted == found
    found = products(backward, trips)
    assert sum(p.flops for p in part.backward.products) == found


@pytest.mark.parametrize(
    ("name", "gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)]
)
def test_recurrent_products_by_hand_and_by_the_graph(name, gates):
    """A loop's products count as often as it runs."""
    make, shape = LAYERS[name]
    model = model_of(make, shape)
    (part,) = body.of(model).parts(SETTING, has_head=False)
    counted = sum(p.flops for p in part.forward.products)
    by_hand = 2 * BATCH * STEPS * gates * 4 * (6 + 4)
    assert counted == by_hand
    forward, _ = graph_of(model, shape)
    work, missing = graph_flops.count(forward)
    assert not missing
    # The graph's elementwise operations come on top.
    assert by_hand <= work.flops <= by_hand * 1.8
    formula = traced.formula(
        model.layers[1], [(BATCH, *shape)], ["float32"], None
    )
    assert formula.forward.flops == pytest.approx(work.flops, rel=0.2)
    # Two products for each one of the forward, and what is beside them.
    assert 2 * by_hand <= formula.backward.flops <= 4 * by_hand
    assert formula.uncounted == ()


def test_a_transformer_layer_by_the_formula_of_the_docs():
    d, wide, length = 16, 64, 8
    model = body.transformer(
        layers=1, d_model=d, heads=2, d_ff=wide, length=length
    ).model
    setting = Setting(BATCH, length, "float32", "float32", slots.of("sgd"))
    parts = body.of(model).parts(setting, has_head=False)
    flops = sum(sum(p.flops for p in part.forward.products) for part in parts)
    per_token = 2 * (4 * d * d + 2 * d * wide) + 4 * length * d
    assert flops == BATCH * length * per_token


class Squares(layers.Layer):
    """A layer of a user's own, which has a loop."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 7), name="kernel")

    def call(self, x):
        y = tf.matmul(x, self.kernel)
        return tf.while_loop(
            lambda i, y: i < 4, lambda i, y: (i + 1, y * y), [0, y]
        )[1]


class Strange(layers.Layer):
    """A layer whose call cannot be traced."""

    def call(self, x):
        if tf.executing_eagerly() or isinstance(x, keras.KerasTensor):
            return x
        raise RuntimeError("no graph here")

    def compute_output_shape(self, shape):
        return shape


def test_other_layers_are_traced():
    inputs = keras.Input((6,))
    model = keras.Model(inputs, Squares()(inputs))
    (part,) = body.of(model).parts(SETTING)
    assert part.kind == "Squares"
    assert part.parameters == 42
    # The loop's own comparisons count too.
    assert part.forward.flops >= 2 * BATCH * 42 + 4 * BATCH * 7
    assert part.forward.flops <= 2 * BATCH * 42 + 4 * BATCH * 7 + 20
    assert part.saved_bytes >= 4 * BATCH * 7
    assert part.uncounted == ()


def test_what_cannot_be_counted_is_named():
    inputs = keras.Input((6,))
    model = keras.Model(inputs, Strange(name="odd")(inputs))
    (part,) = body.of(model).parts(SETTING)
    assert part.name == "odd"
    assert "tracing it failed" in part.uncounted[0]


def test_operations_between_layers_are_traced():
    inputs = keras.Input((STEPS, 6))
    x = keras.ops.matmul(inputs, keras.ops.transpose(inputs, (0, 2, 1)))
    model = keras.Model(inputs, x * 2.0)
    parts = body.of(model).parts(SETTING)
    flops = sum(p.forward.flops for p in parts)
    assert flops >= 2 * BATCH * STEPS * STEPS * 6
    assert not any(p.uncounted for p in parts)


def test_subclassed_models_are_one_part():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.one, self.two = layers.Dense(5), layers.Dense(2)

        def call(self, x):
            return self.two(self.one(x))

    model = Own()
    model(np.zeros([2, 6], np.float32))
    (part,) = body.of(model).parts(SETTING)
    assert part.parameters == 6 * 5 + 5 + 5 * 2 + 2
    assert part.forward.flops >= 2 * BATCH * (6 * 5 + 5 * 2)


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


def test_masks_and_axes_of_attention_are_traced():
    inputs, mask = keras.Input((5, 8)), keras.Input((5, 5), dtype="bool")
    masked = layers.MultiHeadAttention(2, 4)
    plain = layers.MultiHeadAttention(2, 4)
    model = keras.Model(
        [inputs, mask],
        masked(inputs, inputs, attention_mask=mask) + plain(inputs, inputs),
    )
    one, two = [
        p
        for p in body.of(model).parts(SETTING)
        if p.kind == "MultiHeadAttention"
    ]
    assert one.forward.flops == pytest.approx(two.forward.flops, rel=0.25)
    images = keras.Input((4, 4, 8))
    layer = layers.MultiHeadAttention(2, 4, attention_axes=(1, 2))
    model = keras.Model(images, layer(images, images))
    (part,) = body.of(model).parts(SETTING)
    assert part.forward.flops >= 2 * BATCH * 16 * (4 * 8 * 8 + 2 * 16 * 8)


class Positions(layers.Layer):
    """Tokens and their positions, the usual layer."""

    def __init__(self):
        super().__init__()
        self.tokens = layers.Embedding(1000, 8)

    def call(self, ids):
        return self.tokens(ids)


def test_embeddings_within_a_layer_have_sparse_gradients():
    inputs = keras.Input((STEPS,), dtype="int32")
    model = keras.Model(inputs, Positions()(inputs))
    (part,) = body.of(model).parts(SETTING)
    assert part.gradient_bytes == BATCH * STEPS * (8 * 4 + 4)
    assert part.is_sparse


def test_a_head_within_a_subclassed_model_is_named():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            tree = tf_hsm.Tree.two_level(50)
            self.head = tf_hsm.layers.HierarchicalSoftmax(tree, name="mine")

        def call(self, x):
            return self.head(x)

    model = Own()
    model(np.zeros([2, 6], np.float32))
    (part,) = body.of(model).parts(SETTING)
    assert any(what.startswith("mine: a head") for what in part.uncounted)


def test_branches_count_as_the_largest():
    class Switch(layers.Layer):
        def call(self, x):
            return tf.switch_case(
                tf.cast(tf.reduce_sum(x), tf.int32),
                [lambda: x, lambda: tf.matmul(x, x, transpose_b=True) @ x],
            )

    inputs = keras.Input((6,))
    model = keras.Model(inputs, Switch()(inputs))
    (part,) = body.of(model).parts(SETTING)
    assert part.uncounted == ()
    assert part.forward.flops >= 2 * 2 * BATCH * BATCH * 6


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
    with tf_hsm.estimate.without_values():
        inputs = keras.Input((STEPS,), dtype="int32")
        x = layers.Embedding(10_000_000, 3_000)(inputs)
        head = tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(5000))
        model = keras.Model(inputs, head(layers.GRU(8)(x)))
    parts = body.of(model).parts(SETTING)
    assert parts[0].parameters == 3e10
    assert parts[-1].kind == "HierarchicalSoftmax"
    # What is made later has values.
    assert np.all(layers.Dense(2, bias_initializer="ones")(np.ones([1, 1])))


def test_formulas_are_not_for_classes_that_inherit():
    class Own(layers.Dense):
        def call(self, x):
            return super().call(x) + 1

    formula = formulas.formula_of(
        Own(4), [(BATCH, 6)], ["float32"], (BATCH, 4), SETTING
    )
    assert formula.forward.flops == 2 * BATCH * 6 * 4 + 2 * BATCH * 4


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
