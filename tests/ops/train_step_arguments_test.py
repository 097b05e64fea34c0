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


class Mine(optimizers.SGD):
    """It may do something else than its base."""


# What needs the whole gradient, of every optimizer.
WHOLE = {
    "clipnorm": 1.0,
    "global_clipnorm": 1.0,
    "clipvalue": 0.5,
    "use_ema": True,
    "gradient_accumulation_steps": 2,
    "loss_scale_factor": 4.0,
}
REFUSED = [
    *[
        (ValueError, option, lambda m=make, o=option: m(0.1, **{o: WHOLE[o]}))
        for make in (
            *(optimizers.SGD, optimizers.Adagrad, optimizers.RowwiseAdagrad),
            *(optimizers.LazyAdam, optimizers.RMSprop, optimizers.Lion),
        )
        for option in WHOLE
    ],
    (ValueError, "momentum", lambda: optimizers.SGD(0.1, momentum=0.9)),
    (ValueError, "amsgrad", lambda: optimizers.LazyAdam(0.1, amsgrad=True)),
    (TypeError, "optimizer must be", lambda: keras.optimizers.SGD(0.1)),
    (TypeError, "optimizer must be", lambda: keras.optimizers.Adam(0.1)),
    (
        *(TypeError, "LossScaleOptimizer"),
        lambda: optimizers.LossScaleOptimizer(optimizers.SGD(0.1)),
    ),
    (TypeError, "Mine", lambda: Mine(0.1)),
]


@pytest.mark.parametrize("error, match, make", REFUSED)
def test_other_optimizers(error, match, make):
    """They are refused by name, and nothing was touched."""
    variables, optimizer = training.variables_of(PROBLEM), make()
    optimizer.build(variables)
    before = [v.numpy() for v in (*variables, *optimizer.variables)]
    with pytest.raises(error, match=match):
        train_step(*variables, *ARGUMENTS, optimizer)
    after = [v.numpy() for v in (*variables, *optimizer.variables)]
    training.assert_same(after, before)


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


def test_a_function_that_fails_changes_nothing():
    """Neither weights nor slots; and it counts no step."""
    variables = training.variables_of(PROBLEM)
    optimizer = built("lazy_adam", variables)
    before = training.states(optimizer, variables)

    @tf.function
    def run(labels):
        return train_step(*variables, labels, PROBLEM.inputs, TREE, optimizer)

    for _ in range(10):
        with pytest.raises(tf.errors.InvalidArgumentError, match="labels"):
            run(tf.fill([12], tf.constant(60, tf.int64)))
    training.assert_same(training.states(optimizer, variables), before)
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
