"""Ranks of labels: against the classes that a search finds; refusals."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm.ops.label_ranks import label_ranks

RNG = np.random.default_rng(0)
TREES = {
    "two_level": tf_hsm.Tree.two_level(70),
    "huffman": tf_hsm.Tree.huffman(RNG.integers(1, 99, 60), branching=3),
    "pinned": tf_hsm.Tree.huffman(range(1, 41)).pin(),
    "flat": tf_hsm.Tree.flat(50),
}
WIDTH, EXAMPLES = 5, 40


def ranks_of(name, k, labels, inputs, dtype="float32", ties=False, **options):
    """Ranks by the op, and the classes that a search finds, best first."""
    tree = TREES[name]
    weights = RNG.normal(size=[tree.num_weight_rows, WIDTH])
    biases = RNG.integers(2, size=tree.num_weight_rows)
    parameters = tf.Variable(tf.cast(weights * (not ties), dtype))
    parameters = parameters, tf.cast(biases, dtype)
    found = label_ranks(*parameters, labels, inputs, tree, k, **options)
    best = tf_hsm.hierarchical_softmax_top_k(
        *parameters, inputs, tree, tree.num_classes, **options
    )
    return found.numpy(), best.classes.numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_a_rank_is_the_place_among_the_best(name, ties, dtype):
    """As top_k has it, which breaks ties by the number of the class."""
    classes = TREES[name].num_classes
    labels = RNG.integers(-1, classes, size=[4, EXAMPLES // 4])
    inputs = RNG.normal(size=[*labels.shape, WIDTH]).astype("f4")
    cap = {"logit_soft_cap": 2.0} if name == "flat" else {}
    for k in (1, 10, classes):
        found, best = ranks_of(name, k, labels, inputs, dtype, ties, **cap)
        wanted = np.argmax(best == labels[..., np.newaxis], -1)
        wanted = np.where(labels < 0, k, np.minimum(wanted, k))
        np.testing.assert_array_equal(found, wanted)


def test_quantized_weights():
    """The codes are read as a search reads them."""
    tree = TREES["two_level"]
    rows = RNG.normal(size=[tree.num_weight_rows, WIDTH]).astype("f4")
    rows = tf_hsm.quantize_rows(rows, "int8")
    inputs = RNG.normal(size=[EXAMPLES, WIDTH]).astype("f4")
    best = tf_hsm.hierarchical_softmax_top_k(rows, None, inputs, tree, 9)
    for place in (0, 4, 8):
        labels = best.classes[:, place]
        found = label_ranks(rows, None, labels, inputs, tree, 9)
        np.testing.assert_array_equal(found, np.full(EXAMPLES, place))
        found = label_ranks(rows, None, labels, inputs, tree, 3)
        np.testing.assert_array_equal(found, np.full(EXAMPLES, min(place, 3)))


@pytest.mark.parametrize(
    "labels, k, message",
    [
        ([0, 1], 1, r"labels must have the shape \[3\]"),
        ([0, 1, 70], 1, r"labels\[2\] = 70 is outside \[0, 70\)"),
        ([0, -2, 1], 1, r"labels\[1\] = -2 is outside \[0, 70\)"),
        ([0, 1, 2], 0, r"k = 0 is outside \[1, 70\]"),
        ([0, 1, 2], 71, r"k = 71 is outside \[1, 70\]"),
    ],
)
def test_refusals(labels, k, message):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)) as error:
        ranks_of("two_level", k, np.array(labels), np.zeros([3, WIDTH], "f4"))
    error.match(message)


def test_an_input_of_nan_has_no_rank():
    inputs = np.array([[np.nan] * WIDTH, [1.0] * WIDTH], "f4")
    found, _ = ranks_of("two_level", 70, np.array([3, 3]), inputs)
    assert found[0] == 70 > found[1]
