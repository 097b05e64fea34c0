"""What the step in place refuses, and that nothing has changed then."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import training
from tests.support.update_rules import OPTIMIZERS, built
from tf_hsm import hierarchical_softmax_train_step as train_step
from tf_hsm import optimizers

TREE = tf_hsm.Tree.two_level(60)
PROBLEM = training.wide_problem(TREE, (12, 16))
ARGUMENTS = PROBLEM.labels, PROBLEM.inputs, TREE


@pytest.mark.parametrize("name", ["weights", "biases"])
def test_tensors(name):
    """They cannot be updated in place."""
    w, b = training.variables_of(PROBLEM)
    optimizer = built("sgd", [w, b])
    given = {"weights": w, "biases": b}
    for tensor in (given[name].read_value(), given[name].numpy()):
        with pytest.raises(TypeError, match=f"{name} must be a variable"):
            train_step(
                **{**given, name: tensor},
                labels=PROBLEM.labels,
                inputs=PROBLEM.inputs,
                tree=TREE,
                optimizer=optimizer,
            )


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: optimizers.SGD(0.1, **options),
        lambda **options: optimizers.Adagrad(0.1, **options),
        lambda **options: optimizers.RowwiseAdagrad(0.1, **options),
        lambda **options: optimizers.LazyAdam(0.1, **options),
        lambda **options: optimizers.RMSprop(0.1, **options),
        lambda **options: optimizers.Lion(0.1, **options),
    ],
)
@pytest.mark.parametrize(
    "option",
    [
        {"clipnorm": 1.0},
        {"global_clipnorm": 1.0},
        {"clipvalue": 0.5},
        {"use_ema": True},
        {"gradient_accumulation_steps": 2},
        {"loss_scale_factor": 4.0},
    ],
    ids=lambda option: next(iter(option)),
)
def test_what_needs_the_whole_gradient(make, option):
    """Is refused by name."""
    check_refused(make(**option), ValueError, next(iter(option)))


def check_refused(optimizer, error, match):
    """Asserts the error, and that nothing was touched."""
    variables = training.variables_of(PROBLEM)
    optimizer.build(variables)
    before = [v.numpy() for v in (*variables, *optimizer.variables)]
    with pytest.raises(error, match=match):
        train_step(*variables, *ARGUMENTS, optimizer)
    after = [v.numpy() for v in (*variables, *optimizer.variables)]
    training.assert_same(after, before)


@pytest.mark.parametrize(
    "optimizer, error, match",
    [
        (optimizers.SGD(0.1, momentum=0.9), ValueError, "momentum"),
        (optimizers.LazyAdam(0.1, amsgrad=True), ValueError, "amsgrad"),
        (keras.optimizers.SGD(0.1), TypeError, "optimizer must be"),
        (keras.optimizers.Adam(0.1), TypeError, "optimizer must be"),
        (
            optimizers.LossScaleOptimizer(optimizers.SGD(0.1)),
            TypeError,
            "LossScaleOptimizer",
        ),
    ],
    ids=["momentum", "amsgrad", "keras_sgd", "keras_adam", "loss_scale"],
)
def test_other_optimizers(optimizer, error, match):
    """And those options that are of one rule only."""
    check_refused(optimizer, error, match)


def test_a_subclass_may_do_something_else():
    """So it is refused, rather than taken for its base."""

    class Mine(optimizers.SGD):
        pass

    check_refused(Mine(0.1), TypeError, "Mine")


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_an_optimizer_of_other_variables(rule):
    """One that is not built, or for others, has no slots to use."""
    w, b = training.variables_of(PROBLEM)
    for optimizer in (OPTIMIZERS[rule](), built(rule, [b]), built(rule, [w])):
        with pytest.raises(ValueError, match="optimizer must be built"):
            train_step(w, b, *ARGUMENTS, optimizer)


def test_unknown_name():
    """The message lists the names that are known."""
    with pytest.raises(ValueError, match="sgd, adagrad"):
        train_step(*training.variables_of(PROBLEM), *ARGUMENTS, "adamw")


def test_stochastic_rounding_of_other_types():
    """It is for bfloat16 alone."""
    for dtype in (np.float32, np.float64, np.float16):
        variables = training.variables_of(PROBLEM, dtype)
        with pytest.raises(ValueError, match="stochastic_rounding"):
            train_step(
                *variables,
                *ARGUMENTS,
                built("sgd", variables),
                stochastic_rounding=True,
            )


def test_labels_must_be_integers():
    """Float labels are exact only to 2^24."""
    variables = training.variables_of(PROBLEM)
    with pytest.raises(TypeError, match="integers"):
        train_step(
            *variables,
            PROBLEM.labels.astype("f4"),
            PROBLEM.inputs,
            TREE,
            built("sgd", variables),
        )


def bad_arguments(kind):
    """Arguments of which one does not fit, and what the message names."""
    (w, b), y, x = (
        training.variables_of(PROBLEM),
        PROBLEM.labels.copy(),
        PROBLEM.inputs,
    )
    weights = None
    if kind == "label":
        y[3] = TREE.num_classes
        match = r"labels\[3\] = 60 is outside \[0, 60\)"
    elif kind == "inputs":
        x, match = x[:, :-1], "inputs"
    elif kind == "labels":
        y, match = y[:-1], "inputs"
    elif kind == "biases":
        b, match = tf.Variable(PROBLEM.biases[:-1]), "biases"
    elif kind == "rows":
        w = tf.Variable(PROBLEM.weights[:-1])
        b, match = tf.Variable(PROBLEM.biases[:-1]), "row_groups"
    elif kind == "biases_type":
        b, match = tf.Variable(PROBLEM.biases.astype("f8")), "biases"
    elif kind == "one_variable":
        w = b = tf.Variable(PROBLEM.weights)
        match = "different variables|biases"
    elif kind == "loss_weights":
        weights, match = np.ones(5), r"loss_weights must .* has the shape \[5\]"
    return (w, b, y, x), weights, match


@pytest.mark.parametrize(
    "kind",
    [
        "label",
        "inputs",
        "labels",
        "biases",
        "rows",
        "biases_type",
        "one_variable",
        "loss_weights",
    ],
)
@pytest.mark.parametrize("rule", ["sgd", "lazy_adam"])
def test_arguments_that_do_not_fit(rule, kind):
    """Eagerly an error says which, and nothing has changed."""
    (w, b, y, x), loss_weights, match = bad_arguments(kind)
    optimizer = built(rule, [w] if w is b else [w, b])
    before = training.states(optimizer, [w, b])
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        train_step(w, b, y, x, TREE, optimizer, loss_weights=loss_weights)
    training.assert_same(training.states(optimizer, [w, b]), before)
    assert int(optimizer.iterations) == 0


def failed_in_a_function():
    """Variables and optimizer after ten failures, and the state before."""
    variables = training.variables_of(PROBLEM)
    optimizer = built("lazy_adam", variables)
    before = training.states(optimizer, variables)

    @tf.function
    def run(labels):
        return train_step(*variables, labels, PROBLEM.inputs, TREE, optimizer)

    for _ in range(10):
        with pytest.raises(tf.errors.InvalidArgumentError, match="labels"):
            run(tf.fill([12], tf.constant(60, tf.int64)))
    return variables, optimizer, before


def test_a_function_that_fails_changes_nothing():
    """Neither weights nor slots."""
    variables, optimizer, before = failed_in_a_function()
    training.assert_same(training.states(optimizer, variables), before)


def test_a_function_that_fails_counts_no_step():
    """As it does not eagerly."""
    _, optimizer, _ = failed_in_a_function()
    assert int(optimizer.iterations) == 0


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    "scale", [2.0, 0.0, -1.0, 1.01, np.nan, np.arange(12.0)]
)
def test_gradient_of_another_total(scale, graph):
    """An error, since the weights have followed loss_weights already."""
    variables = training.variables_of(PROBLEM)
    optimizer = built("sgd", variables)
    x = tf.Variable(PROBLEM.inputs)

    def run():
        with tf.GradientTape() as tape:
            losses = train_step(*variables, PROBLEM.labels, x, TREE, optimizer)
            total = tf.reduce_mean(losses * tf.constant(scale, tf.float32))
        return tape.gradient(total, x)

    with pytest.raises(
        tf.errors.InvalidArgumentError, match="updated in place for the sum"
    ):
        (tf.function(run) if graph else run)()


@pytest.mark.parametrize("graph", [False, True])
def test_gradient_of_the_same_total(graph):
    """To rounding, however it was written; zero weights are weights too."""
    loss_weights = tf.range(12, dtype=tf.float64) / 7
    variables = training.variables_of(PROBLEM)
    optimizer = built("sgd", variables)
    x = tf.Variable(PROBLEM.inputs)

    def run():
        with tf.GradientTape() as tape:
            losses = train_step(
                *variables,
                PROBLEM.labels,
                x,
                TREE,
                optimizer,
                loss_weights=loss_weights,
            )
            halves = tf.cast(loss_weights / 2, tf.float32)
            total = tf.reduce_sum(losses * halves) + tf.tensordot(
                halves, losses, 1
            )
        return tape.gradient(total, x)

    dx = (tf.function(run) if graph else run)()
    assert np.isfinite(dx).all() and not np.any(dx[0]) and np.any(dx[1])


def test_second_order_is_refused():
    """There is no gradient of the gradient, and nobody is told zero."""
    variables = training.variables_of(PROBLEM)
    with tf.GradientTape() as outer:
        x = tf.constant(PROBLEM.inputs)
        outer.watch(x)
        _, dx = training.in_place(
            variables,
            PROBLEM.replace(inputs=x),
            TREE,
            built("sgd", variables),
        )
    with pytest.raises(LookupError):
        outer.gradient(dx, x)
