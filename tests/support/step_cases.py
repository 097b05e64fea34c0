"""What training steps must do, at a place where their kernels run.

`conformance_test` and `loss_state_test` have the cases for CPUs; `gpu_suite`
has the cases for GPUs.
"""

import functools

import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import oracle, references, training, trees
from tests.support.references import build
from tests.support.update_rules import built, stepped
from tf_hsm.optimizers.in_place_rules import has_decay

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
    """Two steps from one state of KEPT equal the steps of two losses."""
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


def check_steps(
    place,
    rule,
    tree,
    shape,
    dtype,
    has_biases=True,
    make=training.in_place,
    *,
    label_smoothing=0.0,
    to_prior=False,
    nodes=False,
    graph=False,
    count=None,
    not_decayed=None,
    ignore_class=(),
    logit_soft_cap=None,
    z_loss=0.0,
):
    """Asserts that two steps in place are NumPy's, on touched rows alone.

    The second step begins where the first one ends.

    Args:
        place: A `Place`.
        rule: One of OPTIMIZERS.
        tree: A name of `references.NAMES`, or a tree.
        shape: The batch and the width.
        dtype: The type of the variables.
        has_biases: Whether there are biases.
        make: Makes a step as `in_place` does.
        label_smoothing: A share.
        to_prior: Whether smoothing is towards a random prior.
        nodes: Whether labels are rows.
        graph: Whether to run in a `tf.function`.
        count: The number of vectors of which inputs are looked up, by the step
            with a look-up in place of `make`. By default inputs are given.
        not_decayed: The variables among "weights", "biases" and "vectors" to
            which weight decay does not apply; None for no weight decay.
        ignore_class: A label, or several, that count for nothing.
        logit_soft_cap: For a flat tree.
        z_loss: For a flat tree.
    """
    tree = build(tree) if isinstance(tree, str) else tree
    of_labels = trees.OfRows(tree) if nodes else tree
    problem = training.wide_problem(of_labels, shape, dtype, 0, has_biases)
    wide = problem.weights.dtype
    prior = oracle.random_prior(tree) if to_prior else None
    fields = {
        "label_smoothing": label_smoothing,
        "smoothing_prior": prior,
        "logit_soft_cap": logit_soft_cap,
        "z_loss": z_loss,
    }
    ignored = np.ravel(ignore_class)
    options = {"nodes": nodes, "ignore_class": ignored.astype(int).tolist()}
    options |= {k: v for k, v in fields.items() if np.any(v)}
    with tf.device(place.device):
        variables = training.variables_of(problem, dtype)
        if count is not None:
            variables = training.with_vectors(problem, dtype, count)
        optimizer = built(rule, variables)
    if not_decayed is not None:
        names = ["weights", "biases", "vectors"]
        of_names = dict(zip(names, variables, strict=False))
        kept = [of_names.get(name) for name in not_decayed]
        optimizer.weight_decay = 0.25
        optimizer.exclude_from_weight_decay([v for v in kept if v is not None])
    for step in (1, 2):
        before = training.states(optimizer, variables)
        current = [state[0].astype(wide) for state in before]
        indices = training.draw_indices(shape[0], step, count or training.COUNT)
        problem = training.wide_problem(of_labels, shape, dtype, step).replace(
            weights=current[0],
            biases=current[1] if has_biases else None,
            **fields,
        )
        problem.upstream[1::4] = 0
        for i, label in enumerate(ignored):
            problem.labels[i :: 3 * len(ignored)] = label
        counts = ~np.isin(problem.labels, ignored)
        known = np.where(counts, problem.labels, -1)
        if count is not None:
            problem = problem.replace(inputs=current[-1][indices])
            make = functools.partial(training.looked_up, indices=indices)
        value, bound = references.hierarchical_softmax(
            of_labels,
            problem.replace(labels=known),
            operands=dtype,
            ignore_class=-1,
        )
        call = functools.partial(
            make,
            variables,
            problem,
            tree,
            optimizer,
            stochastic_rounding=False,
            **options,
        )
        losses, *dx = place.run(call, graph)
        assert losses.device.endswith(place.device), losses.device
        training.assert_close(losses, value.loss, bound.loss, "losses")
        rows = references.touched_rows(of_labels, known, -1)
        gradients = [(value.dw, bound.dw, rows), (value.db, bound.db, rows)]
        gradients = gradients[: 1 + has_biases]
        if count is None:
            training.assert_close(*dx, value.dx, bound.dx, "gradient of inputs")
        else:
            by_row = functools.partial(_sums_by_row, indices, count=count)
            sums, errors = by_row(value.dx), by_row(bound.dx)
            # The sums of repeated rows are made in the type of the sums.
            repeated = np.bincount(indices, minlength=count)[:, None]
            unit = oracle.unit_roundoff(wide)
            errors += repeated * unit * by_row(abs(value.dx) + bound.dx)
            gradients.append((sums, errors, np.unique(indices[counts])))
        assert_stepped(
            optimizer,
            step,
            before,
            training.states(optimizer, variables),
            gradients,
            np.dtype(dtype),
            [has_decay(optimizer, v) for v in variables if v is not None],
        )
        assert int(optimizer.iterations) == step


def _sums_by_row(indices, values, count):
    sums = np.zeros([count, values.shape[1]])
    np.add.at(sums, indices, values.astype(np.float64))
    return sums


def assert_stepped(optimizer, step, before, after, gradients, dtype, decays):
    """Asserts that an optimizer's step is NumPy's, on touched rows alone.

    Args:
        optimizer: One of `tf_hsm.optimizers`.
        step: 1 for its first.
        before: As from `training.states`.
        after: The same.
        gradients: Per variable the gradient, a bound on its error, and the
            touched rows.
        dtype: The type to which the variables are rounded.
        decays: Per variable, whether weight decay applies to it.
    """
    for old, new, (gradient, error, rows), does_decay in zip(
        before, after, gradients, decays, strict=True
    ):
        numbers, *slots = (x[rows].astype(float) for x in old)
        given = numbers, slots, gradient[rows], error[rows], dtype
        expected = stepped(optimizer, step, *given, does_decay)
        others = np.setdiff1d(np.arange(len(old[0])), rows)
        for i, (wanted, limit) in enumerate(zip(*expected, strict=True)):
            training.assert_close(
                new[i][rows], wanted, limit, f"{step}, array {i}"
            )
            training.assert_same(new[i][others], old[i][others])


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
