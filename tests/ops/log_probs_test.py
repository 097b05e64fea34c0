"""Log-probabilities of all classes, of all nodes and of given classes."""

import functools
import re

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import oracle, trees
from tests.support.pairs import all_pairs

log_probs = tf_hsm.hierarchical_softmax_log_probs
log_prob = tf_hsm.hierarchical_softmax_log_prob

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
SHAPES = [(5, 3), (67, 33)]
TREE = tf_hsm.Tree.huffman(1 + np.arange(60) ** 2, branching=3)

build = functools.cache(lambda name: {**trees.CATALOGUE, **trees.DEEP}[name]())


@functools.cache
def problem_on(name, shape, dtype):
    return oracle.random_problem(build(name), *shape, dtype, seed=sum(shape))


def arguments_of(problem, parameter=tf.constant):
    """Weights, biases or None, and inputs."""
    biases = problem.biases
    return (
        parameter(problem.weights),
        None if biases is None else parameter(biases),
        tf.constant(problem.inputs),
    )


def evaluate(tree, problem, upstream, nodes=False, parameter=tf.constant):
    """The values, and the gradients of sum(upstream * values)."""
    weights, biases, inputs = arguments_of(problem, parameter)
    sources = [inputs, *(p for p in (weights, biases) if p is not None)]
    with tf.GradientTape() as tape:
        tape.watch([s for s in sources if tf.is_tensor(s)])
        values = log_probs(weights, biases, inputs, tree, nodes=nodes)
    return values, tape.gradient(values, sources, output_gradients=upstream)


def check(tree, problem, nodes, parameter):
    """Values and gradients against the reference."""
    want, bound = reference.node_log_probs(tree, problem)
    dtype = oracle.accumulator(problem.weights.dtype)
    upstream = np.random.default_rng(0).normal(size=want.shape).astype(dtype)
    if not nodes:
        upstream = reference.by_class(tree, upstream)
    values, gradients = evaluate(tree, problem, upstream, nodes, parameter)
    assert values.dtype == dtype
    of_rows = upstream if nodes else reference.by_row(tree, upstream)
    if not nodes:
        want, bound = (reference.by_class(tree, a) for a in (want, bound))
    reference.assert_near(values, want, bound)
    want, bound = reference.gradients(tree, problem, of_rows)
    for name, actual in zip(("dx", "dw", "db"), gradients, strict=True):
        assert actual.dtype == problem.weights.dtype
        reference.assert_near(
            actual, getattr(want, name), getattr(bound, name), name
        )


@pytest.mark.parametrize(
    "name, dtype, shape", all_pairs(list(trees.CATALOGUE), DTYPES, SHAPES)
)
def test_values_and_gradients(name, shape, dtype):
    problem = problem_on(name, shape, dtype)
    check(build(name), problem, False, tf.constant)
    check(build(name), problem, True, tf.Variable)


def test_a_chain_of_10000_levels():
    problem = problem_on("chain_10000", (3, 5), np.float32)
    check(build("chain_10000"), problem, False, tf.Variable)


@pytest.mark.parametrize("scale", [30.0, 1e4])
@pytest.mark.parametrize("name", ["two_level_100", "huffman_2ary", "flat"])
def test_large_logits(name, scale):
    """Beyond |z| = 90, where an exponential overflows."""
    problem = problem_on(name, (20, 9), np.float32)
    problem = problem.replace(weights=np.float32(scale) * problem.weights)
    logits = problem.inputs @ problem.weights.T
    assert abs(logits).max() > 90
    check(build(name), problem, False, tf.constant)


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_probabilities_sum_to_1(name):
    """Those of the classes, and for each row those of its children to its own.

    In float32, to 1e-6.
    """
    tree, problem = build(name), problem_on(name, (67, 33), np.float32)
    nodes = log_probs(*arguments_of(problem), tree, nodes=True).numpy()
    classes = log_probs(*arguments_of(problem), tree).numpy()
    np.testing.assert_array_equal(nodes[:, tree.class_rows], classes)
    assert (nodes <= 0).all()
    totals = np.exp(classes.astype(np.float64)).sum(1)
    np.testing.assert_allclose(totals, 1, rtol=0, atol=1e-6)
    probs = np.exp(nodes.astype(np.float64))
    sums = np.add.reduceat(probs, tree.group_offsets[:-1], axis=1)
    above = np.append(probs, np.ones((67, 1)), 1)[:, tree.group_parents]
    np.testing.assert_allclose(sums, above, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_minus_the_loss(name, dtype):
    """Log p(label) is minus the loss of the label, of which only it is made."""
    tree, problem = build(name), problem_on(name, (67, 33), dtype)
    weights, biases, inputs = arguments_of(problem, tf.Variable)
    loss = tf_hsm.hierarchical_softmax_loss(
        weights, biases, problem.labels, inputs, tree
    )
    values = log_probs(weights, biases, inputs, tree).numpy()
    at_labels = np.arange(67), problem.labels
    _, bound = reference.node_log_probs(tree, problem)
    reference.assert_near(
        -values[at_labels],
        loss.numpy().astype(np.float64),
        2 * reference.by_class(tree, bound)[at_labels],
    )


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("argument", ["inputs", "weights", "biases"])
@pytest.mark.parametrize(
    "name", ["two_level_7", "random", "chain_50", "only_children"]
)
def test_finite_differences(name, argument, nodes):
    tree = build(name)
    problem = oracle.random_problem(tree, 2, 2, np.float64)
    size = tree.num_rows if nodes else tree.num_classes
    upstream = np.random.default_rng(1).normal(size=(2, size))
    _, gradients = evaluate(tree, problem, upstream, nodes, tf.Variable)
    order = ["inputs", "weights", "biases"]
    analytic = gradients[order.index(argument)].numpy()

    def total(array):
        changed = problem.replace(**{argument: array})
        values = log_probs(*arguments_of(changed), tree, nodes=nodes)
        return (values.numpy() * upstream).sum()

    numeric = oracle.finite_differences(total, getattr(problem, argument))
    error = np.linalg.norm(numeric - analytic)
    assert error <= 1e-6 * np.linalg.norm(analytic)


@pytest.mark.parametrize(
    "form, kind, graph",
    all_pairs(
        [
            ([], 7, True),
            ([0], 7, True),
            ([3, 2], 7, True),
            ([3, 2], 7, False),
            ([6], 0, True),
            ([6], 0, False),
            ([2, 3], 1, True),
        ],
        ["tensor", "variable", "keras"],
        [False, True],
    ),
)
def test_shapes(form, kind, graph):
    """Any leading shape and width, in graphs that do not know them."""
    leading, width, has_biases = form
    batch = int(np.prod(leading))
    problem = oracle.random_problem(TREE, batch, width, np.float32)
    if not has_biases:
        problem = problem.replace(biases=None)
    make = tf.constant if kind == "tensor" else tf.Variable
    weights, biases, inputs = arguments_of(problem, make)
    passed = keras.Variable(weights) if kind == "keras" else weights
    source = passed.value if kind == "keras" else passed
    want, _ = reference.node_log_probs(TREE, problem)
    want = reference.by_class(TREE, want).reshape([*leading, 60])
    classes = np.random.default_rng(0).integers(60, size=[*leading, 5])

    def run(inputs, classes):
        with tf.GradientTape() as tape:
            tape.watch([inputs, source])
            values = log_probs(passed, biases, inputs, TREE)
        dx, dw = tape.gradient(values, [inputs, source])
        return values, log_prob(passed, biases, classes, inputs, TREE), dx, dw

    if graph:
        spec = [tf.TensorSpec(None), tf.TensorSpec(None, tf.int64)]
        run = tf.function(run, input_signature=spec)
    inputs = tf.reshape(inputs, [*leading, width])
    values, of_given, dx, dw = run(inputs, tf.constant(classes))
    assert values.shape == want.shape
    np.testing.assert_allclose(values, want, rtol=1e-5, atol=1e-5)
    picked = np.take_along_axis(values.numpy(), classes, -1)
    np.testing.assert_array_equal(of_given, picked)
    assert dx.shape == inputs.shape and dw.shape == weights.shape


def test_static_shapes():
    """What a graph knows of the arguments, it knows of the results."""
    weights, biases, _ = arguments_of(
        oracle.random_problem(TREE, 1, 3, np.float32), tf.Variable
    )

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 4, 3]),
            tf.TensorSpec([2, None, 9], tf.int32),
        ]
    )
    def run(inputs, classes):
        return (
            log_probs(weights, biases, inputs, TREE),
            log_probs(weights, None, inputs, TREE, nodes=True),
            log_prob(weights, biases, classes, inputs, TREE),
        )

    shapes = [list(s.shape) for s in run.get_concrete_function().outputs]
    assert shapes == [[None, 4, 60], [None, 4, TREE.num_rows], [2, 4, 9]]


@pytest.mark.parametrize("inputs_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_of_another_type(dtype, inputs_dtype):
    """They are read as the type of the sums; their gradient is of theirs."""
    problem = oracle.random_problem(TREE, 9, 7, dtype)
    weights, biases, inputs = arguments_of(problem)
    inputs = tf.cast(inputs, inputs_dtype)
    exact = tf.cast(inputs, oracle.accumulator(dtype))
    results = []
    for x in (inputs, exact):
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = log_probs(weights, biases, x, TREE)
        results.append((values, tape.gradient(values, x)))
    (values, dx), (want, want_dx) = results
    np.testing.assert_array_equal(values, want)
    assert dx.dtype == inputs.dtype
    np.testing.assert_array_equal(dx, tf.cast(want_dx, inputs.dtype))


@pytest.mark.parametrize("name", [*trees.CATALOGUE, *trees.DEEP])
def test_given_classes(name):
    """The bits of those of all classes, also of a class that comes twice."""
    tree = build(name)
    arguments = arguments_of(problem_on(name, (5, 3), np.float32), tf.Variable)
    want = log_probs(*arguments, tree).numpy()
    classes = np.random.default_rng(0).integers(tree.num_classes, size=(5, 8))
    classes[:, 1] = classes[:, 0]
    for given in (np.int32(classes), np.int64(classes[:, :1]), classes[:, :0]):
        actual = log_prob(*arguments[:2], given, arguments[2], tree)
        picked = np.take_along_axis(want, given, 1)
        np.testing.assert_array_equal(actual, picked)


def test_one_example_at_a_time():
    """The bits of a result do not depend on the rest of the batch."""
    for name in trees.CATALOGUE:
        tree, problem = build(name), problem_on(name, (67, 33), np.float32)
        weights, biases, inputs = arguments_of(problem)
        want = log_probs(weights, biases, inputs, tree)
        for i in (0, 17, 66):
            one = log_probs(weights, biases, inputs[i], tree)
            np.testing.assert_array_equal(one, want[i])


def test_function_is_eager():
    """Values and gradients are the same bits in a tf.function."""
    problem = oracle.random_problem(TREE, 20, 5, np.float32)
    upstream = np.random.default_rng(0).normal(size=(20, 60)).astype("f")
    weights, biases, inputs = arguments_of(problem, tf.Variable)

    def run():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = upstream * log_probs(weights, biases, inputs, TREE)
        return total, *tape.gradient(total, [inputs, weights, biases])

    for eager, graph in zip(run(), tf.function(run)(), strict=True):
        np.testing.assert_array_equal(eager, graph)


def test_nan_stays_in_its_example():
    problem = oracle.random_problem(TREE, 3, 4, np.float32)
    weights, biases, _ = arguments_of(problem)
    want = log_probs(weights, biases, problem.inputs, TREE).numpy()
    problem.inputs[1, 2] = np.nan
    values = log_probs(weights, biases, problem.inputs, TREE).numpy()
    assert np.isnan(values[1]).all()
    np.testing.assert_array_equal(values[[0, 2]], want[[0, 2]])


@pytest.mark.parametrize("masked", [1, 11])
def test_masked(masked):
    """A bias of -inf switches off a row, and what is below it, in all results.

    The gradient of a class elsewhere is that of its loss.
    """
    tree = tf_hsm.Tree.two_level(9)
    problem = oracle.random_problem(tree, 3, 4, np.float32)
    is_off = [masked in tree.path(c) for c in range(9)]
    assert sum(is_off) == (3 if masked == 1 else 1)
    problem.biases[masked] = -np.inf
    weights, biases, inputs = map(tf.Variable, arguments_of(problem))
    with tf.GradientTape(persistent=True) as tape:
        values = log_probs(weights, biases, inputs, tree)
        loss = tf_hsm.hierarchical_softmax_loss(
            weights, biases, [0, 1, 6], inputs, tree
        )
        of_labels = -tf.gather(values, [0, 1, 6], batch_dims=1)
    np.testing.assert_array_equal(np.isneginf(values), [is_off] * 3)
    np.testing.assert_allclose(np.exp(values).sum(1), 1, rtol=1e-6)
    for source in (weights, biases, inputs):
        np.testing.assert_allclose(
            tape.gradient(of_labels, source),
            tf.convert_to_tensor(tape.gradient(loss, source)),
            rtol=1e-5,
            atol=1e-6,
        )


@pytest.mark.parametrize("by", ["weights", "inputs"])
def test_second_order_is_refused(by):
    """There is no gradient of the gradient, and nobody is told zero."""
    problem = oracle.random_problem(TREE, 4, 3, np.float32)
    w, x = tf.Variable(problem.weights), tf.Variable(problem.inputs)
    source = {"weights": w, "inputs": x}[by]
    for target in (w, x):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                total = tf.reduce_sum(log_probs(w, None, x, TREE) ** 2)
            first = inner.gradient(total, source)
        with pytest.raises(LookupError):
            outer.gradient(first, target)


@pytest.mark.parametrize("parameter", [tf.constant, tf.Variable])
def test_what_has_no_gradient_says_so(parameter):
    problem = oracle.random_problem(TREE, 4, 3, np.float32)
    w, x = parameter(problem.weights), tf.Variable(problem.inputs)
    with tf.GradientTape(persistent=True) as tape:
        of_given = log_prob(w, None, [[1]] * 4, x, TREE)
        of_best = tf_hsm.hierarchical_softmax_top_k(w, None, x, TREE, 2)
    for name, values in {
        "log_prob": of_given,
        "top_k": of_best.log_probs,
    }.items():
        with pytest.raises(LookupError, match=f"{name} has no gradient: train"):
            tape.gradient(values, x)


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
    sample = tf_hsm.hierarchical_softmax_sample
    for function, arguments in [
        (log_probs, (inputs, tree)),
        (log_prob, ([[3], [5]], inputs, tree)),
        (tf_hsm.hierarchical_softmax_top_k, (inputs, tree, 5)),
        (sample, (inputs, tree, 5)),
        (functools.partial(sample, seed=1, top_k=3), (inputs, tree, 5)),
    ]:
        call = functools.partial(function, weights, None, *arguments)
        assert peak_growth(call) < 0.5 * size, function
    assert peak_growth(lambda: tf.reduce_max(weights)) > 0.9 * size
