"""Every op on pinned trees: a row of weights for each group of two rows."""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import oracle, pinned
from tests.support.evaluation import assert_within, dense, evaluate
from tests.support.training import (
    assert_close,
    assert_stepped,
    in_place,
    states,
    variables_of,
)
from tests.support.update_rules import OPTIMIZERS, built
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import child_tensors, tree_tensors

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
# One block of examples and several; widths that no vector divides.
SHAPES = [(5, 3), (130, 33)]
TREE = tf_hsm.Tree.huffman(1 / np.arange(1, 61)).pin()

build = functools.cache(lambda name: pinned.TREES[name]())


def smoothed(share):
    return functools.partial(
        tf_hsm.hierarchical_softmax_loss, label_smoothing=share
    )


def test_the_loss_is_that_of_sigmoids():
    """The formula of word2vec, by hand: a path of signs."""
    problem = pinned.random_problem(TREE, 9, 5, np.float64)
    losses = tf_hsm.hierarchical_softmax_loss(
        problem.weights, problem.biases, problem.labels, problem.inputs, TREE
    )
    for label, x, loss in zip(
        problem.labels, problem.inputs, losses.numpy(), strict=True
    ):
        path = TREE.path(label)
        sign = 1 - 2 * (path % 2)
        delta = problem.weights[path // 2] @ x + problem.biases[path // 2]
        want = np.log1p(np.exp(-sign * delta)).sum()
        np.testing.assert_allclose(loss, want, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", pinned.TREES)
def test_loss_and_gradients(name, dtype):
    tree = build(name)
    for i, (shape, share) in enumerate(
        [(SHAPES[0], 0.0), (SHAPES[1], 0.0), (SHAPES[1], 0.25)]
    ):
        problem = pinned.random_problem(tree, *shape, dtype, seed=i)
        problem = problem.replace(label_smoothing=share)
        if i == 0:
            problem = problem.replace(biases=None)
        expected, bound = pinned.hierarchical_softmax(tree, problem)
        for parameter in (tf.constant, tf.Variable):
            result = evaluate(
                smoothed(share), tree, problem, parameter=parameter
            )
            assert_within(dense(result), expected, bound)
            np.testing.assert_array_equal(
                result.dw.indices, pinned.touched_rows(tree, problem.labels)
            )
            assert tuple(result.dw.dense_shape) == problem.weights.shape


def test_in_a_graph():
    problem = pinned.random_problem(TREE, 12, 7)
    result = evaluate(
        tf_hsm.hierarchical_softmax_loss, TREE, problem, graph=True
    )
    expected, bound = pinned.hierarchical_softmax(TREE, problem)
    assert_within(dense(result), expected, bound)


@pytest.mark.parametrize("batch", [40, 3000])
def test_wide_rows_of_a_large_gradient(batch):
    """Where the backward makes the probabilities again, and streams."""
    tree = tf_hsm.Tree.balanced(500, 2).pin()
    problem = pinned.random_problem(tree, batch, 40)
    expected, bound = pinned.hierarchical_softmax(tree, problem)
    result = evaluate(tf_hsm.hierarchical_softmax_loss, tree, problem)
    assert_within(dense(result), expected, bound)


def wide_problem(tree, shape, dtype, seed=0, has_biases=True):
    """A problem of numbers of `dtype`, in the type of its sums."""
    problem = pinned.random_problem(tree, *shape, dtype, seed)
    wide = oracle.accumulator(np.dtype(dtype))
    return problem.replace(
        inputs=problem.inputs.astype(wide),
        weights=problem.weights.astype(wide),
        biases=problem.biases.astype(wide) if has_biases else None,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", pinned.TREES)
@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_two_train_steps(rule, name, dtype):
    tree = build(name)
    for shape, share in zip(SHAPES, (0.25, 0.0), strict=True):
        has_biases = share > 0
        problem = wide_problem(tree, shape, dtype, has_biases=has_biases)
        variables = variables_of(problem, dtype)
        optimizer = built(rule, variables)
        wide = problem.weights.dtype
        for step in (1, 2):
            before = states(optimizer, variables)
            w, *b = (state[0].astype(wide) for state in before)
            problem = wide_problem(tree, shape, dtype, step).replace(
                weights=w,
                biases=b[0] if b else None,
                label_smoothing=share,
            )
            value, bound = pinned.hierarchical_softmax(tree, problem)
            losses, dx = in_place(
                variables,
                problem,
                tree,
                optimizer,
                label_smoothing=share,
                stochastic_rounding=False,
            )
            assert_close(losses, value.loss, bound.loss, "losses")
            assert_close(dx, value.dx, bound.dx, "dx")
            rows = pinned.touched_rows(tree, problem.labels)
            gradients = [(value.dw, bound.dw, rows), (value.db, bound.db, rows)]
            assert_stepped(
                optimizer,
                step,
                before,
                states(optimizer, variables),
                gradients[: 1 + has_biases],
                np.dtype(dtype),
            )


@pytest.mark.parametrize("dtype", [np.float64, np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["huffman_203", "chain_50"])
@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_an_embedding_step_is_three_ops(rule, name, dtype):
    """A look-up, a train step and an update, for skip-gram and CBOW."""
    tree = build(name)
    batch, count, width = 130, 29, 20
    problem = wide_problem(tree, (batch, width), dtype)
    rng = np.random.default_rng(0)
    pairs = rng.integers(count, size=[batch, 2])
    for bags in (pairs[:, 0], tf.RaggedTensor.from_tensor(pairs)):
        start = rng.normal(size=[count, width]).astype(dtype) / 4
        one = [*variables_of(problem, dtype), tf.Variable(start)]
        three = [*variables_of(problem, dtype), tf.Variable(start)]
        optimizer = built(rule, one)
        losses = tf_hsm.hierarchical_softmax_embedding_train_step(
            *one[:2],
            problem.labels,
            one[2],
            bags,
            tree,
            optimizer,
            loss_weights=problem.upstream,
            stochastic_rounding=False,
        )
        gathered = tf.cast(tf.gather(three[2], bags), problem.inputs.dtype)
        inputs = gathered
        if isinstance(bags, tf.RaggedTensor):
            inputs = tf.reduce_mean(gathered, 1)
        of_tree, of_vectors = built(rule, three[:2]), built(rule, three[2:])
        wanted, dx = in_place(
            three[:2],
            problem.replace(inputs=inputs),
            tree,
            of_tree,
            stochastic_rounding=False,
        )
        if isinstance(bags, tf.RaggedTensor):
            dx = tf.repeat(dx / 2, 2, axis=0)
            bags = bags.flat_values
        of_vectors.apply([tf.IndexedSlices(dx, bags)], three[2:])
        tolerance = {np.float64: 1e-9, np.float32: 3e-4}.get(dtype, 2e-2)
        for got, want in zip([losses, *one], [wanted, *three], strict=True):
            np.testing.assert_allclose(
                tf.cast(got, tf.float64),
                tf.cast(want, tf.float64),
                rtol=tolerance,
                atol=tolerance,
            )


def test_a_step_rounds_at_random():
    """The mean of many weights moves as in float32, by less than a unit."""
    tree = tf_hsm.Tree.balanced(2, 2).pin()
    w = tf.Variable(tf.ones([1, 4000], tf.bfloat16))
    optimizer = built("sgd", [w], rate=1.0)
    tf_hsm.hierarchical_softmax_train_step(
        w, None, [1], tf.ones([1, 4000]), tree, optimizer, loss_weights=2e-3
    )
    # dz_0 of the second row's label is 1 where row 0 had all probability.
    np.testing.assert_allclose(
        np.mean(w.numpy(), dtype=float), 0.998, atol=2e-4
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", pinned.TREES)
def test_log_probs(name, dtype):
    """Of nodes and of classes, of all and of given ones, with gradients."""
    tree = build(name)
    for i, (batch, dim) in enumerate(SHAPES):
        problem = pinned.random_problem(tree, batch, dim, dtype)
        if i == 0:
            problem = problem.replace(biases=None)
        arguments = problem.weights, problem.biases, problem.inputs, tree
        want, bound = reference.node_log_probs(tree, pinned.expanded(problem))
        got = tf_hsm.hierarchical_softmax_log_probs(*arguments, nodes=True)
        reference.assert_near(got, want, bound, "nodes")
        of_classes = tf_hsm.hierarchical_softmax_log_probs(*arguments)
        np.testing.assert_array_equal(
            of_classes, reference.by_class(tree, got.numpy())
        )
        rng = np.random.default_rng(0)
        for nodes, size in ((False, tree.num_classes), (True, tree.num_rows)):
            given = rng.integers(size, size=(batch, 4))
            log_prob = tf_hsm.hierarchical_softmax_log_prob(
                problem.weights,
                problem.biases,
                given,
                problem.inputs,
                tree,
                nodes=nodes,
            )
            rows = given if nodes else tree.class_rows[given]
            np.testing.assert_array_equal(
                log_prob, np.take_along_axis(got.numpy(), rows, 1)
            )


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("name", pinned.TREES)
def test_gradients_of_log_probs(name, nodes):
    tree = build(name)
    problem = pinned.random_problem(tree, 9, 33)
    sources = [
        tf.constant(x)
        for x in (problem.weights, problem.biases, problem.inputs)
    ]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        log_probs = tf_hsm.hierarchical_softmax_log_probs(
            *sources, tree, nodes=nodes
        )
    rng = np.random.default_rng(0)
    upstream = rng.normal(size=log_probs.shape).astype(np.float32)
    dw, db, dx = tape.gradient(log_probs, sources, output_gradients=upstream)
    of_rows = upstream if nodes else reference.by_row(tree, upstream)
    want, bound = pinned.log_prob_gradients(tree, problem, of_rows)
    for got, part in ((dw, "dw"), (db, "db"), (dx, "dx")):
        reference.assert_near(
            got, getattr(want, part), getattr(bound, part), part
        )


@pytest.mark.parametrize("name", pinned.TREES)
def test_top_k(name):
    """Exact and by beams, of all classes and of some, above bounds."""
    tree = build(name)
    problem = pinned.random_problem(tree, 11, 7)
    arguments = problem.weights, problem.biases, problem.inputs, tree
    every = tf_hsm.hierarchical_softmax_log_probs(*arguments).numpy()
    k = min(5, tree.num_classes)
    best = reference.ranking(every)[:, :k]
    for options in ({}, {"beam_width": tree.num_classes}):
        found = tf_hsm.hierarchical_softmax_top_k(*arguments, k, **options)
        np.testing.assert_array_equal(found.classes, best)
        np.testing.assert_array_equal(
            found.log_probs, np.take_along_axis(every, best, 1)
        )
    of_nodes = tf_hsm.hierarchical_softmax_log_probs(*arguments, nodes=True)
    narrow = tf_hsm.hierarchical_softmax_top_k(*arguments, k, beam_width=1)
    for i, nodes in enumerate(of_nodes.numpy()):
        want, _ = reference.beam_search(tree, nodes, k, 1)
        np.testing.assert_array_equal(narrow.classes[i], want)

    allowed = np.arange(0, tree.num_classes, 2)
    masked = np.where(np.arange(tree.num_classes) % 2, -np.inf, every)
    wanted = reference.ranking(masked)[:, : min(k, len(allowed))]
    found = tf_hsm.hierarchical_softmax_top_k(*arguments, k, allowed=allowed)
    np.testing.assert_array_equal(found.classes[:, : wanted.shape[1]], wanted)
    bounds = np.sort(every, 1)[:, -2]
    found = tf_hsm.hierarchical_softmax_top_k(*arguments, k, bounds=bounds)
    np.testing.assert_array_equal(found.classes[:, :2], best[:, :2])
    assert (found.classes[:, 2:].numpy() == -1).all()


def test_draws():
    """By their probabilities, among all, the best and the allowed classes."""
    tree = build("binary_37")
    problem = pinned.random_problem(tree, 1, 6)
    arguments = problem.weights, problem.biases, problem.inputs, tree
    probs = np.exp(tf_hsm.hierarchical_softmax_log_probs(*arguments).numpy()[0])
    best = np.argsort(-probs)[:4]
    some = np.arange(0, 37, 3)
    for options, classes in (
        ({}, np.arange(37)),
        ({"top_k": 4}, best),
        ({"allowed": some}, some),
    ):
        draws = tf_hsm.hierarchical_softmax_sample(
            *arguments, 20_000, seed=5, **options
        )
        share = np.zeros(37)
        share[classes] = probs[classes] / probs[classes].sum()
        assert reference.p_value(draws.numpy(), share) > 1e-4
    one = tf_hsm.hierarchical_softmax_sample(*arguments, 50, seed=1, top_p=1e-9)
    assert (one.numpy() == best[0]).all()


def test_labels_at_nodes():
    """The loss of a node, and a step by it."""
    problem = wide_problem(TREE, (40, 9), np.float32)
    nodes = np.random.default_rng(0).integers(TREE.num_rows, size=40)
    variables = variables_of(problem)
    of_nodes = tf_hsm.hierarchical_softmax_log_probs(
        *variables, problem.inputs, TREE, nodes=True
    ).numpy()
    want = -of_nodes[np.arange(40), nodes]
    losses = tf_hsm.hierarchical_softmax_loss(
        *variables, nodes, problem.inputs, TREE, nodes=True
    )
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    with tf.GradientTape() as tape:
        losses = tf_hsm.hierarchical_softmax_loss(
            *variables, nodes, problem.inputs, TREE, nodes=True
        )
        total = tf.reduce_sum(losses * problem.upstream)
    gradients = tape.gradient(total, variables)
    moved = [
        v.numpy() - 0.3 * tf.convert_to_tensor(g).numpy()
        for v, g in zip(variables, gradients, strict=True)
    ]
    losses, _ = in_place(
        variables,
        problem.replace(labels=nodes),
        TREE,
        built("sgd", variables),
        nodes=True,
    )
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    for variable, wanted in zip(variables, moved, strict=True):
        np.testing.assert_allclose(variable, wanted, atol=1e-5)


def test_sgd_at_twice_the_rate_is_that_of_both_rows():
    """The difference of two rows that move apart, step after step."""
    tree = build("huffman_203")
    problem = wide_problem(tree, (130, 9), np.float64)
    one = variables_of(problem)
    two = variables_of(pinned.expanded(problem))
    of_one, of_two = built("sgd", one, rate=0.4), built("sgd", two, rate=0.2)
    for seed in range(3):
        drawn = wide_problem(tree, (130, 9), np.float64, seed)
        losses, dx = in_place(one, drawn, tree, of_one)
        wanted, wanted_dx = in_place(two, drawn, tree.expand(), of_two)
        np.testing.assert_allclose(losses, wanted, rtol=1e-12)
        np.testing.assert_allclose(dx, wanted_dx, rtol=1e-9, atol=1e-12)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b[::2] - b[1::2], atol=1e-12)


def test_weights_of_another_tree():
    """Those of the tree before it was pinned, or the other way round."""
    problem = pinned.random_problem(TREE, 3, 4)
    wide = pinned.expanded(problem)
    names = "weights must be made for this tree"
    for given, tree in ((wide, TREE), (problem, TREE.expand())):
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            tf_hsm.hierarchical_softmax_loss(
                given.weights, None, given.labels, given.inputs, tree
            )
        variables = variables_of(given)
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            in_place(variables, given, tree, built("sgd", variables))
        arguments = given.weights, None, given.inputs, tree
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            tf_hsm.hierarchical_softmax_log_probs(*arguments)
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            tf_hsm.hierarchical_softmax_top_k(*arguments, 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            tf_hsm.hierarchical_softmax_sample(*arguments, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="biases must"):
        tf_hsm.hierarchical_softmax_loss(
            problem.weights, wide.biases, problem.labels, problem.inputs, TREE
        )


def test_shapes_in_a_graph():
    """They are known, and wrong ones are refused, before anything runs."""
    problem = pinned.random_problem(TREE, 3, 4)

    @tf.function
    def traced(weights):
        of_nodes = tf_hsm.hierarchical_softmax_log_probs(
            weights, None, problem.inputs, TREE, nodes=True
        )
        assert of_nodes.shape == [3, TREE.num_rows]
        assert tf_hsm.hierarchical_softmax_log_probs(
            weights, None, problem.inputs, TREE
        ).shape == [3, TREE.num_classes]
        return tf_hsm.hierarchical_softmax_loss(
            weights, None, problem.labels, problem.inputs, TREE
        )

    traced.get_concrete_function(tf.constant(problem.weights))
    with pytest.raises(ValueError, match="must be equal"):
        traced.get_concrete_function(
            tf.constant(pinned.expanded(problem).weights)
        )


def test_groups_that_are_no_pairs():
    """The raw ops look at the groups on the way."""
    # As many rows as two pairs have, but 3 and 1 of them.
    tree = tf_hsm.Tree.from_nested([[0], 1, 2])
    given = {
        "weights": np.zeros([2, 3], np.float32),
        "biases": [],
        "inputs": np.zeros([1, 3], np.float32),
        "Taccumulator": tf.float32,
        "pinned": True,
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match="pinned tree"):
        raw_ops.tf_hsm_loss(
            labels=np.array([0]),
            smoothing_prior=[],
            **given,
            **tree_tensors(tree)._asdict(),
        )
    down = child_tensors(tree)
    with pytest.raises(tf.errors.InvalidArgumentError, match="pinned tree"):
        raw_ops.tf_hsm_log_probs(
            group_offsets=down.group_offsets,
            row_below=down.row_below,
            root_groups=[],
            root_log_probs=[],
            **given,
        )


def test_no_label_trees():
    """Their rows have a sigmoid each."""
    w, x = np.zeros([TREE.num_groups, 3], np.float32), np.zeros([2, 3])
    labels = np.zeros([2, 1], np.int64)
    w = tf.Variable(w)
    calls = [
        lambda: tf_hsm.label_tree_loss(w, None, labels, x, TREE),
        lambda: tf_hsm.label_tree_top_k(w, None, x, TREE, 2),
        lambda: tf_hsm.label_tree_log_prob(w, None, labels, x, TREE),
        lambda: tf_hsm.label_tree_train_step(
            w, None, labels, x, TREE, built("sgd", [w])
        ),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"pinned.*tree\.expand\(\)"):
            call()
