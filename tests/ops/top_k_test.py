"""The k best classes, against a sort of all; and beams."""

import functools

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import oracle, trees

top_k = tf_hsm.hierarchical_softmax_top_k

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
TREE = tf_hsm.Tree.huffman(1 + np.arange(60) ** 2, branching=3)

build = functools.cache(lambda name: {**trees.CATALOGUE, **trees.DEEP}[name]())


def random_arguments(tree, batch=7, width=5, dtype=np.float32):
    """Weights, biases and inputs."""
    problem = oracle.random_problem(tree, batch, width, dtype)
    return problem.weights, problem.biases, problem.inputs


def all_log_probs(arguments, tree, nodes=False):
    function = tf_hsm.hierarchical_softmax_log_probs
    return function(*arguments, tree, nodes=nodes).numpy()


def check(arguments, tree, k, **options):
    """The result has the bits and the order of a sort of all classes."""
    values = all_log_probs(arguments, tree)
    classes = reference.ranking(values)[..., :k]
    found = top_k(*arguments, tree, k, **options)
    assert found.classes.dtype == tf.int64
    np.testing.assert_array_equal(found.classes, classes)
    np.testing.assert_array_equal(
        found.log_probs, np.take_along_axis(values, classes, -1)
    )


def some_k(tree):
    return sorted({1, min(5, tree.num_classes), tree.num_classes})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_sort_of_all_classes(name, dtype):
    tree = build(name)
    arguments = random_arguments(tree, dtype=dtype)
    for k in some_k(tree):
        check(arguments, tree, k)
        check([tf.Variable(a) for a in arguments[:2]] + [arguments[2]], tree, k)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_best_by_the_reference(name, dtype):
    """Each place holds what the float64 reference has there, but for rounding.

    That does not rest on the op that gives all log-probabilities.
    """
    tree = build(name)
    problem = oracle.random_problem(tree, 7, 5, dtype)
    values, bound = (
        reference.by_class(tree, a)
        for a in reference.node_log_probs(tree, problem)
    )
    found = top_k(*random_arguments(tree, dtype=dtype), tree, tree.num_classes)
    classes = found.classes.numpy()
    np.testing.assert_array_equal(
        np.sort(classes), np.tile(np.arange(tree.num_classes), (7, 1))
    )
    at = np.take_along_axis(values, classes, -1)
    worst = bound.max(-1, keepdims=True)
    reference.assert_near(found.log_probs, at, worst + 0 * at)
    reference.assert_near(at, -np.sort(-values), 2 * worst + 0 * at)


@pytest.mark.parametrize(
    "kind, dtype",
    [
        ("zero", np.float32),
        ("equal rows", np.float64),
        ("integers", np.float32),
        ("no bias", np.float64),
    ],
)
@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_ties(name, kind, dtype):
    """Equal classes come in the order of their numbers."""
    tree, rng = build(name), np.random.default_rng(0)
    weights, biases, inputs = random_arguments(tree, dtype=dtype)
    if kind == "zero":
        weights, biases = 0 * weights, 0 * biases
    elif kind == "equal rows":
        which = rng.integers(min(2, tree.num_rows), size=tree.num_rows)
        weights, biases = weights[which], biases[which]
    else:
        weights = rng.integers(-1, 2, size=weights.shape).astype(dtype)
        biases = None if kind == "no bias" else np.round(biases)
        inputs = np.round(2 * inputs)
    for k in some_k(tree):
        check((weights, biases, inputs), tree, k)


def test_all_equal():
    """Equal classes at one depth come in the order of their numbers."""
    for name in ("binary_64", "flat", "two_level_2"):
        tree = build(name)
        weights, _, inputs = random_arguments(tree)
        for k in some_k(tree):
            found = top_k(0 * weights, None, inputs, tree, k)
            want = np.tile(np.arange(k), (7, 1))
            np.testing.assert_array_equal(found.classes, want)


@pytest.mark.parametrize("k", [1, 300, 10_001])
def test_a_chain_of_10000_levels(k):
    tree = build("chain_10000")
    check(random_arguments(tree, batch=2), tree, k)


@pytest.mark.parametrize("scale", [30.0, 1e4])
@pytest.mark.parametrize("name", ["two_level_100", "huffman_2ary", "chain_50"])
def test_large_logits(name, scale):
    """Where most classes have a probability that is no float32 above 0."""
    tree = build(name)
    weights, biases, inputs = random_arguments(tree)
    for k in some_k(tree):
        check((np.float32(scale) * weights, biases, inputs), tree, k)


@pytest.mark.parametrize("beam_width", [None, 3])
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    "leading, width", [([], 7), ([0], 7), ([3, 2], 7), ([6], 0), ([2, 3], 1)]
)
def test_shapes(leading, width, graph, beam_width):
    """Any leading shape and width, and k, in graphs that do not know them."""
    batch = int(np.prod(leading))
    weights, biases, inputs = random_arguments(TREE, batch, width)
    weights = keras.Variable(weights)
    options = {"beam_width": beam_width, "return_pruned": True}
    want = top_k(weights, biases, inputs, TREE, 4, **options)

    def run(inputs, k):
        return top_k(weights, biases, inputs, TREE, k, **options)

    if graph:
        spec = [tf.TensorSpec(None), tf.TensorSpec(None, tf.int32)]
        run = tf.function(run, input_signature=spec)
    found = run(tf.reshape(inputs, [*leading, width]), tf.constant(4))
    for one, all_of in zip(found[:2], want[:2], strict=True):
        assert one.shape == [*leading, 4]
        np.testing.assert_array_equal(np.reshape(one, [batch, 4]), all_of)
    assert found.num_pruned.shape == leading
    np.testing.assert_array_equal(np.ravel(found[2]), want.num_pruned)


def test_static_shapes():
    """What a graph knows of the arguments, it knows of the results."""
    weights, biases, _ = random_arguments(TREE)
    variable = tf.Variable(weights)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 4, 5]),
            tf.TensorSpec([], tf.int64),
        ]
    )
    def run(inputs, k):
        return (
            *top_k(
                weights,
                biases,
                inputs,
                TREE,
                3,
                beam_width=2,
                return_pruned=True,
            ),
            *top_k(variable, None, inputs, TREE, k),
        )

    shapes = [list(s.shape) for s in run.get_concrete_function().outputs]
    known, unknown = [None, 4, 3], [None, 4, None]
    assert shapes == [known, known, [None, 4], unknown, unknown]


@pytest.mark.parametrize("inputs_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_of_another_type(dtype, inputs_dtype):
    """They are read as the type of the sums."""
    weights, biases, inputs = random_arguments(TREE, dtype=dtype)
    inputs = inputs.astype(inputs_dtype)
    exact = inputs.astype(oracle.accumulator(dtype))
    found = top_k(weights, biases, inputs, TREE, 60)
    assert found.log_probs.dtype == oracle.accumulator(dtype)
    want = top_k(weights, biases, exact, TREE, 60)
    for one, other in zip(found, want, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("beam_width", [None, 2])
def test_the_rest_of_the_batch_does_not_matter(beam_width):
    """To no bit, in a batch that is searched in parts."""
    tree = build("huffman_4ary")
    weights, biases, inputs = random_arguments(tree, batch=2100)
    inputs[1::2] *= 0.1
    options = {"beam_width": beam_width, "return_pruned": True}
    want = top_k(weights, biases, inputs, tree, 9, **options)
    order = np.random.default_rng(0).permutation(2100)
    other = top_k(weights, biases, inputs[order], tree, 9, **options)
    for one, all_of in zip(other, want, strict=True):
        np.testing.assert_array_equal(one, all_of.numpy()[order])
    for i in (0, 1, 1024, 2099):
        single = top_k(weights, biases, inputs[i], tree, 9, **options)
        for one, all_of in zip(single, want, strict=True):
            np.testing.assert_array_equal(one, all_of[i])


def spoil(kind, tree, weights, biases, inputs):
    """NaN, or infinities, in some place."""
    some = np.random.default_rng(0).random(tree.num_rows) < 0.2
    if kind == "inputs":
        inputs[2, 0] = np.nan
    elif kind == "some weights":
        weights[some, 0] = np.nan
    elif kind == "all weights":
        weights[:] = np.nan
    else:
        biases[some] = np.inf if kind == "plus infinity" else -np.inf
    return weights, biases, inputs


@pytest.mark.parametrize("beam_width", [None, 2])
@pytest.mark.parametrize(
    "kind", ["inputs", "some weights", "all weights", "plus infinity", "minus"]
)
@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_nan(name, kind, beam_width):
    """Always k classes, none twice; NaN after all numbers."""
    tree = build(name)
    arguments = spoil(kind, tree, *random_arguments(tree))
    values = all_log_probs(arguments, tree)
    for k in some_k(tree):
        found = top_k(
            *arguments, tree, k, beam_width=beam_width, return_pruned=True
        )
        classes = found.classes.numpy()
        assert (np.diff(np.sort(classes)) > 0).all()
        assert classes.min() >= 0 and classes.max() < tree.num_classes
        np.testing.assert_array_equal(
            found.log_probs, np.take_along_axis(values, classes, -1)
        )
        best = reference.ranking(values)[:, :k]
        is_finite = np.take_along_axis(values, best, -1) > -np.inf
        is_exact = (found.num_pruned.numpy() == 0)[:, np.newaxis]
        same = classes == best
        assert (same | ~is_finite | ~is_exact).all()
        keys = np.nan_to_num(found.log_probs.numpy(), nan=-np.inf)
        assert (np.diff(np.maximum(keys, -1e38)) <= 0).all()
        if kind == "inputs":
            others = np.arange(7) != 2
            assert (same[others] | ~is_exact[others]).all()


@pytest.mark.parametrize("beam_width", [1, 3])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_beams(name, ties, beam_width):
    """Classes, and how many nodes were left out, as by a search in Python."""
    tree = build(name)
    arguments = random_arguments(tree, batch=4)
    if ties:
        arguments = [np.round(array) for array in arguments]
    nodes = all_log_probs(arguments, tree, nodes=True)
    for k in some_k(tree):
        found = top_k(
            *arguments, tree, k, beam_width=beam_width, return_pruned=True
        )
        for i, row in enumerate(nodes):
            classes, pruned = reference.beam_search(tree, row, k, beam_width)
            np.testing.assert_array_equal(found.classes[i], classes)
            assert found.num_pruned[i] == pruned
            np.testing.assert_array_equal(
                found.log_probs[i], row[tree.class_rows[classes]]
            )


@pytest.mark.parametrize("k", [1, 4])
def test_nothing_pruned_is_exact(k):
    """And of those with something pruned, some are not."""
    tree = build("balanced_5ary_113")
    weights, biases, inputs = random_arguments(tree, batch=300)
    exact = top_k(weights, biases, inputs, tree, k, return_pruned=True)
    assert not exact.num_pruned.numpy().any()
    beam = top_k(
        weights, biases, inputs, tree, k, beam_width=1, return_pruned=True
    )
    is_same = (beam.classes.numpy() == exact.classes.numpy()).all(1)
    is_whole = beam.num_pruned.numpy() == 0
    assert is_whole.any() and not is_same.all()
    assert is_same[is_whole].all()


@pytest.mark.parametrize("name", [*trees.CATALOGUE, "chain_10000"])
def test_wide_beams_are_exact(name):
    tree = build(name)
    arguments = random_arguments(tree, batch=3)
    width = max(tree.num_groups, 1)
    k = min(tree.num_classes, 6)
    for beam_width in (width, 2**62, tf.constant(width)):
        check(arguments, tree, k, beam_width=beam_width)
        beam = top_k(
            *arguments, tree, k, beam_width=beam_width, return_pruned=True
        )
        assert not beam.num_pruned.numpy().any()


@pytest.mark.parametrize("k", [-1, 0, 61, 2**40])
def test_k_out_of_range(k):
    """The message says what is legal."""
    arguments = random_arguments(TREE)
    for value in (k, tf.constant(k, tf.int64)):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=rf"k = {k} is outside \[1, 60\]",
        ):
            top_k(*arguments, TREE, value)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        tf.function(lambda: top_k(*arguments, TREE, k), autograph=False)()


def test_arguments_that_do_not_fit():
    arguments = random_arguments(TREE)
    with pytest.raises(tf.errors.InvalidArgumentError, match="k must be a sc"):
        top_k(*arguments, TREE, [2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="beam_width"):
        top_k(*arguments, TREE, 2, beam_width=tf.constant(-3))
    with pytest.raises(tf.errors.InvalidArgumentError, match="row_below"):
        top_k(*arguments, tf_hsm.Tree.two_level(60), 2)
