"""Forests in the functions that go down a tree.

What a tree gives, it gives when it is cut: the top's log-probabilities of the
roots are where the forest begins. Against the references in float64.
"""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.support import forests, oracle
from tests.support import inference_reference as reference
from tests.support.pairs import all_pairs
from tf_hsm import hierarchical_softmax_log_prob as log_prob
from tf_hsm import hierarchical_softmax_log_probs as log_probs
from tf_hsm import hierarchical_softmax_sample as sample
from tf_hsm import hierarchical_softmax_top_k as top_k

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
NAMES = list(forests.TREES)
CUTS = [(name, seed) for name in NAMES for seed in range(2)]


@functools.cache
def cut(name, seed):
    """A tree and what it is cut into."""
    tree = forests.TREES[name]()
    return tree, forests.cut(tree, forests.some_rows(tree, seed), seed)


def wide_problem(tree, shape, dtype, seed=0):
    """A problem whose inputs have the accumulator's type."""
    problem = oracle.random_problem(tree, *shape, dtype, seed)
    wide = oracle.accumulator(np.dtype(dtype))
    return problem.replace(inputs=problem.inputs.astype(wide))


def below(name, seed, batch=9, dtype=np.float32):
    """A forest, arguments of the functions, and log-probabilities of roots."""
    _, parts = cut(name, seed)
    problem = wide_problem(parts.forest, (batch, 7), dtype, seed)
    rng = np.random.default_rng(seed)
    starts = rng.normal(size=[batch, parts.forest.num_roots]) * 2 - 3
    return (
        parts.forest,
        (problem.weights, problem.biases, problem.inputs),
        starts.astype(problem.inputs.dtype),
    )


@pytest.mark.parametrize(
    "name, dtype, seed, parameter",
    all_pairs(NAMES, DTYPES, range(2), [tf.constant, tf.Variable]),
)
def test_log_probs_of_a_cut_tree(name, seed, dtype, parameter):
    """Values and all gradients are those of the tree."""
    tree, parts = cut(name, seed)
    problem = wide_problem(tree, (6, 11), dtype, seed)
    rng = np.random.default_rng(seed)
    upstream = rng.normal(size=[6, tree.num_classes])
    upstream = upstream.astype(oracle.accumulator(np.dtype(dtype)))
    sources = [
        parameter(array[rows])
        for rows in (parts.top_rows, parts.rows)
        for array in (problem.weights, problem.biases)
    ]
    inputs = tf.constant(problem.inputs)
    # The row of the top, and so its class, that each root is.
    top_row_of = {row: i for i, row in enumerate(parts.top_rows)}
    roots = [top_row_of[row] for row in parts.roots]

    @tf.function
    def run(inputs):
        with tf.GradientTape() as tape:
            tape.watch([inputs, *sources])
            top = log_probs(*sources[:2], inputs, parts.top, nodes=True)
            starts = tf.gather(top, roots, axis=-1)
            forest = log_probs(
                *sources[2:],
                inputs,
                parts.forest,
                nodes=True,
                root_log_probs=starts,
            )
            of_classes = log_probs(
                *sources[2:], inputs, parts.forest, root_log_probs=starts
            )
            above = tf.gather(top, leaves_above, axis=-1)
            total = tf.reduce_sum(above * upstream[:, classes_above])
            total += tf.reduce_sum(of_classes * upstream[:, parts.classes])
        return top, forest, of_classes, tape.gradient(total, [inputs, *sources])

    classes_above = np.setdiff1d(np.arange(tree.num_classes), parts.classes)
    leaves_above = np.array(
        [top_row_of[row] for row in tree.class_rows[classes_above]], np.int64
    )
    top, forest, of_classes, (dx, dwt, dbt, dwf, dbf) = run(inputs)
    want, bound = reference.node_log_probs(tree, problem)
    for values, rows in [
        (top, parts.top_rows),
        (forest, parts.rows),
        (of_classes, tree.class_rows[parts.classes]),
    ]:
        reference.assert_near(values, want[:, rows], bound[:, rows])
    value, bound = reference.gradients(
        tree, problem, reference.by_row(tree, upstream)
    )
    dw, db = np.zeros(value.dw.shape), np.zeros(value.db.shape)
    for rows, of_weights, of_biases in [
        (parts.top_rows, dwt, dbt),
        (parts.rows, dwf, dbf),
    ]:
        dw[rows] = np.asarray(of_weights).astype(float)
        db[rows] = np.asarray(of_biases).astype(float)
    # Two parts, each rounded.
    reference.assert_near(dx, value.dx, 2 * bound.dx, "dx")
    reference.assert_near(dw, value.dw, bound.dw, "dw")
    reference.assert_near(db, value.db, bound.db, "db")


@pytest.mark.parametrize("name, seed", CUTS)
def test_each_root_is_given(name, seed):
    """Without log-probabilities of roots, the sum below each of them is 1."""
    forest, arguments, _ = below(name, seed, dtype=np.float64)
    values = log_probs(*arguments, forest).numpy()
    _, parts = cut(name, seed)
    for root in range(forest.num_roots):
        of_root = values[:, parts.root_of_class == root]
        np.testing.assert_allclose(np.exp(of_root).sum(-1), 1, rtol=1e-12)
    zeros = np.zeros([9, forest.num_roots])
    np.testing.assert_array_equal(
        values, log_probs(*arguments, forest, root_log_probs=zeros)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name, seed", CUTS)
def test_log_prob_of_given_classes(name, seed, dtype):
    """The same bits as of all classes; -1 is below none of the roots."""
    forest, arguments, starts = below(name, seed, dtype=dtype)
    rng = np.random.default_rng(seed)
    classes = rng.integers(-1, forest.num_classes, size=[9, 12])
    classes[0, 0] = -1
    w, b, x = arguments
    got = log_prob(w, b, classes, x, forest, root_log_probs=starts).numpy()
    values = log_probs(*arguments, forest, root_log_probs=starts).numpy()
    want = np.take_along_axis(values, np.maximum(classes, 0), -1)
    np.testing.assert_array_equal(got, np.where(classes < 0, -np.inf, want))
    classes = np.maximum(classes, 0)
    np.testing.assert_array_equal(
        log_prob(w, b, classes, x, forest),
        np.take_along_axis(log_probs(*arguments, forest).numpy(), classes, -1),
    )


def ranked(values, k, bounds=None):
    """What top_k returns: best log-probabilities, and classes; NaN is -inf."""
    classes = reference.ranking(values)[..., :k]
    found = np.take_along_axis(values, classes, -1)
    if bounds is not None:
        is_left = np.fmax(found, -np.inf) >= np.fmax(bounds, -np.inf)[..., None]
        found = np.where(is_left, found, -np.inf)
        classes = np.where(is_left, classes, -1)
    return found, classes


def assert_found(result, wanted):
    for got, want in zip(result[:2], wanted, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "name, dtype, seed, batch", all_pairs(NAMES, DTYPES, range(2), [3, 40])
)
def test_top_k(name, seed, dtype, batch):
    """The best of all, to the bit, with and without starts and bounds."""
    forest, arguments, starts = below(name, seed, batch, dtype)
    rng = np.random.default_rng(seed)
    for given in (None, starts):
        values = log_probs(*arguments, forest, root_log_probs=given).numpy()
        # Now at a class, now between, and ones that all or none pass.
        bounds = np.take_along_axis(
            values, rng.integers(forest.num_classes, size=[batch, 1]), -1
        )[:, 0]
        bounds[1::3] += 0.01
        bounds[2::9], bounds[4::9], bounds[5::9] = -np.inf, np.inf, np.nan
        for k in {1, min(5, forest.num_classes), forest.num_classes}:
            result = top_k(*arguments, forest, k, root_log_probs=given)
            assert_found(result, ranked(values, k))
            result = top_k(
                *arguments, forest, k, root_log_probs=given, bounds=bounds
            )
            assert_found(result, ranked(values, k, bounds))


@pytest.mark.parametrize("name, seed", CUTS)
def test_top_k_of_equal_classes(name, seed):
    """By class, where roots and rows are alike; k ends within them."""
    forest, (w, _, x), starts = below(name, seed)
    starts = np.zeros_like(starts) - 1
    arguments = np.zeros_like(w), None, x
    values = log_probs(*arguments, forest, root_log_probs=starts).numpy()
    for k in range(1, forest.num_classes + 1, 1 + forest.num_classes // 7):
        result = top_k(*arguments, forest, k, root_log_probs=starts)
        assert_found(result, ranked(values, k))
        bounds = np.median(values, -1)
        result = top_k(
            *arguments, forest, k, root_log_probs=starts, bounds=bounds
        )
        assert_found(result, ranked(values, k, bounds))


@pytest.mark.parametrize("name, seed", CUTS)
def test_top_k_with_a_beam(name, seed):
    """What it finds is right, and exact where nothing was pruned."""
    forest, arguments, starts = below(name, seed, 30)
    values = log_probs(*arguments, forest, root_log_probs=starts).numpy()
    k = min(4, forest.num_classes)
    found, classes = ranked(values, k)
    exact = 0
    for width in (1, 2, 5, forest.num_groups):
        result = top_k(
            *arguments,
            forest,
            k,
            beam_width=width,
            return_pruned=True,
            root_log_probs=starts,
        )
        best, ids, pruned = [array.numpy() for array in result]
        np.testing.assert_array_equal(best, np.take_along_axis(values, ids, -1))
        is_exact = pruned == 0
        np.testing.assert_array_equal(ids[is_exact], classes[is_exact])
        np.testing.assert_array_equal(best[is_exact], found[is_exact])
        exact += is_exact.sum()
    assert is_exact.all() and exact >= 30


def test_roots_of_no_probability():
    """They come last without bounds, and never with them."""
    forest, arguments, starts = below("three_levels", 0)
    _, parts = cut("three_levels", 0)
    starts[:, 0] = -np.inf
    n = forest.num_classes
    result = top_k(*arguments, forest, n, root_log_probs=starts)
    assert (np.sort(result.classes, -1) == np.arange(n)).all()
    none = np.full(9, -np.inf, np.float32)
    result = top_k(*arguments, forest, n, root_log_probs=starts, bounds=none)
    left = np.flatnonzero(parts.root_of_class != 0)
    np.testing.assert_array_equal(
        np.sort(result.classes, -1)[:, n - left.size :],
        np.broadcast_to(left, [9, left.size]),
    )
    assert (np.sort(result.classes, -1)[:, : n - left.size] == -1).all()
    assert (result.log_probs.numpy()[:, left.size :] == -np.inf).all()
    for options in ({}, {"top_k": n}, {"top_p": 0.9}):
        draws = sample(
            *arguments, forest, 300, seed=1, root_log_probs=starts, **options
        )
        assert (parts.root_of_class[draws.numpy().ravel()] != 0).all()
        starts_of_none = np.full_like(starts, -np.inf)
        starts_of_none[1] = np.nan
        draws = sample(
            *arguments,
            forest,
            3,
            seed=1,
            root_log_probs=starts_of_none,
            **options,
        )
        assert (draws.numpy() == -1).all()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.6},
        {"top_k": 5},
        {"top_p": 0.7},
        {"top_k": 9, "top_p": 0.8, "temperature": 2.0},
    ],
)
@pytest.mark.parametrize("name", ["two_level", "huffman_3", "ragged"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_draws(name, options, dtype):
    """Frequencies are the probabilities, relative to the sum of the roots."""
    forest, (w, b, x), starts = below(name, 1, 1, dtype)
    options = dict(options)
    if "top_k" in options:
        options["top_k"] = min(options["top_k"], forest.num_classes)
    temperature = options.get("temperature", 1.0)
    values, _ = reference.node_log_probs(
        forest, oracle.Problem(x, np.zeros(1), w, b, np.zeros(1))
    )
    shifted = starts.astype(float)
    shifted -= np.log(np.exp(shifted).sum())
    _, parts = cut(name, 1)
    log_p = (
        reference.by_class(forest, values)[0] + shifted[0, parts.root_of_class]
    )
    if options.keys() & {"top_k", "top_p"}:
        order = reference.ranking(log_p)
        mass = np.cumsum(np.exp(log_p[order]))
        count = np.searchsorted(mass, options.get("top_p", 2.0)) + 1
        kept = order[: min(count, options.get("top_k", order.size))]
        p = np.zeros(log_p.size)
        p[kept] = np.exp(log_p[kept] / temperature)
    else:
        cooled = oracle.Problem(
            x, np.zeros(1), w / temperature, b / temperature, np.zeros(1)
        )
        values, _ = reference.node_log_probs(forest, cooled)
        p = np.exp(
            reference.by_class(forest, values)[0]
            + shifted[0, parts.root_of_class]
        )
    draws = sample(
        w, b, x, forest, 20_000, seed=3, root_log_probs=starts, **options
    ).numpy()
    assert reference.p_value(draws, p / p.sum()) > 1e-4
    # Whatever the roots' sum is.
    again = sample(
        w, b, x, forest, 20_000, seed=3, root_log_probs=starts + 4, **options
    )
    assert (draws == again.numpy()).mean() > 0.999


def test_several_roots_must_have_log_probs():
    forest, arguments, _ = below("binary", 0)
    for options in ({}, {"top_k": 3}, {"top_p": 0.5}):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=f"root_log_probs .*forest of {forest.num_roots} trees",
        ):
            sample(*arguments, forest, 3, seed=1, **options)


def test_one_root_may_have_log_probs():
    """A tree's is added to all of it."""
    tree, _ = cut("huffman", 0)
    problem = wide_problem(tree, (5, 3), np.float64)
    arguments = problem.weights, problem.biases, problem.inputs
    starts = np.linspace(-3, 0, 5)[:, np.newaxis]
    values = log_probs(*arguments, tree).numpy()
    np.testing.assert_allclose(
        log_probs(*arguments, tree, root_log_probs=starts),
        values + starts,
        rtol=1e-13,
    )
    result = top_k(*arguments, tree, 3, bounds=np.full(5, -1.0))
    assert_found(result, ranked(values, 3, np.full(5, -1.0)))
    draws = sample(*arguments, tree, 9, seed=1, root_log_probs=starts)
    assert (draws.numpy() >= 0).all()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"root_log_probs": 0}, "root_log_probs must have the shape"),
        ({"root_log_probs": 1}, "root_log_probs must have the shape"),
        ({"bounds": 2}, "bounds must have the shape"),
    ],
)
def test_shapes_that_do_not_fit(options, message):
    """Eagerly the kernel says what is wrong; in a graph the shapes do."""
    forest, arguments, starts = below("binary", 0)
    values = [starts[:, :-1], starts[:-1], starts[:-1, 0]]
    options = {name: values[number] for name, number in options.items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        top_k(*arguments, forest, 2, **options)
    with pytest.raises(ValueError):
        tf.function(
            lambda: top_k(*arguments, forest, 2, **options), autograph=False
        )()


def test_shapes_are_known_in_a_graph():
    forest, (w, b, x), starts = below("huffman_3", 1)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, 7], tf.float32),
            tf.TensorSpec([None, None, forest.num_roots], tf.float32),
        ]
    )
    def run(x, starts):
        values = log_probs(w, b, x, forest, root_log_probs=starts)
        nodes = log_probs(w, b, x, forest, nodes=True)
        best = top_k(w, b, x, forest, 2, bounds=starts[..., 0])
        assert values.shape.as_list() == [None, None, forest.num_classes]
        assert nodes.shape.as_list() == [None, None, forest.num_rows]
        assert best.classes.shape.as_list() == [None, None, 2]
        return values

    np.testing.assert_array_equal(
        run(x[np.newaxis], starts[np.newaxis])[0],
        log_probs(w, b, x, forest, root_log_probs=starts),
    )
    # An empty batch.
    assert run(x[np.newaxis, :0], starts[np.newaxis, :0]).shape[1] == 0
