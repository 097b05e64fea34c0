"""Answers on weights of 8 and 4 bits."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm.runtime import quantized_rows

TREES = {
    "two levels": tf_hsm.Tree.two_level(500),
    "binary": tf_hsm.Tree.balanced(100, 2),
    "flat": tf_hsm.Tree.flat(70),
    "huffman": tf_hsm.Tree.huffman(1 / np.arange(1, 200)),
    "pinned": tf_hsm.Tree.balanced(100, 2).pin(),
}
ANSWERS = {
    "log_probs": lambda w, b, x, tree: [
        tf_hsm.hierarchical_softmax_log_probs(w, b, x, tree)
    ],
    "log_prob": lambda w, b, x, tree: [
        tf_hsm.hierarchical_softmax_log_prob(
            w, b, np.tile(np.arange(9), [len(x), 1]), x, tree
        )
    ],
    "top_k": lambda w, b, x, tree: tf_hsm.hierarchical_softmax_top_k(
        w, b, x, tree, 7
    ),
    "beam": lambda w, b, x, tree: tf_hsm.hierarchical_softmax_top_k(
        w, b, x, tree, 3, beam_width=4
    ),
    "allowed": lambda w, b, x, tree: tf_hsm.hierarchical_softmax_top_k(
        w, b, x, tree, 3, allowed=[1, 5, 40, 60], renormalize=True
    ),
    "sample": lambda w, b, x, tree: [
        tf_hsm.hierarchical_softmax_sample(w, b, x, tree, 9, seed=3)
    ],
}


def drawn(tree, width):
    rng = np.random.default_rng(width)
    shape = [tree.num_weight_rows, width]
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


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("width", [1, 2, 63, 64, 65, 129, 300])
def test_the_numbers_of_the_rows(mode, width):
    weights, _, _ = drawn(TREES["flat"], width)
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


@pytest.mark.parametrize("width", [3, 17, 65, 300])
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_answers_have_the_bits_of_float_rows(mode, name, width):
    tree = TREES[name]
    weights, biases, inputs = drawn(tree, width)
    rows = tf_hsm.quantize_rows(weights, mode)
    floats = tf.Variable(rows.numpy())
    answers = [*ANSWERS.values()]
    if not tree.pinned:
        answers.append(lambda *given: tf_hsm.label_tree_top_k(*given, 5))
    for answer in answers:
        for found, expected in zip(
            answer(rows, biases, inputs, tree),
            answer(floats, biases, inputs, tree),
            strict=True,
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_log_probabilities_stay_within_the_bound(mode):
    """An error e of each logit moves a log-softmax by at most 2 e a group."""
    tree = TREES["two levels"]
    weights, biases, inputs = drawn(tree, 200)
    rows = tf_hsm.quantize_rows(weights, mode)
    errors = abs(inputs) @ abs(rows.numpy() - weights).T
    found = tf_hsm.hierarchical_softmax_log_probs(rows, biases, inputs, tree)
    exact = tf_hsm.hierarchical_softmax_log_probs(weights, biases, inputs, tree)
    bound = 2 * tree.depth * errors.max(axis=1, keepdims=True)
    assert (abs(found - exact).numpy() <= bound + 1e-4).all()
    assert abs(found - exact).numpy().max() > 0


def test_graphs_and_kinds_of_weights():
    tree = TREES["two levels"]
    weights, biases, inputs = drawn(tree, 65)
    rows = tf_hsm.quantize_rows(tf.Variable(weights, dtype=tf.float32))
    eager = tf_hsm.hierarchical_softmax_top_k(rows, biases, inputs, tree, 3)
    graph = tf.function(
        lambda x: tf_hsm.hierarchical_softmax_top_k(rows, biases, x, tree, 3),
        input_signature=[tf.TensorSpec([None, None])],
    )(inputs)
    np.testing.assert_array_equal(eager.classes, graph.classes)
    np.testing.assert_array_equal(eager.log_probs, graph.log_probs)
    bits = tf_hsm.quantize_rows(tf.cast(weights, tf.bfloat16))
    assert bits.numpy().dtype == np.float32


def test_training_is_refused():
    tree = TREES["two levels"]
    weights, biases, inputs = drawn(tree, 16)
    rows, labels = tf_hsm.quantize_rows(weights), np.zeros(5, int)
    given, sgd = (inputs, tree), tf_hsm.optimizers.SGD(0.1)
    for function, arguments in (
        (tf_hsm.hierarchical_softmax_loss, (labels, *given)),
        (tf_hsm.label_tree_loss, (labels[:, None], *given)),
        (tf_hsm.hierarchical_softmax_train_step, (labels, *given, sgd)),
    ):
        with pytest.raises(TypeError, match="the weights as floats"):
            function(rows, biases, *arguments)
    inputs = tf.Variable(inputs)
    with tf.GradientTape() as tape:
        found = tf_hsm.hierarchical_softmax_log_probs(
            rows, biases, inputs, tree
        )
    with pytest.raises(tf.errors.UnimplementedError, match="no gradient"):
        tape.gradient(found, inputs)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("width", [9, 10])
def test_inputs_have_the_width_of_the_rows(mode, width):
    """Two codes in a byte do not tell whether the last one counts."""
    tree = TREES["two levels"]
    weights, _, _ = drawn(tree, width)
    rows = tf_hsm.quantize_rows(weights, mode)

    def top(inputs):
        return tf_hsm.hierarchical_softmax_top_k(rows, None, inputs, tree, 2)

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
    weights, _, _ = drawn(TREES["flat"], 65)
    rows = tf_hsm.quantize_rows(weights, "int4")
    path = tf.train.Checkpoint(rows=rows).save(tmp_path / "rows")
    others = tf_hsm.quantize_rows(np.ones_like(weights), "int4")
    tf.train.Checkpoint(rows=others).restore(path)
    np.testing.assert_array_equal(others.numpy(), rows.numpy())


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("shape", [(0, 7), (5, 0)])
def test_no_rows_and_no_width(mode, shape):
    rows = tf_hsm.quantize_rows(np.zeros(shape, "float32"), mode)
    assert rows.numpy().shape == shape


def test_bad_arguments():
    tree = TREES["two levels"]
    weights, biases, inputs = drawn(tree, 100)
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

    def top(codes=rows.codes, scales=rows.scales, biases=biases, x=inputs):
        bad = tf_hsm.QuantizedRows(codes, scales, x.shape[-1])
        return tf_hsm.hierarchical_softmax_top_k(bad, biases, x, tree, 1)

    errors = (tf.errors.InvalidArgumentError, ValueError)
    assert top().classes.shape == (5, 1)
    for wrong in (
        {"x": inputs[:, :97]},
        {"x": tf.concat([inputs, inputs], 1)},
        {"scales": tf.Variable(tf.ones([rows.shape[0], 3]))},
        {"scales": tf.Variable(tf.ones([rows.shape[0]]))},
        {"scales": tf.Variable(tf.ones([5, 2]))},
        {"scales": tf.Variable(tf.ones([rows.shape[0], 2], tf.float64))},
        {"codes": tf.Variable(rows.codes[:5])},
        {"codes": tf.Variable(tf.cast(rows.codes, tf.int16))},
        {"biases": tf.Variable(tf.cast(biases, tf.float64))},
    ):
        with pytest.raises(errors):
            top(**wrong)
