"""FLOPs of bodies: formulas against graphs, and by hand."""

import pytest
import tensorflow as tf

from tests.support.estimated_bodies import (
    BATCH,
    LAYERS,
    SETTING,
    STEPS,
    model_of,
)
from tf_hsm.estimation import body, slots
from tf_hsm.estimation.body import graph_work, traced
from tf_hsm.estimation.setting import Setting


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
    work, missing = graph_work.count(only, trips)
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
    (part,) = body.of(model).parts(SETTING, has_head=False)
    forward, backward = graph_of(model, shape)
    trips = {}
    counted = sum(p.flops for p in part.forward.products)
    assert counted == products(forward, trips)
    softmaxes = [o.outputs[0].shape for o in forward if o.type == "Softmax"]
    assert part.forward.softmax == sum(s.num_elements() for s in softmaxes)
    if "conv" not in name:  # the profiler counts padding there
        counted = sum(p.flops for p in part.backward.products)
        assert counted == products(backward, trips)


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
    work, missing = graph_work.count(forward)
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
    setting = Setting(BATCH, length, "float32", "float32", slots.of("sgd"))
    parts = body.of(model).parts(setting, has_head=False)
    flops = sum(sum(p.flops for p in part.forward.products) for part in parts)
    per_token = 2 * (4 * d * d + 2 * d * wide) + 4 * length * d
    assert flops == BATCH * length * per_token
