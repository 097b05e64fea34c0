"""The step from the state of a loss, against NumPy and the step in place."""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forests, forked, oracle, pinned, trees
from tests.support.pairs import all_pairs
from tests.support.training import (
    after_loss,
    assert_near,
    assert_same,
    check_steps,
    in_place,
    kept_loss,
    states,
    step_from,
    variables_of,
    wide_problem,
)
from tests.support.update_rules import OPTIMIZERS, built

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
FORESTS = {
    f"below {name}": lambda make=make: (
        forests.cut(make(), forests.some_rows(make(), 1), 1).forest
    )
    for name, make in forests.TREES.items()
}
PINNED = {f"pinned {name}": make for name, make in pinned.TREES.items()}
TREES = {**trees.CATALOGUE, **FORESTS, **PINNED}
# (B, D) and biases. Few examples update a group at once, many in parts.
SHAPES = [((5, 3), True), ((67, 33), True), ((67, 33), False)]
TREE = tf_hsm.Tree.balanced(90, [30, 3])
SHAPE = BATCH, WIDTH = 40, 17
LABEL_SETS = np.random.default_rng(2).integers(-1, 90, size=(BATCH, 3))

build = functools.cache(lambda name: TREES[name]())


@pytest.mark.parametrize(
    "name, rule, dtype, form",
    all_pairs(list(TREES), list(OPTIMIZERS), DTYPES, SHAPES),
)
def test_two_steps_against_numpy(rule, name, form, dtype):
    shape, has_biases = form
    check_steps(rule, build(name), shape, dtype, has_biases, make=after_loss)


@pytest.mark.parametrize(
    "name, rule, smoothing",
    all_pairs(
        ["flat", "random", "binary_37", "pinned chain_50", "below ragged"],
        list(OPTIMIZERS),
        [0.25, 1.0],
    ),
)
def test_smoothed_labels(name, rule, smoothing):
    check_steps(
        rule,
        build(name),
        SHAPE,
        np.float64,
        has_biases=True,
        label_smoothing=smoothing,
        make=after_loss,
    )


def check_as_in_place(tree, rule, problem, options, of_op):
    """Asserts that both ways to step give equal outputs, variables and slots.

    Args:
        tree: A `tf_hsm.Tree`.
        rule: One of OPTIMIZERS.
        problem: An `oracle.Problem` in float64.
        options: Options of `hierarchical_softmax_train_step`.
        of_op: The same options, as the loss op takes them.
    """
    results = []
    for make, given in ((in_place, options), (after_loss, of_op)):
        variables = variables_of(problem)
        optimizer = built(rule, variables)
        outputs = make(variables, problem, tree, optimizer, **given)
        results.append([*outputs, *states(optimizer, variables)])
    assert_near(*results, 1e-12)


@pytest.mark.parametrize(
    "name, rule",
    all_pairs(["flat", "random", "binary_37"], list(OPTIMIZERS)),
)
def test_a_prior_of_smoothing(name, rule):
    tree = build(name)
    prior = oracle.random_prior(tree)
    check_as_in_place(
        tree,
        rule,
        wide_problem(tree, SHAPE, np.float64),
        {"label_smoothing": 0.25, "smoothing_prior": prior},
        {"label_smoothing": 0.25, "smoothing_prior": [prior]},
    )


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("cap, z_loss", [(1.5, 0), (None, 0.25), (1.5, 0.25)])
def test_soft_caps_and_z_losses(cap, z_loss, rule):
    check_as_in_place(
        build("flat"),
        rule,
        wide_problem(build("flat"), SHAPE, np.float64),
        {"logit_soft_cap": cap, "z_loss": z_loss},
        {"logit_soft_cap": cap or 0, "z_loss": z_loss},
    )


@pytest.mark.parametrize("name", ["random", "huffman_2ary", "below ragged"])
def test_labels_that_are_rows(name):
    tree = build(name)
    problem = wide_problem(trees.OfRows(tree), SHAPE, np.float64)
    check_as_in_place(tree, "adagrad", problem, *[{"nodes": True}] * 2)


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_ignored_labels_and_losses_of_no_weight(rule):
    problem = wide_problem(TREE, SHAPE, np.float64)
    labels, upstream = problem.labels.copy(), problem.upstream.copy()
    labels[3:9] = 7
    upstream[10:15] = 0
    upstream[labels == 11] = 0
    check_as_in_place(
        TREE,
        rule,
        problem.replace(labels=labels, upstream=upstream),
        {"ignore_class": 7},
        {"ignore_classes": [7]},
    )


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("labels", [[], [[7, 7], [7, 7]]])
def test_no_label_counts(rule, labels, moved):
    """An empty batch, or all ignored: nothing changes."""
    variables = variables_of(wide_problem(TREE, (1, 20)))
    optimizer = built(rule, variables)
    before = states(optimizer, variables)
    labels = np.array(labels, np.int64)
    inputs = np.ones([*labels.shape, 20], np.float32)
    made = kept_loss(variables, labels, inputs, TREE, ignore_classes=[7])
    ones = tf.ones(labels.shape)
    step_from(made.state, variables, ones, optimizer, moved=moved)
    assert_same(states(optimizer, variables), before)


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


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_stochastic_rounding(rule):
    """Every weight becomes a neighbour of the exact one, drawn by the seed."""
    problem = wide_problem(TREE, (40, 257), ml_dtypes.bfloat16)

    def run(dtype=ml_dtypes.bfloat16, **options):
        variables = variables_of(problem, dtype)
        optimizer = built(rule, variables, rate=0.001)
        labels, inputs = problem.labels, problem.inputs
        state = kept_loss(variables, labels, inputs, TREE).state
        step_from(state, variables, problem.upstream, optimizer, **options)
        return [v.numpy().astype(np.float32) for v in variables]

    exact = run(np.float32)
    rounded = run(stochastic_rounding=True)
    for one, wanted in zip(rounded, exact, strict=True):
        # A sum is within its rounding error, a stored number within 2^-7.
        assert (abs(one - wanted) < 2.0**-6.99 * abs(wanted)).all()
    assert_same(run(stochastic_rounding=True), rounded)
    others = run(stochastic_rounding=True, seed=tf.constant(1, tf.int64))
    assert (others[0] != rounded[0]).any()
    assert (run()[0] != rounded[0]).any()


# Trees and options of losses: probabilities that are kept, and that are not
# for narrow weights; label sets.
KEPT = {
    "random": (build("random"), (40, 80), {"label_smoothing": 0.25}),
    "pinned": (build("pinned huffman_203"), SHAPE, {}),
    "flat": (build("flat"), SHAPE, {"logit_soft_cap": 2.0, "z_loss": 0.5}),
    "narrow": (tf_hsm.Tree.flat(30_000), (40, 3), {}),
    "label_tree": (TREE, SHAPE, {"label_sets": True, "ignore_classes": [-1]}),
}


def kept_state(name, variables, problem):
    """Runs a loss of KEPT on a problem; returns the state."""
    tree, _, options = KEPT[name]
    labels = LABEL_SETS if name == "label_tree" else problem.labels
    return kept_loss(variables, labels, problem.inputs, tree, **options).state


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
    """As two losses and two steps do."""
    tree, shape, _ = KEPT[name]
    problem = wide_problem(tree, shape)
    found = []
    for has_one in (True, False):
        variables = variables_of(problem)
        optimizer = built("lazy_adam", variables)
        state = kept_state(name, variables, problem)
        step_from(state, variables, problem.upstream, optimizer)
        if not has_one:
            state = kept_state(name, variables, problem)
        step_from(state, variables, -problem.upstream, optimizer, moved=has_one)
        found.append(states(optimizer, variables))
    assert_same(*found)


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
        others = [tf.Variable(v) for v in (*self.variables, *self.variables)]
        self.others = others
        self.spare = [v.handle for v in others]

    def kept(self, variables, problem, tree=TREE, **options):
        return kept_loss(
            variables, problem.labels, problem.inputs, tree, **options
        ).state

    def check(self, match, state=None, loss_grads=None, **changes):
        before = states(self.optimizer, self.variables)
        with pytest.raises(
            (
                tf.errors.InvalidArgumentError,
                tf.errors.FailedPreconditionError,
            ),
            match=match,
        ):
            step_from(
                self.state if state is None else state,
                self.variables,
                self.problem.upstream if loss_grads is None else loss_grads,
                self.optimizer,
                **changes,
            )
        assert_same(states(self.optimizer, self.variables), before)


@pytest.mark.parametrize(
    "name, shape",
    [
        ("loss_grads", [BATCH - 1]),
        ("loss_grads", [BATCH, 1]),
        ("hyperparameters", [5]),
        ("seed", [1]),
        ("moved", [1]),
    ],
)
@pytest.mark.parametrize("rest", [{}, {"moved": True}])
def test_shapes_that_do_not_fit(name, shape, rest):
    dtypes = {"moved": tf.bool, "seed": tf.int64, "loss_grads": tf.float32}
    value = tf.zeros(shape, dtypes.get(name, tf.float64))
    Refused().check(f"{name} must", **{**rest, name: value})


def test_states_that_do_not_fit():
    """Empty ones, and those of a loss of other weights."""
    refused = Refused()
    variables, problem = refused.variables, refused.problem
    empty = refused.kept(variables, problem, with_gradients=False)
    refused.check("but is empty", empty)
    refused.check("a variant of the type", tf.raw_ops.OptionalNone())
    refused.check("state must be a scalar", tf.stack([refused.state] * 2))
    for tree, dtype, has_biases in [
        (tf_hsm.Tree.two_level(50), np.float32, True),
        (TREE, np.float64, True),
        (TREE, np.float32, False),
    ]:
        other = wide_problem(tree, SHAPE, dtype, has_biases=has_biases)
        state = refused.kept(variables_of(other), other, tree)
        refused.check("but is that of one of", state)


def test_variables_that_do_not_fit():
    refused = Refused()
    spare, (weights, biases) = refused.spare, refused.handles
    refused.check("weight_slots must be 2", weight_slots=spare[:1])
    refused.check("bias_slots must be 2", bias_slots=[])
    refused.check("rule, but are 2", rule="adagrad")
    for at in range(2):
        slots = [spare[0], spare[2]]
        slots[at] = weights
        refused.check("must be different variables", weight_slots=slots)
    slots = [biases, spare[1]]
    refused.check("must be different variables", bias_slots=slots)
    refused.check("must be different variables", biases=[weights])
    refused.check(r"weight_slots\[0\] must have", weight_slots=spare[1::-1])
    refused.check("biases must", biases=[tf.zeros([TREE.num_rows])])
    refused.check("at most one", biases=spare[1::2])
    double = tf.Variable(tf.zeros(refused.variables[0].shape, tf.float64))
    refused.check("weights must be float", weights=double.handle)


def test_shapes_are_known_when_a_function_is_traced():
    refused = Refused()
    for change in (
        {"hyperparameters": tf.zeros([3], tf.float64)},
        {"seed": tf.zeros([1], tf.int64)},
        {"moved": tf.zeros([1], tf.bool)},
        {"state": tf.stack([refused.state] * 2)},
    ):
        arguments = {"state": refused.state, **change}
        state = arguments.pop("state")

        def call(state=state, arguments=arguments):
            step_from(
                state,
                refused.variables,
                refused.problem.upstream,
                refused.optimizer,
                **arguments,
            )

        with pytest.raises(ValueError):
            tf.function(call).get_concrete_function()
