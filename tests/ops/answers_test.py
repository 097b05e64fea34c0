"""Log-probabilities and best classes: one table of trees, types and options.

Log-probabilities against the reference in float64; the best classes, among
all, above bounds and among allowed ones, against a sort of the
log-probabilities.
"""

import functools
import re

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import (
    answer_cases,
    masks,
    oracle,
    references,
    trees,
)
from tests.support import inference_reference as reference
from tests.support.pairs import all_pairs
from tests.support.places import HERE
from tests.support.references import (
    FORESTS,
    NAMES,
    PINNED,
    all_starts,
    build,
)
from tests.support.top_k_cases import check_top_k, some_k, tied
from tests.support.training import assert_same
from tf_hsm import hierarchical_softmax_log_prob as log_prob
from tf_hsm import hierarchical_softmax_log_probs as log_probs
from tf_hsm import hierarchical_softmax_sample as sample
from tf_hsm import hierarchical_softmax_top_k as top_k

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
KINDS = [tf.constant, tf.Variable]
TREE = tf_hsm.Tree.huffman(1 + np.arange(60) ** 2, branching=3)


def random_arguments(tree, batch=7, width=5, dtype=np.float32, make=np.array):
    """Weights, biases and inputs; the first two as `make` makes them."""
    problem = references.random_problem(tree, batch, width, dtype)
    return make(problem.weights), make(problem.biases), problem.inputs


@pytest.mark.parametrize(
    "name, dtype, shape, nodes, parameter, graph, has_starts",
    all_pairs(
        NAMES,
        DTYPES,
        [(5, 3), (67, 33)],
        [False, True],
        KINDS,
        [False, True],
        [False, True],
    ),
)
def test_log_probs(name, dtype, shape, nodes, parameter, graph, has_starts):
    has_starts = has_starts and name in FORESTS
    answer_cases.check_log_probs(
        HERE, name, shape, dtype, nodes, parameter, graph, has_starts
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cap", [0.5, 2.0])
def test_log_probs_of_soft_caps(dtype, cap):
    answer_cases.check_log_probs(
        HERE, "flat", (17, 9), dtype, nodes=False, logit_soft_cap=cap
    )


def test_a_chain_of_10000_levels():
    answer_cases.check_log_probs(
        HERE, "chain_10000", (3, 5), np.float32, nodes=False
    )
    tree = build("chain_10000")
    for k in (1, 300, 10_001):
        check_sorted(tree, random_arguments(tree, batch=2), k)


@pytest.mark.parametrize("scale", [30.0, 1e4])
@pytest.mark.parametrize("name", ["two_level_100", "huffman_2ary", "chain_50"])
def test_large_logits(name, scale):
    """Beyond |z| = 90, where an exponential overflows."""
    tree = build(name)
    problem = oracle.random_problem(tree, 20, 9, np.float32)
    problem = problem.replace(weights=np.float32(scale) * problem.weights)
    arguments = problem.weights, problem.biases, problem.inputs
    want, bound = reference.node_log_probs(tree, problem)
    values = log_probs(*arguments, tree, nodes=True)
    reference.assert_near(values, want, bound)
    check_sorted(tree, arguments, 5)


@pytest.mark.parametrize(
    "name, dtype, nodes, label_dtype",
    all_pairs(
        [*NAMES, "chain_10000"], DTYPES, [False, True], [np.int32, np.int64]
    ),
)
def test_given_classes(name, dtype, nodes, label_dtype):
    """The bits of `log_probs`, also of a class that comes twice; -1: none."""
    tree = build(name)
    weights, biases, x = random_arguments(tree, 5, 3, dtype, tf.Variable)
    for starts in all_starts(tree, 5, dtype):
        options = {"nodes": nodes, "root_log_probs": starts}
        want = log_probs(weights, biases, x, tree, **options).numpy()
        least = 0 if starts is None else -1
        rng = np.random.default_rng(0)
        classes = rng.integers(least, want.shape[1], size=(5, 8))
        classes[:, 1], classes[0, 0] = classes[:, 0], least
        for given in (classes, classes[:, :1], classes[:, :0]):
            given = given.astype(label_dtype)
            actual = log_prob(weights, biases, given, x, tree, **options)
            picked = np.take_along_axis(want, np.maximum(given, 0), 1)
            picked = np.where(given < 0, -np.inf, picked)
            np.testing.assert_array_equal(actual, picked)


def check_sorted(tree, arguments, k, least=None, **options):
    """The result has the bits and the order of a sort of all classes."""
    values = log_probs(*arguments, tree).numpy()
    found = top_k(*arguments, tree, k, **options)
    assert_same(found, reference.ranked(values, k, bounds=least))


LIMITS = [None, "bounds", "threshold"]
TIES = [None, "zero", "equal rows", "integers"]
CHANCES = [None, 0.0, 0.05, 0.5, 1.0]
LISTS = ["shared", "of each"]


@pytest.mark.parametrize(
    "name, dtype, limit, ties, chance, lists, parameter, batch",
    all_pairs(NAMES, DTYPES, LIMITS, TIES, CHANCES, LISTS, KINDS, [7, 40]),
)
def test_top_k(name, dtype, limit, ties, chance, lists, parameter, batch):
    check_top_k(HERE, name, dtype, limit, ties, chance, lists, parameter, batch)


@pytest.mark.parametrize(
    "name, dtype, limit, ties, chance, lists, parameter",
    all_pairs(
        list(trees.CATALOGUE), DTYPES, LIMITS, TIES, CHANCES, LISTS, KINDS
    ),
)
def test_top_k_of_label_trees(
    name, dtype, limit, ties, chance, lists, parameter
):
    options = chance, lists, parameter
    check_top_k(HERE, name, dtype, limit, ties, *options, sigmoids=True)


def test_one_threshold_for_all_inputs():
    """A number, a tensor; with any leading shape, in a graph too."""
    arguments = random_arguments(TREE, 6, dtype=np.float64)
    weights, biases, x = arguments
    threshold = np.median(np.exp(log_probs(*arguments, TREE))) * (1 - 1e-9)
    bounds = np.full(6, np.log(threshold))
    for given in (threshold, tf.constant(threshold), np.full(6, threshold)):
        check_sorted(TREE, arguments, 60, bounds, threshold=given)
    check_sorted(TREE, arguments, 3, threshold=0.0)

    def run(inputs, threshold):
        return top_k(weights, biases, inputs, TREE, 5, threshold=threshold)

    thresholds = np.geomspace(1e-4, 1, 6).reshape(3, 2)
    eager = run(x.reshape(3, 2, -1), thresholds)
    spec = [tf.TensorSpec(None, tf.float64)] * 2
    traced = tf.function(run, input_signature=spec)
    for one, other in zip(
        eager, traced(x.reshape(3, 2, -1), thresholds), strict=True
    ):
        assert one.shape == [3, 2, 5]
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "name, ties, beam_width, sigmoids",
    all_pairs(
        [*trees.CATALOGUE, *PINNED], [None, "integers"], [1, 3], [False, True]
    ),
)
def test_beams(name, ties, beam_width, sigmoids):
    """Classes, and how many nodes were left out, as by a search in Python."""
    tree = build(name)
    problem = tied(ties, references.random_problem(tree, 4, 5, np.float32))
    arguments = answer_cases.arguments_of(HERE, problem)
    if sigmoids and not tree.pinned:
        weights, biases, inputs = arguments
        rows = np.tile(np.arange(tree.num_rows), [4, 1])
        nodes = tf_hsm.label_tree_log_prob(
            weights, biases, rows, inputs, tree, nodes=True
        ).numpy()
        search = tf_hsm.label_tree_top_k
    else:
        nodes = log_probs(*arguments, tree, nodes=True).numpy()
        search = top_k
    for k in some_k(HERE, tree):
        found = search(
            *arguments, tree, k, beam_width=beam_width, return_pruned=True
        )
        for i, row in enumerate(nodes):
            classes, pruned = reference.beam_search(tree, row, k, beam_width)
            np.testing.assert_array_equal(found.classes[i], classes)
            assert found.num_pruned[i] == pruned
            np.testing.assert_array_equal(
                found.log_probs[i], row[tree.class_rows[classes]]
            )


@pytest.mark.parametrize(
    "name, allowed",
    [
        (name, allowed)
        for name in ("balanced_5ary_113", *FORESTS)
        for allowed in (None, 0.3)
    ],
)
def test_nothing_pruned_is_exact(name, allowed):
    """Some of the examples with something pruned are inexact."""
    tree = build(name)
    arguments = random_arguments(tree, batch=300)
    options = {"root_log_probs": all_starts(tree, 300, np.float32)[-1]}
    if allowed:
        mask = masks.random_mask(tree, allowed, 1)
        options["allowed"] = masks.lists_of(mask)
    search = functools.partial(
        top_k,
        *arguments,
        tree,
        min(4, tree.num_classes),
        return_pruned=True,
        **options,
    )
    exact = search()
    assert not exact.num_pruned.numpy().any()
    beam = search(beam_width=1)
    is_same = (beam.classes.numpy() == exact.classes.numpy()).all(1)
    is_whole = beam.num_pruned.numpy() == 0
    assert is_same[is_whole].all()
    if name == "balanced_5ary_113" and not allowed:
        assert is_whole.any() and not is_same.all()
    for width in (tree.num_groups, 2**62, tf.constant(tree.num_groups)):
        assert_same(search(beam_width=width), exact)


def test_nan():
    answer_cases.check_nan(HERE)


@pytest.mark.parametrize("masked", [1, 11])
def test_rows_that_are_switched_off(masked):
    """A bias of -inf switches off a row, and what is below it, in all results.

    The gradient of a class elsewhere is the gradient of its loss.
    """
    tree = tf_hsm.Tree.two_level(9)
    problem = oracle.random_problem(tree, 3, 4, np.float32)
    is_off = [masked in tree.path(c) for c in range(9)]
    assert sum(is_off) == (3 if masked == 1 else 1)
    problem.biases[masked] = -np.inf
    weights, biases, inputs = sources = [
        tf.Variable(a)
        for a in (problem.weights, problem.biases, problem.inputs)
    ]
    with tf.GradientTape(persistent=True) as tape:
        values = log_probs(*sources, tree)
        loss = tf_hsm.hierarchical_softmax_loss(
            weights, biases, [0, 1, 6], inputs, tree
        )
        of_labels = -tf.gather(values, [0, 1, 6], batch_dims=1)
    np.testing.assert_array_equal(np.isneginf(values), [is_off] * 3)
    for options in ({}, {"top_k": 9}, {"top_p": 0.99999}):
        for temperature in (0.5, 1.0, 50.0):
            options["temperature"] = temperature
            draws = sample(*sources, tree, 2_000, seed=1, **options)
            assert not np.take(is_off, draws).any()
    np.testing.assert_allclose(np.exp(values).sum(1), 1, rtol=1e-6)
    for source in sources:
        np.testing.assert_allclose(
            tape.gradient(of_labels, source),
            tf.convert_to_tensor(tape.gradient(loss, source)),
            rtol=1e-5,
            atol=1e-6,
        )


def test_roots_of_no_probability():
    """No class below them is drawn; search_test.cc tests searches."""
    forest = build("below three_levels")
    arguments = random_arguments(forest, 9)
    starts = references.random_starts(forest, 9, np.float32)
    starts[:, 0] = -np.inf
    n = forest.num_classes
    is_left = references.roots_of_rows(forest)[forest.class_rows] != 0
    for options in ({}, {"top_k": n}, {"top_p": 0.9}, {"allowed": range(n)}):
        draw = functools.partial(
            sample, *arguments, forest, 300, seed=1, **options
        )
        assert is_left[draw(root_log_probs=starts).numpy()].all()
        of_none = np.full_like(starts, -np.inf)
        of_none[1] = np.nan
        assert (draw(root_log_probs=of_none).numpy() == -1).all()


def test_one_root_may_have_log_probs():
    """A tree's is added to all of it."""
    answer_cases.check_one_root(HERE)
    arguments = random_arguments(TREE, 5)
    starts = np.linspace(-3, 0, 5, dtype="f")[:, np.newaxis]
    draws = sample(*arguments, TREE, 9, seed=1, root_log_probs=starts)
    assert (draws.numpy() >= 0).all()


@pytest.mark.parametrize(
    "shape, kind, graph, allowed, restricted",
    all_pairs(
        [([], 7), ([0], 7), ([3, 2], 7), ([6], 0), ([2, 3], 1)],
        [tf.constant, tf.Variable, keras.Variable],
        [False, True],
        [False, True],
        [{}, {"top_k": 3}, {"top_p": 0.5}],
    ),
)
def test_shapes(shape, kind, graph, allowed, restricted):
    """Any leading shape and width, in graphs that do not know them."""
    leading, width = shape
    batch = int(np.prod(leading))
    weights, biases, x = random_arguments(TREE, batch, width, make=kind)
    classes = np.random.default_rng(0).integers(60, size=[batch, 5])
    lists = masks.padded(masks.random_mask(TREE, 0.2, max(batch, 1)))[:batch]

    def run(inputs, classes, lists, k):
        given = weights, biases, inputs, TREE
        options = {"allowed": lists} if allowed else {}
        source = weights.value if kind is keras.Variable else weights
        with tf.GradientTape() as tape:
            tape.watch([inputs, source])
            values = log_probs(*given)
        dx, dw = tape.gradient(values, [inputs, source])
        beam = {"beam_width": 3, "return_pruned": True, **options}
        return [
            values,
            dx,
            log_prob(weights, biases, classes, *given[2:], **options),
            *top_k(*given, k, **options),
            *top_k(*given, k, **beam),
            sample(*given, 3, seed=1, **options, **restricted),
            sample(*given, k - 4, seed=[k, 4], **restricted),
        ], dw

    want, dw = run(tf.constant(x), classes, lists, tf.constant(4))
    if graph:
        integers = tf.TensorSpec(None, tf.int64)
        of_lists = tf.TensorSpec([None] * (len(leading) + 1), tf.int64)
        spec = [
            tf.TensorSpec(None),
            integers,
            of_lists,
            tf.TensorSpec(None, tf.int32),
        ]
        run = tf.function(run, input_signature=spec)
    found, same_dw = run(
        tf.reshape(x, [*leading, width]),
        tf.reshape(classes, [*leading, 5]),
        tf.reshape(lists, [*leading, lists.shape[-1]]),
        tf.constant(4),
    )
    assert dw.shape == same_dw.shape == (TREE.num_rows, width)
    for one, other in zip(found, want, strict=True):
        assert one.shape == [*leading, *other.shape[1:]]
        np.testing.assert_allclose(
            np.reshape(one, other.shape), other, rtol=1e-6
        )


def test_static_shapes():
    """What a graph knows of the arguments, it knows of the results."""
    weights, biases, _ = random_arguments(TREE)
    forest = build("below huffman_3")
    w, b, _ = random_arguments(forest)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 4, 5]),
            tf.TensorSpec([2, None, 9], tf.int32),
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([None, None, forest.num_roots]),
        ]
    )
    def run(inputs, classes, k, starts):
        given = weights, biases, inputs, TREE
        beam = {"beam_width": 2, "return_pruned": True}
        return (
            log_probs(*given),
            log_probs(weights, None, inputs, TREE, nodes=True),
            log_prob(weights, biases, classes, inputs, TREE),
            *top_k(*given, 3, **beam),
            *top_k(*given, k),
            log_probs(w, b, inputs, forest, root_log_probs=starts),
            top_k(w, b, inputs, forest, 2, bounds=starts[..., 0]).classes,
            sample(*given, 5),
        )

    shapes = [list(s.shape) for s in run.get_concrete_function().outputs]
    known, unknown = [None, 4, 3], [None, 4, None]
    assert shapes == [
        [None, 4, 60],
        [None, 4, TREE.num_rows],
        [2, 4, 9],
        *(known, known, [None, 4], unknown, unknown),
        [None, 4, forest.num_classes],
        [None, 4, 2],
        [None, 4, 5],
    ]


@pytest.mark.parametrize("dtype, inputs_dtype", all_pairs(DTYPES, DTYPES))
def test_inputs_of_another_type(dtype, inputs_dtype):
    """They are read as the type of the sums; their gradient is of theirs."""
    weights, biases, x = random_arguments(TREE, 9, 7, dtype)
    x = tf.cast(x, inputs_dtype)
    results = []
    for inputs in (x, tf.cast(x, oracle.accumulator(dtype))):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            values = log_probs(weights, biases, inputs, TREE)
        dx = tf.cast(tape.gradient(values, inputs), inputs_dtype)
        best = top_k(weights, biases, inputs, TREE, 60)
        draws = sample(weights, biases, inputs, TREE, 9, seed=1)
        assert values.dtype == best.log_probs.dtype == oracle.accumulator(dtype)
        results.append([values, dx, *best, draws])
    assert_same(*results)


def peak_growth(function):
    """By how many bytes a call lets the process's peak memory grow."""

    def status(field):
        with open("/proc/self/status") as file:
            return 1024 * int(re.search(rf"{field}:\s+(\d+)", file.read())[1])

    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    function()
    return status("VmHWM") - before


def test_no_copy_after_a_sparse_update():
    """With it TensorFlow begins to copy the variable for every other reader."""
    tree = tf_hsm.Tree.two_level(100_000)
    weights = tf.Variable(tf.zeros([tree.num_rows, 200]))
    weights.scatter_sub(tf.IndexedSlices(tf.ones([1, 200]), [0]))
    size = 4 * tree.num_rows * 200
    inputs = tf.ones([2, 200])
    for function, arguments in [
        (log_probs, (inputs, tree)),
        (log_prob, ([[3], [5]], inputs, tree)),
        (top_k, (inputs, tree, 5)),
        (sample, (inputs, tree, 5)),
        (functools.partial(sample, seed=1, top_k=3), (inputs, tree, 5)),
    ]:
        call = functools.partial(function, weights, None, *arguments)
        assert peak_growth(call) < 0.5 * size, function
    assert peak_growth(lambda: tf.reduce_max(weights)) > 0.9 * size
