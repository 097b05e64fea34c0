"""Answers on weights of 8 and 4 bits."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.pairs import all_pairs
from tests.support.random_calls import ON_CODES, valid_call
from tests.support.training import assert_same
from tf_hsm.runtime import quantized_rows

MODES = ["int8", "int4"]

TREE = tf_hsm.Tree.flat(70)


def drawn(width):
    """Weights, biases and inputs."""
    rng = np.random.default_rng(width)
    shape = [TREE.num_rows, width]
    return (
        rng.normal(size=shape).astype("float32"),
        tf.Variable(rng.normal(size=shape[0]).astype("float32")),
        rng.normal(size=[5, width]).astype("float32"),
    )


def expected_numbers(weights, mode):
    """The numbers that quantized rows stand for, one block at a time."""
    weights = weights.astype("float64")
    block = weights.shape[1] if mode == "int8" else 64
    out = np.zeros_like(weights)
    for row, to in zip(weights, out, strict=True):
        for first in range(0, row.size, block):
            part = row[first : first + block]
            largest = part[np.argmax(abs(part))]
            step = abs(largest) / 127 if mode == "int8" else largest / -8
            if step:
                low, high = (-127, 127) if mode == "int8" else (-8, 7)
                codes = np.clip(np.rint(part / step), low, high)
                to[first : first + block] = codes * step
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 2, 63, 64, 65, 129, 300])
def test_the_numbers_of_the_rows(mode, width):
    weights, _, _ = drawn(width)
    weights[3] = 0
    rows = tf_hsm.quantize_rows(weights, mode)
    assert rows.shape == weights.shape
    found = rows.numpy()
    np.testing.assert_allclose(
        found, expected_numbers(weights, mode), rtol=1e-6
    )
    in_graph = tf.function(quantized_rows.tensor)(rows)
    np.testing.assert_array_equal(in_graph, found)
    block = width if mode == "int8" else 64
    for first in range(0, width, block):
        part = weights[:, first : first + block]
        bound = abs(part).max(axis=1) * (1 / 254 if mode == "int8" else 1 / 8)
        error = abs(found[:, first : first + block] - part).max(axis=1)
        assert (error <= bound * (1 + 1e-5)).all()


@pytest.mark.parametrize(
    "op, name, width, mode, scale",
    all_pairs(
        ON_CODES,
        ["two_level_30", "flat_70", "pinned_40", "wide_2100", "forest_33"],
        [0, 3, 17, 65, 300],
        MODES,
        [None, 0, -0.0, -1, 1e-45, 3e38, -3e38, np.inf, -np.inf, np.nan],
    ),
)
def test_answers_have_the_bits_of_float_rows(op, name, width, mode, scale):
    """The scales, some or all, and the options may have any value."""
    for seed, some in enumerate([slice(3, 9), slice(None)] * 2):
        rng = np.random.default_rng(seed)
        call = valid_call(op, True, rng, np.float32, name, (5,), width, mode)
        codes, scales = (call.arguments[n][0] for n in ("weights", "scales"))
        scales = np.array(scales)
        if scale is not None:
            scales[some] = scale
        call.arguments["scales"] = [scales]
        found = call.run()
        rows = map(tf.Variable, (codes, scales))
        with np.errstate(over="ignore", invalid="ignore"):
            floats = tf_hsm.QuantizedRows(*rows, width).numpy()
        call.arguments.update(weights=[floats], scales=[])
        assert_same(found, call.run())


def test_graphs_and_kinds_of_weights():
    weights, biases, inputs = drawn(65)
    rows = tf_hsm.quantize_rows(tf.Variable(weights, dtype=tf.float32))
    eager = tf_hsm.hierarchical_softmax_top_k(rows, biases, inputs, TREE, 3)
    graph = tf.function(
        lambda x: tf_hsm.hierarchical_softmax_top_k(rows, biases, x, TREE, 3),
        input_signature=[tf.TensorSpec([None, None])],
    )(inputs)
    np.testing.assert_array_equal(eager.classes, graph.classes)
    np.testing.assert_array_equal(eager.log_probs, graph.log_probs)
    bits = tf_hsm.quantize_rows(tf.cast(weights, tf.bfloat16))
    assert bits.numpy().dtype == np.float32


def test_there_is_no_gradient():
    weights, biases, inputs = drawn(16)
    rows = tf_hsm.quantize_rows(weights)
    inputs = tf.Variable(inputs)
    with tf.GradientTape() as tape:
        found = tf_hsm.hierarchical_softmax_log_probs(
            rows, biases, inputs, TREE
        )
    with pytest.raises(tf.errors.UnimplementedError, match="no gradient"):
        tape.gradient(found, inputs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [9, 10])
def test_inputs_have_the_width_of_the_rows(mode, width):
    """Two codes in a byte do not tell whether the last one counts."""
    weights, _, _ = drawn(width)
    rows = tf_hsm.quantize_rows(weights, mode)

    def top(inputs):
        return tf_hsm.hierarchical_softmax_top_k(rows, None, inputs, TREE, 2)

    for wrong in (width - 1, width + 1):
        inputs = np.ones([3, wrong], "float32")
        errors = (tf.errors.InvalidArgumentError, ValueError)
        for shape in ([None, None], [3, wrong], None):
            spec = tf.TensorSpec(shape)
            with pytest.raises(errors, match="hape"):
                tf.function(top, input_signature=[spec])(inputs)
        with pytest.raises(ValueError, match=rf"\[..., {width}\]"):
            top(inputs)


def test_a_checkpoint_holds_them(tmp_path):
    weights, _, _ = drawn(65)
    rows = tf_hsm.quantize_rows(weights, "int4")
    path = tf.train.Checkpoint(rows=rows).save(tmp_path / "rows")
    others = tf_hsm.quantize_rows(np.ones_like(weights), "int4")
    tf.train.Checkpoint(rows=others).restore(path)
    np.testing.assert_array_equal(others.numpy(), rows.numpy())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(0, 7), (5, 0)])
def test_no_rows_and_no_width(mode, shape):
    rows = tf_hsm.quantize_rows(np.zeros(shape, "float32"), mode)
    assert rows.numpy().shape == shape


def test_bad_arguments():
    weights, _, _ = drawn(100)
    infinite = np.where(weights == weights[2, 3], np.inf, weights)
    rows, quantize = tf_hsm.quantize_rows(weights, "int4"), tf_hsm.quantize_rows
    fixed = tf.zeros([3, 4], tf.int8)
    for error, match, call in (
        (ValueError, "already", lambda: quantize(rows)),
        (ValueError, "mode must be one of", lambda: quantize(weights, "int2")),
        (ValueError, r"\[rows, width\]", lambda: quantize(weights[0])),
        (ValueError, "finite", lambda: quantize(infinite)),
        (ValueError, "must have the shape", lambda: rows.assign(weights[:5])),
        (
            *(TypeError, "codes must be a variable"),
            lambda: tf_hsm.QuantizedRows(fixed, rows.scales, 4),
        ),
    ):
        with pytest.raises(error, match=match):
            call()
