"""Steps in place train as loss, gradient and apply do; labels and rounding.

`conformance_test` compares single steps with NumPy.
"""

import functools

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.pairs import all_pairs
from tests.support.training import (
    after_loss,
    assert_near,
    assert_same,
    draw_indices,
    draw_vectors,
    in_place,
    in_two,
    looked_up,
    states,
    variables_of,
    wide_problem,
    with_vectors,
)
from tests.support.update_rules import OPTIMIZERS, built
from tf_hsm import hierarchical_softmax_train_step as train_step

RULES = list(OPTIMIZERS)
TREE = tf_hsm.Tree.two_level(50)


def looked_up_in_order(variables, problem, tree, optimizer, **options):
    """Makes a step with a look-up; labels of any shape."""
    indices = draw_indices(problem.labels.size).reshape(problem.labels.shape)
    return looked_up(variables, problem, tree, optimizer, indices, **options)


def alone(variables, problem, tree, optimizer, **options):
    """Makes a step without a tape; returns the losses in a list."""
    given = problem.labels, problem.inputs, tree, optimizer
    return [train_step(*variables, *given, **options)]


# Steps, and what makes their variables.
STEPS = {
    "in place": (in_place, variables_of),
    "alone": (alone, variables_of),
    "looked up": (looked_up_in_order, with_vectors),
    "from a state": (after_loss, variables_of),
    "moved": (functools.partial(after_loss, moved=True), variables_of),
}


@pytest.mark.parametrize("rule", RULES)
def test_small_terms_of_a_large_batch(rule):
    """Each is lost beside its weight; their sum, as it should be, is not."""
    tree = tf_hsm.Tree.balanced(64, 64)
    changes = []
    for dtype in (np.float32, np.float64):
        w = tf.Variable(np.ones([64, 16], dtype))
        optimizer = built(rule, [w], rate=2.0**-12)
        train_step(
            w, None, np.zeros(256, int), np.ones([256, 16]), tree, optimizer
        )
        changes.append(1 - w.numpy()[1:].astype(np.float64))
    assert (changes[1] > 3e-6).all()
    np.testing.assert_allclose(*changes, atol=1e-7)


def by_a_schedule(step, rule, dtype):
    """The losses of six steps of a function, and where they lead."""
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [1, 3], [0.2, 0.0, 0.05]
    )
    problem = wide_problem(TREE, (32, 16), dtype)
    variables = variables_of(problem)
    optimizer = built(rule, variables, rate=schedule)
    run = tf.function(lambda: step(variables, problem, TREE, optimizer)[0])
    losses = [run() for _ in range(6)]
    assert int(optimizer.iterations) == 6
    return losses, states(optimizer, variables)


@pytest.mark.parametrize(
    "rule, dtype", list(zip(RULES, ["float32", "float64"] * 3, strict=True))
)
def test_steps_by_a_schedule(rule, dtype):
    """Both ways have the same losses, to rounding."""
    found = [by_a_schedule(step, rule, dtype) for step in (in_place, in_two)]
    assert_near(*found, 1e-4 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize("graph", [False, True])
def test_assigned_learning_rate(graph):
    """A traced function too takes the rate that the optimizer has now."""
    problem = wide_problem(TREE, (9, 16))
    variables = variables_of(problem)
    optimizer = built("adagrad", variables)

    def run():
        return train_step(
            *variables, problem.labels, problem.inputs, TREE, optimizer
        )

    run = tf.function(run) if graph else run
    run()
    before = variables[0].numpy()
    optimizer.learning_rate = 0.0
    run()
    assert_same(variables[0], before)
    optimizer.learning_rate = 0.1
    run()
    assert np.any(variables[0] != before)
    assert int(optimizer.iterations) == 3


@pytest.mark.parametrize(
    "rule, dtype, step",
    all_pairs(
        RULES,
        [np.float32, ml_dtypes.bfloat16],
        ["in place", "alone", "from a state", "moved"],
    ),
)
def test_a_function_is_eager(rule, dtype, step):
    """The same bits, for batches of unknown size too."""
    make, make_variables = STEPS[step]
    problem = wide_problem(TREE, (33, 16), dtype)

    def run(wrap):
        variables = make_variables(problem, dtype)
        optimizer = built(rule, variables)

        def function(labels, inputs, upstream):
            given = {"labels": labels, "inputs": inputs, "upstream": upstream}
            batch = problem.replace(**given)
            return make(variables, batch, TREE, optimizer)

        function = wrap(function)
        given = problem.labels, problem.inputs, problem.upstream
        twice = [*function(*given), *function(*given)]
        return [*twice, *states(optimizer, variables)]

    spec = [
        tf.TensorSpec([None], tf.int64),
        tf.TensorSpec([None, 16]),
        tf.TensorSpec([None]),
    ]
    assert_same(run(lambda f: f), run(tf.function(input_signature=spec)))


@pytest.mark.parametrize("graph", [False, True])
def test_one_update_for_any_number_of_gradients(graph):
    """None, one or two: the step belongs to the losses. Weights have none."""
    problem = wide_problem(TREE, (12, 16))
    results = []
    for gradients in range(3):
        variables = variables_of(problem)
        optimizer = built("adagrad", variables)
        x = tf.Variable(problem.inputs)

        def losses_of(x, variables=variables, optimizer=optimizer):
            return train_step(*variables, problem.labels, x, TREE, optimizer)

        call = tf.function(losses_of) if graph else losses_of
        with tf.GradientTape(persistent=True) as tape:
            total = tf.reduce_mean(call(x))
        for _ in range(gradients):
            dx, dw = tape.gradient(total, [x, variables[0]])
            assert dx is not None and dw is None
        assert int(optimizer.iterations) == 1
        results.append(states(optimizer, variables))
    # Without a tape, of variables of Keras: nothing is recorded.
    variables = [keras.Variable(a) for a in (problem.weights, problem.biases)]
    optimizer = built("adagrad", variables)
    train_step(*variables, problem.labels, problem.inputs, TREE, optimizer)
    results.append(states(optimizer, variables))
    for result in results[1:]:
        assert_same(results[0], result)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    "scale", [1.0, 2.0, 0.0, -1.0, 1.01, np.nan, np.arange(12.0)]
)
def test_gradient_of_another_total(scale, graph):
    """An error, since the weights have followed loss_weights already.

    The gradient of the right total is right to rounding, however it is written.
    """
    problem = wide_problem(TREE, (12, 16))
    variables = variables_of(problem)
    optimizer = built("sgd", variables)
    x = tf.Variable(problem.inputs)
    given = *variables, problem.labels, x, TREE, optimizer
    loss_weights = np.arange(12) / 7

    def run():
        with tf.GradientTape() as tape:
            losses = train_step(*given, loss_weights=loss_weights)
            halves = tf.constant(scale * loss_weights / 2, tf.float32)
            total = tf.reduce_sum(losses * halves)
            total += tf.tensordot(halves, losses, 1)
        return tape.gradient(total, x)

    run = tf.function(run) if graph else run
    if np.all(scale == 1):
        dx = run()
        assert np.isfinite(dx).all() and not np.any(dx[0]) and np.any(dx[1])
        return
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="updated in place for the sum"
    ):
        run()


@pytest.mark.parametrize(
    "dtype, weights_dtype",
    all_pairs(
        ["float32", "bfloat16", "float16", "float64"],
        ["float32", "bfloat16", "float64"],
    ),
)
def test_input_gradient_is_that_of_the_loss_op(dtype, weights_dtype):
    """To the bit, for inputs of any type, which their gradient keeps."""
    problem = wide_problem(TREE, (67, 20), weights_dtype)
    problem = problem.replace(inputs=tf.cast(problem.inputs, dtype))
    results = []
    for step in (in_place, in_two):
        variables = variables_of(
            problem, tf.as_dtype(weights_dtype).as_numpy_dtype
        )
        results.append(step(variables, problem, TREE, built("sgd", variables)))
    assert results[0][1].dtype == dtype
    assert_same(*results)


def run_shaped(step, problem, shape, rule="sgd", dtype=np.int64, **options):
    """Losses and states after a step by labels of a shape."""
    make, make_variables = STEPS[step]
    variables = make_variables(problem)
    shaped = problem.replace(
        labels=problem.labels.reshape(shape).astype(dtype),
        inputs=problem.inputs.reshape([*shape, problem.inputs.shape[-1]]),
    )
    optimizer = built(rule, variables)
    losses, *dx = make(variables, shaped, TREE, optimizer, **options)
    assert losses.shape == shape
    for gradient in dx:
        assert gradient.shape == shaped.inputs.shape
    flat = [np.ravel(array) for array in (losses, *dx)]
    return [*flat, *states(optimizer, variables)]


@pytest.mark.parametrize(
    "step, shape, dtype",
    all_pairs(
        list(STEPS),
        [[], [12], [3, 4], [2, 1, 6], [0]],
        [np.int32, np.int64, np.uint8],
    ),
)
def test_labels_of_any_shape(step, shape, dtype):
    """As the same labels in a row; loss weights broadcast to them."""
    problem = wide_problem(TREE, (int(np.prod(shape)), 20))
    weights = np.arange(1.0, 1.0 + (shape[-1] if shape else 1))
    spread = np.broadcast_to(weights, shape or [1]).ravel()
    assert_same(
        run_shaped(
            step,
            problem,
            shape,
            "adagrad",
            dtype,
            loss_weights=weights if shape else 1.0,
        ),
        run_shaped(
            step,
            problem,
            [problem.labels.size],
            "adagrad",
            loss_weights=spread,
        ),
    )


@pytest.mark.parametrize("ignore_class", [None, 7, (7, -3)])
@pytest.mark.parametrize("step", ["alone", "looked up"])
def test_the_default_minimizes_the_mean(step, ignore_class):
    """Over the labels that count, whatever their shape."""
    problem = wide_problem(TREE, (24, 20))
    problem.labels[5:9], problem.labels[15:17] = 7, 8
    if ignore_class == (7, -3):
        problem.labels[15:17] = -3
    kept = ~np.isin(problem.labels, np.ravel(ignore_class or []))
    run = functools.partial(run_shaped, step, shape=[2, 12])
    mean = run(problem, loss_weights=None, ignore_class=ignore_class)
    # As one label in the place of all that are ignored.
    alike = problem.replace(labels=np.where(kept, problem.labels, -9))
    weights = (kept / kept.sum()).reshape(2, 12)
    assert_same(run(alike, loss_weights=weights, ignore_class=-9), mean)


@pytest.mark.parametrize(
    "rule, labels, step",
    all_pairs(RULES, [[], [[7, 7], [7, 7]]], list(STEPS)),
)
def test_no_label_counts(rule, labels, step):
    """An empty batch, or all ignored: nothing changes, and no NaN."""
    labels = np.array(labels, np.int64)
    problem = wide_problem(TREE, (1, 20))
    make, make_variables = STEPS[step]
    variables = make_variables(problem)
    optimizer = built(rule, variables)
    before = states(optimizer, variables)
    inputs = np.ones([*labels.shape, 20], np.float32)
    problem = problem.replace(labels=labels, inputs=inputs)
    options = {"loss_weights": 1.0, "ignore_class": 7}
    losses, *_ = make(variables, problem, TREE, optimizer, **options)
    assert_same(losses, np.zeros(labels.shape))
    assert_same(states(optimizer, variables), before)


@pytest.mark.parametrize(
    "rule, step",
    all_pairs(RULES, ["alone", "looked up", "from a state"]),
)
def test_stochastic_rounding(rule, step):
    """To one of the two neighbours, the mean kept; by default, by a seed."""
    bfloat16 = ml_dtypes.bfloat16
    problem = wide_problem(TREE, (40, 257), bfloat16)
    make, make_variables = STEPS[step]
    starts = [v.numpy() for v in make_variables(problem, bfloat16)]
    starts = [np.float32(start) for start in starts]

    def run(dtype=bfloat16, **options):
        variables = [tf.Variable(array.astype(dtype)) for array in starts]
        optimizer = built(rule, variables, rate=0.001)
        options["loss_weights"] = problem.upstream
        make(variables, problem, TREE, optimizer, **options)
        return [np.array(v.numpy()).astype(np.float32) for v in variables]

    at = 2 if step == "looked up" else 0
    exact, rounded = run(np.float32), run()
    spacing = 2.0 ** (np.floor(np.log2(abs(exact[at]))) - 7)
    error = (rounded[at] - exact[at]) / spacing
    assert (abs(error) < 1.001).all()
    assert (abs(rounded[1] - exact[1]) < 2.0**-6.99 * abs(exact[1])).all()
    # n roundings, each off by at most 1, of weights that the step moves.
    scaled = error[exact[at] != starts[at]]
    assert abs(scaled.mean()) < 4 * 0.5 / np.sqrt(scaled.size)
    assert_same(run(seed=0), rounded)
    assert (run(seed=7)[at] != rounded[at]).any()
    nearest = run(stochastic_rounding=False)[at]
    assert np.count_nonzero(rounded[at] != nearest) > 0.001 * scaled.size


def test_each_step_rounds_by_other_numbers():
    """A weight that was rounded up is not rounded up at every step."""
    tree = tf_hsm.Tree.balanced(64, 64)
    w = tf.Variable(tf.ones([64, 128], tf.bfloat16))
    optimizer = built("sgd", [w], rate=0.01)
    steps = []
    for _ in range(2):
        before = w.read_value()
        train_step(w, None, [0], tf.ones([1, 128]), tree, optimizer)
        # All but the label's, which moves further than to its neighbour.
        steps.append((w != before).numpy()[1:])
        w.assign(before)
    both = (steps[0] & steps[1]).mean()
    chance = steps[0].mean() * steps[1].mean()
    assert 0 < chance < 0.5
    assert abs(both - chance) < 5 * np.sqrt(chance / steps[0].size)


def test_vectors_round_by_other_numbers_than_weights():
    """In the same places of the same rows, both a part of the way down."""
    count, width = 64, 128
    tree = tf_hsm.Tree.balanced(count, count)
    start = np.ones([count, width], np.float32)
    start[0, 1::2], start[0, ::2] = 0.5, 1.5  # with the logits of the others
    weights = tf.Variable(tf.cast(start, tf.bfloat16))
    vectors = tf.Variable(tf.ones([count, width], tf.bfloat16))
    tf_hsm.hierarchical_softmax_embedding_train_step(
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


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_within_a_layer_that_casts(policy):
    """Keras variables keep their type; the step without a look-up too."""
    problem = wide_problem(TREE, (12, 20))
    step = functools.partial(looked_up, problem=problem, tree=TREE)

    class Layer(keras.layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            arrays = problem.weights, problem.biases, draw_vectors(20)
            self.all = [keras.Variable(array) for array in arrays]
            self.optimizer = built("adagrad", self.all)

        def call(self, indices):
            one = step(self.all, optimizer=self.optimizer, indices=indices)
            arguments = problem.labels, problem.inputs, TREE, self.optimizer
            return one, train_step(*self.all[:2], *arguments)

    indices = draw_indices(12)
    one, other = Layer(dtype=policy)(tf.constant(indices))
    variables = with_vectors(problem)
    optimizer = built("adagrad", variables)
    assert_same(one, step(variables, optimizer=optimizer, indices=indices))
    assert np.isfinite(other).all()


def test_a_graph_of_a_session():
    """Whose variables have no device yet."""
    problem = wide_problem(TREE, (12, 20))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = with_vectors(problem)
        optimizer = built("sgd", variables)
        losses = looked_up_in_order(variables, problem, TREE, optimizer)
        session.run(tf.compat.v1.global_variables_initializer())
        assert np.isfinite(session.run(losses)).all()
