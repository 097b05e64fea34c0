"""What training steps must do, at a place where their kernels run.

`loss_step_test` and `weight_decay_test` have cases for CPUs, and `gpu_suite`
has those for GPUs.
"""

import functools

import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import training
from tests.support.references import build
from tests.support.update_rules import built

_SHAPE = BATCH, _ = 40, 17
LABEL_SETS = np.random.default_rng(2).integers(-1, 90, size=(BATCH, 3))
# Trees, shapes and options of losses: probabilities that are kept, and that are
# not for narrow weights; label sets.
KEPT = {
    "random": (build("random"), (40, 80), {"label_smoothing": 0.25}),
    "two_level_1013": (build("two_level_1013"), (67, 33), {}),
    "pinned": (build("pinned huffman_203"), _SHAPE, {}),
    "flat": (build("flat"), _SHAPE, {"logit_soft_cap": 2.0, "z_loss": 0.5}),
    "narrow": (tf_hsm.Tree.flat(30_000), (40, 3), {}),
    "label_tree": (
        tf_hsm.Tree.balanced(90, [30, 3]),
        _SHAPE,
        {"label_sets": True, "ignore_classes": [-1]},
    ),
}


def kept_state(name, variables, problem):
    """Runs a loss of KEPT on a problem; returns the state."""
    tree, _, options = KEPT[name]
    labels = LABEL_SETS if name == "label_tree" else problem.labels
    return training.kept_loss(
        variables, labels, problem.inputs, tree, **options
    ).state


def check_two_steps(place, name):
    """Two steps from one state of KEPT are those of two losses."""
    tree, shape, _ = KEPT[name]
    problem = training.wide_problem(tree, shape)
    found = []
    for has_one in (True, False):
        with tf.device(place.device):
            variables = training.variables_of(problem)
            optimizer = built("lazy_adam", variables)

        def run(has_one=has_one, variables=variables, optimizer=optimizer):
            state = kept_state(name, variables, problem)
            training.step_from(state, variables, problem.upstream, optimizer)
            if not has_one:
                state = kept_state(name, variables, problem)
            training.step_from(
                state, variables, -problem.upstream, optimizer, moved=has_one
            )
            return tf.zeros([])

        place.run(run)
        found.append(training.states(optimizer, variables))
    training.assert_same(*found)


def check_train_step(place, rule, name, **options):
    """Two steps in place, each against NumPy; other rows keep all bits."""
    training.check_steps(rule, build(name), place=place, **options)


def check_infinities(place):
    """Biases that do not decay keep -inf, which switches a row off."""
    tree = build("two_level_1013")
    problem = training.wide_problem(tree, (67, 33), np.float64)
    problem.biases[tree.num_rows - 1] = -np.inf
    problem.labels[0] = tree.num_classes - 2  # beside that row
    with tf.device(place.device):
        weights, biases = variables = training.variables_of(problem)
        optimizer = built("lazy_adam", variables)
    optimizer.weight_decay = 0.25
    optimizer.exclude_from_weight_decay([biases])
    given = variables, problem, tree, optimizer
    place.run(functools.partial(training.in_place, *given))
    assert biases[-1] == -np.inf and not np.isnan(biases).any()
    assert np.isfinite(weights).all()


def check_a_step_keeps_what_was_read(place):
    """Whoever has read a variable before a step in place keeps its values."""
    tree = build("two_level_100")
    problem = training.wide_problem(tree, (10, 4))
    with tf.device(place.device):
        variables = training.variables_of(problem)
        optimizer = built("sgd", variables)
        read = tf.identity(variables[0].read_value())
        held = variables[0].read_value()
    place.run(lambda: training.in_place(variables, problem, tree, optimizer)[0])
    np.testing.assert_array_equal(held, problem.weights)
    np.testing.assert_array_equal(read, problem.weights)
    assert (variables[0].numpy() != problem.weights).any()
