"""The step with a look-up against NumPy; its labels, indices and variables."""

import functools

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle, trees
from tests.support.embedding_training import (
    COUNT,
    draw_indices,
    draw_vectors,
    step,
    variables_of,
)
from tests.support.pairs import all_pairs
from tests.support.training import (
    assert_close,
    assert_near,
    assert_same,
    assert_stepped,
    check_the_default_minimizes_the_mean,
    states,
    wide_problem,
)
from tests.support.update_rules import OPTIMIZERS, built
from tf_hsm import hierarchical_softmax_embedding_train_step as train_step

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
TREES = ["two_level_1013", "binary_37", "huffman_2ary", "random", "chain_50"]
TREE = tf_hsm.Tree.huffman(1 / np.arange(1, 61))
PROBLEM = wide_problem(TREE, (12, 20))
INDICES = draw_indices(12)

build = functools.cache(lambda name: trees.CATALOGUE[name]())


def sums_by_row(indices, values, count):
    sums = np.zeros([count, values.shape[1]])
    np.add.at(sums, indices, values.astype(np.float64))
    return sums


@pytest.mark.parametrize(
    "name, rule, dtype, has_biases",
    all_pairs(TREES, list(OPTIMIZERS), DTYPES, [True, False]),
)
def test_two_steps_against_numpy(rule, name, has_biases, dtype):
    check_steps(2, rule, build(name), has_biases, dtype, (67, 33))


# Each rule, and each type, with both counts.
@pytest.mark.parametrize(
    "rule, count, dtype",
    [
        (rule, count, DTYPES[(i + j) % 3])
        for i, rule in enumerate(OPTIMIZERS)
        for j, count in enumerate([COUNT, 800])
    ],
)
def test_many_examples(count, rule, dtype):
    """Vectors of several work items, of two blocks each; of one, mostly."""
    check_steps(1, rule, TREE, True, dtype, (1100, 9), count)


def check_steps(number, rule, tree, has_biases, dtype, shape, count=COUNT):
    """Each step from where the last one ended; the other rows keep all bits."""
    wide = oracle.accumulator(np.dtype(dtype))
    problem = wide_problem(tree, shape, dtype)
    variables = variables_of(problem, dtype, has_biases, count)
    trained = [v for v in variables if v is not None]
    optimizer = built(rule, trained)
    for seed in range(1, number + 1):
        before = states(optimizer, trained)
        w, *b, vectors = (state[0].astype(wide) for state in before)
        indices = draw_indices(shape[0], seed, count)
        problem = wide_problem(tree, shape, dtype, seed).replace(
            weights=w, biases=b[0] if b else None, inputs=vectors[indices]
        )
        value, bound = oracle.hierarchical_softmax(tree, problem)
        losses = step(
            variables,
            problem,
            indices,
            tree,
            optimizer,
            stochastic_rounding=False,
        )
        assert_close(losses, value.loss, bound.loss, "losses")
        # The sums of repeated rows are made in the type of the sums.
        repeated = np.bincount(indices, minlength=count)[:, None]
        sums = sums_by_row(indices, value.dx, count)
        sums_error = sums_by_row(indices, bound.dx, count) + (
            repeated
            * oracle.unit_roundoff(wide)
            * sums_by_row(indices, abs(value.dx) + bound.dx, count)
        )
        rows = oracle.touched_rows(tree, problem.labels)
        gradients = [(value.dw, bound.dw, rows), (value.db, bound.db, rows)]
        gradients = gradients[: 1 + has_biases]
        gradients.append((sums, sums_error, np.unique(indices)))
        assert_stepped(
            optimizer,
            seed,
            before,
            states(optimizer, trained),
            gradients,
            np.dtype(dtype),
        )
        assert int(optimizer.iterations) == seed


@pytest.mark.parametrize(
    "name, rule, batch", all_pairs(TREES, list(OPTIMIZERS), [300, 2100])
)
def test_as_look_up_step_and_update(rule, name, batch):
    """Three ops with as many optimizers; several blocks and spans."""
    tree = build(name)
    problem = wide_problem(tree, (batch, 20))
    indices = draw_indices(batch)
    one, three = variables_of(problem), variables_of(problem)
    optimizer = built(rule, one)
    losses = step(one, problem, indices, tree, optimizer)
    of_tree, of_vectors = built(rule, three[:2]), built(rule, three[2:])
    with tf.GradientTape() as tape:
        inputs = tf.gather(three[2], indices)
        tape.watch(inputs)
        wanted = tf_hsm.hierarchical_softmax_train_step(
            *three[:2],
            problem.labels,
            inputs,
            tree,
            of_tree,
            loss_weights=problem.upstream,
        )
        total = tf.reduce_sum(wanted * problem.upstream)
    gradient = tf.IndexedSlices(tape.gradient(total, inputs), indices)
    of_vectors.apply([gradient], three[2:])
    assert_same(losses, wanted)
    # All of the tree to the bit; sums of vectors are made in another order.
    assert_same(states(optimizer, one[:2]), states(of_tree, three[:2]))
    assert_near(states(optimizer, one[2:]), states(of_vectors, three[2:]), 2e-4)


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_ignored_labels(rule):
    """They change neither the tree nor their vectors, slots included."""
    problem = wide_problem(TREE, (40, 20))
    labels, indices = problem.labels.copy(), draw_indices(40)
    indices[[3, 30]] = 27, 28  # of ignored labels only
    indices[4] = indices[5]
    labels[[3, 4, 30]] = -1
    results = []
    for kept in (slice(None), labels >= 0):
        variables = variables_of(problem)
        optimizer = built(rule, variables)
        part = problem.replace(
            labels=labels[kept], upstream=problem.upstream[kept]
        )
        losses = step(
            variables, part, indices[kept], TREE, optimizer, ignore_class=-1
        )
        results.append([states(optimizer, variables), losses])
    assert_same(results[0][0], results[1][0])
    assert_same(results[0][1][labels >= 0], results[1][1])
    assert_same(results[0][1][labels < 0], np.zeros(3))


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_several_labels_are_ignored(rule):
    """As one label in the place of all of them would be."""
    problem = wide_problem(TREE, (40, 20))
    problem.labels[5:9], problem.labels[30:33] = 7, -3
    ignored = np.isin(problem.labels, [7, -3])
    alike = problem.replace(labels=np.where(ignored, 7, problem.labels))
    results = []
    for given, several in ((problem, [7, -3]), (alike, 7)):
        variables = variables_of(given)
        optimizer = built(rule, variables)
        losses = step(
            variables,
            given,
            draw_indices(40),
            TREE,
            optimizer,
            loss_weights=None,
            ignore_class=several,
        )
        results.append([losses, states(optimizer, variables)])
    assert_same(*results)


@pytest.mark.parametrize("ignore_class", [None, 7])
def test_the_default_minimizes_the_mean(ignore_class):
    """Over the labels that count, whatever their shape."""
    indices = draw_indices(24).reshape(2, 12)
    check_the_default_minimizes_the_mean(
        functools.partial(step, indices=indices, tree=TREE),
        TREE,
        ignore_class,
        variables_of,
    )


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
@pytest.mark.parametrize("shape", [[], [12], [3, 4], [0]])
def test_shapes_and_integers(shape, dtype):
    """As the same labels in a row; in a graph, whose shape is known."""
    flat = wide_problem(TREE, (int(np.prod(shape)), 20))
    flat = flat.replace(upstream=np.float32(1))
    indices = draw_indices(len(flat.labels))
    one, other = variables_of(flat), variables_of(flat)
    wanted = step(one, flat, indices, TREE, built("sgd", one))
    optimizer = built("sgd", other)

    @tf.function
    def in_graph(labels, indices):
        losses = step(
            other, flat.replace(labels=labels), indices, TREE, optimizer
        )
        assert losses.shape == shape
        return losses

    losses = in_graph(
        tf.constant(flat.labels.reshape(shape).astype(dtype)),
        tf.constant(indices.reshape(shape).astype(dtype)),
    )
    assert losses.shape == shape
    assert_same([np.ravel(losses), other], [wanted, one])


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_stochastic_rounding(rule):
    """Vectors, too, round to a neighbour, keep the mean, and use the seed."""
    problem = wide_problem(TREE, (40, 257), ml_dtypes.bfloat16)
    indices = draw_indices(40)
    vectors = draw_vectors(257, ml_dtypes.bfloat16).astype(np.float32)

    def run(dtype=ml_dtypes.bfloat16, **options):
        variables = variables_of(problem, dtype)
        variables[2].assign(vectors.astype(dtype))
        optimizer = built(rule, variables, rate=0.001)
        step(variables, problem, indices, TREE, optimizer, **options)
        return [v.numpy().astype(np.float32) for v in variables]

    exact, rounded = run(np.float32)[2], run()[2]
    spacing = 2.0 ** (np.floor(np.log2(abs(exact))) - 7)
    error, moved = rounded - exact, abs(exact - vectors)
    assert (abs(error) < spacing * 1.001).all()
    scaled = (error / spacing)[moved > 0]
    assert abs(scaled.mean()) < 4 * 0.5 / np.sqrt(scaled.size)
    assert_same(run(seed=0)[2], rounded)
    assert (run(seed=7)[2] != rounded).any()
    assert (run(stochastic_rounding=False)[2] != rounded).any()


def test_vectors_round_by_other_numbers_than_weights():
    """In the same places of the same rows, both a part of the way down."""
    count, width = 64, 128
    tree = tf_hsm.Tree.balanced(count, count)
    start = np.ones([count, width], np.float32)
    start[0, 1::2], start[0, ::2] = 0.5, 1.5  # with the logits of the others
    weights = tf.Variable(tf.cast(start, tf.bfloat16))
    vectors = tf.Variable(tf.ones([count, width], tf.bfloat16))
    train_step(
        weights,
        None,
        [0] * count,
        vectors,
        range(count),
        tree,
        built("sgd", [weights, vectors], rate=0.002),
        loss_weights=1.0,
    )
    down = [(v.numpy()[1:, 1::2] < 1) for v in (weights, vectors)]
    # By 0.002 and 0.00098 of steps of 2^-8. The same numbers would take every
    # weight down whose vector goes.
    assert abs(down[0].mean() - 0.51) < 0.05
    assert abs(down[1].mean() - 0.25) < 0.05
    assert abs(down[0][down[1]].mean() - 0.51) < 0.1


def test_values_that_were_read_stay():
    """A gather that sets the vectors to copy on read changes nothing."""
    problem = wide_problem(TREE, (40, 20))
    variables = variables_of(problem)
    optimizer = built("adagrad", variables)
    for _ in range(2):
        held = [v.read_value() for v in variables]
        copies = [v.numpy().copy() for v in held]
        step(variables, problem, draw_indices(40), TREE, optimizer)
        assert_same(held, copies)
        for v, old in zip(variables, copies, strict=True):
            assert (v.numpy() != old).any()
        tf.gather(variables[2], [0, 1])


def test_a_graph_of_a_session():
    """Whose variables have no device yet."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = variables_of(PROBLEM)
        optimizer = built("sgd", variables)
        losses = step(variables, PROBLEM, INDICES, TREE, optimizer)
        session.run(tf.compat.v1.global_variables_initializer())
        assert np.isfinite(session.run(losses)).all()


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_within_a_layer_that_casts(policy):
    """Keras variables keep their type; the step without a look-up too."""

    class Layer(keras.layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            arrays = PROBLEM.weights, PROBLEM.biases, draw_vectors(20)
            self.all = [keras.Variable(array) for array in arrays]
            self.optimizer = built("adagrad", self.all)

        def call(self, indices):
            one = step(self.all, PROBLEM, indices, TREE, self.optimizer)
            return one, tf_hsm.hierarchical_softmax_train_step(
                *self.all[:2],
                PROBLEM.labels,
                PROBLEM.inputs,
                TREE,
                self.optimizer,
            )

    one, other = Layer(dtype=policy)(tf.constant(INDICES))
    variables = variables_of(PROBLEM)
    optimizer = built("adagrad", variables)
    assert_same(one, step(variables, PROBLEM, INDICES, TREE, optimizer))
    assert np.isfinite(other).all()


def test_skip_gram_learns():
    """Words that occur beside each other only: the loss falls to theirs."""
    tree = tf_hsm.Tree.huffman(np.ones(64))
    words = np.arange(64)
    vectors = tf.Variable(tf.random.normal([64, 8], seed=1))
    weights = tf.Variable(tf.zeros([tree.num_rows, 8]))
    optimizer = tf_hsm.optimizers.Adagrad(0.5, 0.1)
    optimizer.build([weights, vectors])
    losses = [
        float(
            tf.reduce_mean(
                train_step(
                    weights,
                    None,
                    words ^ 1,
                    vectors,
                    words,
                    tree,
                    optimizer,
                    loss_weights=1.0,
                )
            )
        )
        for _ in range(60)
    ]
    assert abs(losses[0] - np.log(64)) < 1e-4
    assert losses[-1] < 0.1
