"""The step from the state of a loss: what the state is good for.

`conformance_test` and `steps_test` compare it with other steps.
"""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forked
from tests.support.pairs import all_pairs
from tests.support.places import HERE
from tests.support.step_cases import (
    BATCH,
    KEPT,
    LABEL_SETS,
    check_two_steps,
    kept_state,
)
from tests.support.training import (
    assert_near,
    assert_same,
    kept_loss,
    states,
    step_from,
    variables_of,
    wide_problem,
)
from tests.support.update_rules import OPTIMIZERS, built

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
TREE = tf_hsm.Tree.balanced(90, [30, 3])
SHAPE = 40, 17


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_label_trees(rule):
    """As the step in place of a label tree."""
    problem = wide_problem(TREE, SHAPE, np.float64)
    results = []
    for is_kept in (False, True):
        variables = variables_of(problem)
        optimizer = built(rule, variables)
        arguments = LABEL_SETS, problem.inputs, TREE
        if is_kept:
            made = kept_loss(
                variables, *arguments, label_sets=True, ignore_classes=[-1]
            )
            losses = made.loss
            step_from(made.state, variables, problem.upstream, optimizer)
        else:
            losses = tf_hsm.label_tree_train_step(
                *variables,
                *arguments,
                optimizer,
                loss_weights=problem.upstream,
            )
        results.append([losses, *states(optimizer, variables)])
    assert_near(*results, 1e-12)


@pytest.mark.parametrize("name, dtype", all_pairs(list(KEPT), DTYPES))
def test_parameters_that_have_moved(name, dtype):
    """The step is that of the present ones, to the bit."""
    tree, shape, _ = KEPT[name]
    problem = wide_problem(tree, shape, dtype)
    found = []
    for before, moved in [(1, False), (0.5, True), (0.5, False)]:
        variables = variables_of(problem, dtype)
        present = [v.numpy() for v in variables]
        for v in variables:
            v.assign(v * before)
        state = kept_state(name, variables, problem)
        for v, value in zip(variables, present, strict=True):
            v.assign(value)
        optimizer = built("adagrad", variables)
        step_from(state, variables, problem.upstream, optimizer, moved=moved)
        found.append(states(optimizer, variables))
    assert_same(found[0], found[1])
    assert (found[1][0][0] != found[2][0][0]).any()


@pytest.mark.parametrize("name", KEPT)
def test_a_state_serves_two_steps(name):
    check_two_steps(HERE, name)


def measure(threads):
    """Steps of all kinds of losses; in a process of its own."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    found = []
    for i, name in enumerate(KEPT):
        tree, (batch, width), _ = KEPT[name]
        batch = batch if name == "label_tree" else 300
        for j, dtype in enumerate((np.float32, ml_dtypes.bfloat16)):
            problem = wide_problem(tree, (batch, width), dtype)
            variables = variables_of(problem, dtype)
            rule = list(OPTIMIZERS)[(i + j) % len(OPTIMIZERS)]
            optimizer = built(rule, variables)
            state = kept_state(name, variables, problem)
            for moved in (False, True):
                step_from(
                    state,
                    variables,
                    problem.upstream,
                    optimizer,
                    moved=moved,
                    stochastic_rounding=dtype != np.float32,
                )
            found += [
                np.asarray(array, np.float64)
                for arrays in states(optimizer, variables)
                for array in arrays
            ]
    return found


def test_any_number_of_threads():
    one, *others = (forked.run(measure, threads) for threads in (1, 2, 5))
    for other in others:
        assert_same(one, other)


def test_in_a_function():
    """Loss and step in one graph, in program order."""
    problem = wide_problem(TREE, SHAPE)
    found = []
    for wrap in (lambda f: f, tf.function):
        variables = variables_of(problem)
        optimizer = built("lazy_adam", variables)

        def run(variables=variables, optimizer=optimizer):
            labels, inputs = problem.labels, problem.inputs
            made = kept_loss(variables, labels, inputs, TREE)
            step_from(made.state, variables, problem.upstream, optimizer)
            return made.loss, kept_loss(variables, labels, inputs, TREE).loss

        call = wrap(run)
        found.append([call(), call(), states(optimizer, variables)])
    assert_same(*found)
    assert_same(found[0][0][1], found[0][1][0])


class Refused:
    """A call of the op with one thing wrong."""

    def __init__(self):
        self.problem = wide_problem(TREE, SHAPE)
        self.variables = variables_of(self.problem)
        self.optimizer = built("lazy_adam", self.variables)
        self.state = self.kept(self.variables, self.problem)
        self.handles = [v.handle for v in self.variables]
        self.others = [tf.Variable(v) for v in 2 * self.variables]
        self.spare = [v.handle for v in self.others]
        self.double = tf.Variable(tf.zeros(self.others[0].shape, tf.float64))

    def kept(self, variables, problem, tree=TREE, **options):
        return kept_loss(
            variables, problem.labels, problem.inputs, tree, **options
        ).state

    def of(self, tree, dtype=np.float32, has_biases=True):
        """The state of a loss of other weights."""
        other = wide_problem(tree, SHAPE, dtype, has_biases=has_biases)
        return self.kept(variables_of(other), other, tree)


# What errors say, and one wrong argument, as a function of a Refused.
# Shapes that a graph knows when it is traced.
IN_GRAPHS = [
    ("hyperparameters must", "hyperparameters", lambda r: np.zeros([5])),
    ("seed must", "seed", lambda r: tf.zeros([1], tf.int64)),
    ("moved must", "moved", lambda r: tf.zeros([1], tf.bool)),
    ("state must be a scalar", "state", lambda r: tf.stack([r.state] * 2)),
]
OTHERS = "but is that of one of"
TWICE = "must be different variables"
REFUSED = [
    ("loss_grads must", "loss_grads", lambda r: tf.zeros([BATCH - 1])),
    ("loss_grads must", "loss_grads", lambda r: tf.zeros([BATCH, 1])),
    # Empty states, and states of a loss of other weights.
    (
        "but is empty",
        "state",
        lambda r: r.kept(r.variables, r.problem, with_gradients=False),
    ),
    ("a variant of the type", "state", lambda r: tf.raw_ops.OptionalNone()),
    (OTHERS, "state", lambda r: r.of(tf_hsm.Tree.two_level(50))),
    (OTHERS, "state", lambda r: r.of(TREE, np.float64)),
    (OTHERS, "state", lambda r: r.of(TREE, has_biases=False)),
    # Variables.
    ("weight_slots must be 2", "weight_slots", lambda r: r.spare[:1]),
    ("bias_slots must be 2", "bias_slots", lambda r: []),
    ("rule, but are 2", "rule", lambda r: "adagrad"),
    (TWICE, "weight_slots", lambda r: [r.handles[0], r.spare[2]]),
    (TWICE, "weight_slots", lambda r: [r.spare[0], r.handles[0]]),
    (TWICE, "bias_slots", lambda r: [r.handles[1], r.spare[1]]),
    (TWICE, "biases", lambda r: r.handles[:1]),
    (r"weight_slots\[0\] must have", "weight_slots", lambda r: r.spare[1::-1]),
    ("biases must", "biases", lambda r: [tf.zeros([TREE.num_rows])]),
    ("at most one", "biases", lambda r: r.spare[1::2]),
    ("weights must be float", "weights", lambda r: r.double.handle),
]


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("message, name, wrong", [*IN_GRAPHS, *REFUSED])
def test_refused(message, name, wrong, moved):
    """The argument is named, and nothing has changed."""
    refused = Refused()
    before = states(refused.optimizer, refused.variables)
    given = {
        "state": refused.state,
        "loss_grads": refused.problem.upstream,
        "moved": moved,
        name: wrong(refused),
    }

    def call():
        step_from(
            variables=refused.variables, optimizer=refused.optimizer, **given
        )

    errors = tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError
    with pytest.raises(errors, match=message):
        call()
    assert_same(states(refused.optimizer, refused.variables), before)
    if (message, name, wrong) in IN_GRAPHS:
        with pytest.raises(ValueError):
            tf.function(call).get_concrete_function()
