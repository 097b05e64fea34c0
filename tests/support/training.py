"""Training steps on problems, in place and as loss, gradient and apply."""

import functools

import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import oracle, references, trees
from tests.support.places import HERE
from tests.support.update_rules import built, stepped
from tf_hsm.optimizers.in_place_rules import has_decay, rule_of
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import tree_tensors
from tf_hsm.runtime.variables import variable_of

COUNT = 29  # of vectors


def wide_problem(tree, shape, dtype=np.float32, seed=0, has_biases=True):
    """A problem of numbers of `dtype`, in the type of its sums."""
    dtype = np.dtype(dtype)
    drawn = references.random_problem(tree, *shape, dtype, seed)
    wide = oracle.accumulator(dtype)
    return drawn.replace(
        inputs=drawn.inputs.astype(wide),
        weights=drawn.weights.astype(wide),
        biases=drawn.biases.astype(wide) if has_biases else None,
    )


def variables_of(problem, dtype=None):
    """Weights, and biases or None, of the problem's type or another."""
    return [
        None
        if array is None
        else tf.Variable(array.astype(dtype or array.dtype))
        for array in (problem.weights, problem.biases)
    ]


def with_vectors(problem, dtype=np.float32, count=COUNT):
    """Weights, biases or None, and vectors that inputs are looked up in."""
    vectors = draw_vectors(problem.inputs.shape[-1], dtype, count)
    return [*variables_of(problem, dtype), tf.Variable(vectors)]


def states(optimizer, variables):
    """Per variable, its value and its slots."""
    return [
        [np.array(x.numpy()) for x in (v, *optimizer.slots(v))]
        for v in variables
        if v is not None
    ]


def layer_step(head, *args, **kwargs):
    """Lets a layer's own optimizer minimize the mean loss of a call.

    Args:
        head: A layer of `tf_hsm.layers` with an optimizer.
        *args: Inputs, labels and more, which the layer is called with.
        **kwargs: More of them.

    Returns:
        The losses before the step.
    """
    with tf.GradientTape() as tape:
        losses = head(*args, **kwargs)
        (mean,) = head.losses
    tape.gradient(mean, head.trainable_variables)
    return losses


def in_place(variables, problem, tree, optimizer, **options):
    """Makes a step; returns the losses, and the gradient of the inputs.

    The gradient is that of the sum of upstream * losses, where `options` have
    no other loss_weights.
    """
    inputs = tf.convert_to_tensor(problem.inputs)
    loss_weights = options.pop("loss_weights", problem.upstream)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        losses = tf_hsm.hierarchical_softmax_train_step(
            *variables,
            problem.labels,
            inputs,
            tree,
            optimizer,
            loss_weights=loss_weights,
            **options,
        )
        total = tf.reduce_sum(losses * tf.cast(loss_weights, losses.dtype))
    return losses, tape.gradient(total, inputs)


def in_two(variables, problem, tree, optimizer, **options):
    """Makes the step by the loss op, its gradient and `optimizer.apply`."""
    inputs = tf.convert_to_tensor(problem.inputs)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        losses = tf_hsm.hierarchical_softmax_loss(
            *variables, problem.labels, inputs, tree, **options
        )
        total = tf.reduce_sum(losses * problem.upstream)
    variables = [v for v in variables if v is not None]
    dx, *gradients = tape.gradient(total, [inputs, *variables])
    optimizer.apply(gradients, variables)
    return losses, dx


def kept_loss(variables, labels, inputs, tree, nodes=False, **options):
    """Runs the loss op on variables.

    Args:
        variables: Weights, and biases or None.
        labels: `[...]`; for a label tree `[..., count]`.
        inputs: `[..., width]`.
        tree: A `tf_hsm.Tree` or a `tf_hsm.Forest`.
        nodes: Whether labels are rows.
        **options: Arguments of the op; with `label_sets` and no others, the
            op is that of a label tree.

    Returns:
        The op's outputs: loss, input_grads and state.
    """
    weights, *biases = (v for v in variables if v is not None)
    op = raw_ops.resource_tf_hsm_label_tree_loss
    if not options.pop("label_sets", False):
        op = raw_ops.resource_tf_hsm_loss
        options = {"smoothing_prior": [], "pinned": tree.pinned, **options}
    return op(
        weights=weights.handle,
        biases=[b.handle for b in biases],
        labels=labels,
        inputs=inputs,
        **tree_tensors(tree, nodes=nodes)._asdict(),
        T=weights.dtype,
        Taccumulator=oracle.accumulator(weights.dtype.as_numpy_dtype),
        **options,
    )


def step_from(state, variables, loss_grads, optimizer, **changes):
    """Makes the step of an optimizer from the state of a loss of variables.

    Args:
        state: What the loss op kept.
        variables: Weights, and biases or None.
        loss_grads: `[...]`, one for each loss.
        optimizer: One of `tf_hsm.optimizers`, built with the variables.
        **changes: Arguments of the op in place of the usual ones.
    """
    weights, *biases = (v for v in variables if v is not None)

    def slots(variable):
        return [variable_of(s).handle for s in optimizer.slots(variable)]

    rule = rule_of(optimizer)
    arguments = {
        "weights": weights.handle,
        "biases": [b.handle for b in biases],
        "loss_grads": loss_grads,
        "state": state,
        "hyperparameters": rule.hyperparameters(
            [
                has_decay(optimizer, v)
                for v in (weights, biases[0] if biases else None, None)
            ]
        ),
        "seed": tf.constant(0, tf.int64),
        "weight_slots": slots(weights),
        "bias_slots": [slot for b in biases for slot in slots(b)],
        "moved": False,
        "rule": rule.name,
        "T": weights.dtype,
    }
    raw_ops.resource_tf_hsm_loss_step(**{**arguments, **changes})
    optimizer.iterations.assign_add(1)


def after_loss(
    variables,
    problem,
    tree,
    optimizer,
    loss_weights=None,
    stochastic_rounding=None,
    seed=0,
    moved=False,
    smoothing_prior=None,
    ignore_class=(),
    logit_soft_cap=None,
    **options,
):
    """Makes a step as `in_place` does, but from the state of the loss op.

    With `moved`, the step computes the loss of the variables once more.
    """
    labels = tf.cast(problem.labels, tf.int64)
    made = kept_loss(
        variables,
        labels,
        problem.inputs,
        tree,
        smoothing_prior=[] if smoothing_prior is None else [smoothing_prior],
        ignore_classes=np.ravel(ignore_class).tolist(),
        logit_soft_cap=logit_soft_cap or 0,
        **options,
    )
    if loss_weights is None:
        loss_weights = problem.upstream
    loss_grads = tf.cast(loss_weights, made.loss.dtype)
    loss_grads = tf.broadcast_to(loss_grads, tf.shape(labels))
    if stochastic_rounding is None:
        stochastic_rounding = variables[0].dtype == tf.bfloat16
    step_from(
        made.state,
        variables,
        loss_grads,
        optimizer,
        stochastic_rounding=stochastic_rounding,
        seed=tf.constant(seed, tf.int64),
        moved=moved,
    )
    return made.loss, made.input_grads * loss_grads[..., tf.newaxis]


def draw_indices(batch, seed=0, count=COUNT):
    """Rows of vectors: some many times, some once, some never."""
    rng = np.random.default_rng(seed)
    return (count * rng.random(batch) ** 3).astype(np.int64)


def draw_vectors(width, dtype=np.float32, count=COUNT):
    """As large as the inputs of `oracle.random_problem`."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(count, width)) / np.sqrt(width)).astype(dtype)


def check_steps(
    rule,
    tree,
    shape,
    dtype,
    has_biases=True,
    make=in_place,
    *,
    label_smoothing=0.0,
    to_prior=False,
    nodes=False,
    place=HERE,
    graph=False,
    count=None,
    not_decayed=None,
):
    """Asserts that two steps in place are NumPy's, on touched rows alone.

    The second step begins where the first one ends.

    Args:
        rule: One of OPTIMIZERS.
        tree: A `tf_hsm.Tree` or a `tf_hsm.Forest`.
        shape: The batch and the width.
        dtype: The type of the variables.
        has_biases: Whether there are biases.
        make: Makes a step as `in_place` does.
        label_smoothing: A share.
        to_prior: Whether smoothing is towards a random prior.
        nodes: Whether labels are rows.
        place: A `Place`.
        graph: Whether to run in a `tf.function`.
        count: The number of vectors of which inputs are looked up, by the step
            with a look-up in place of `make`. By default inputs are given.
        not_decayed: The variables among "weights", "biases" and "vectors" to
            which weight decay does not apply; None for no weight decay.
    """
    of_labels = trees.OfRows(tree) if nodes else tree
    problem = wide_problem(of_labels, shape, dtype, 0, has_biases)
    wide = problem.weights.dtype
    prior = oracle.random_prior(tree) if to_prior else None
    options = {"label_smoothing": label_smoothing, "nodes": nodes}
    if to_prior:
        options["smoothing_prior"] = prior
    with tf.device(place.device):
        variables = variables_of(problem, dtype)
        if count is not None:
            variables = with_vectors(problem, dtype, count)
        optimizer = built(rule, variables)
    if not_decayed is not None:
        names = ["weights", "biases", "vectors"]
        of_names = dict(zip(names, variables, strict=False))
        kept = [of_names.get(name) for name in not_decayed]
        optimizer.weight_decay = 0.25
        optimizer.exclude_from_weight_decay([v for v in kept if v is not None])
    for step in (1, 2):
        before = states(optimizer, variables)
        current = [state[0].astype(wide) for state in before]
        indices = draw_indices(shape[0], step, count or COUNT)
        problem = wide_problem(of_labels, shape, dtype, step).replace(
            weights=current[0],
            biases=current[1] if has_biases else None,
            label_smoothing=label_smoothing,
            smoothing_prior=prior,
        )
        if count is not None:
            problem = problem.replace(inputs=current[-1][indices])
            make = functools.partial(looked_up, indices=indices)
        value, bound = references.hierarchical_softmax(
            of_labels, problem, operands=dtype
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
        assert_close(losses, value.loss, bound.loss, "losses")
        rows = references.touched_rows(of_labels, problem.labels)
        gradients = [(value.dw, bound.dw, rows), (value.db, bound.db, rows)]
        gradients = gradients[: 1 + has_biases]
        if count is None:
            assert_close(*dx, value.dx, bound.dx, "gradient of inputs")
        else:
            by_row = functools.partial(_sums_by_row, indices, count=count)
            sums, errors = by_row(value.dx), by_row(bound.dx)
            # The sums of repeated rows are made in the type of the sums.
            repeated = np.bincount(indices, minlength=count)[:, None]
            unit = oracle.unit_roundoff(wide)
            errors += repeated * unit * by_row(abs(value.dx) + bound.dx)
            gradients.append((sums, errors, np.unique(indices)))
        assert_stepped(
            optimizer,
            step,
            before,
            states(optimizer, variables),
            gradients,
            np.dtype(dtype),
            [has_decay(optimizer, v) for v in variables if v is not None],
        )
        assert int(optimizer.iterations) == step


def _sums_by_row(indices, values, count):
    sums = np.zeros([count, values.shape[1]])
    np.add.at(sums, indices, values.astype(np.float64))
    return sums


def looked_up(variables, problem, tree, optimizer, indices, **options):
    """Makes a step whose inputs are rows of the last variable.

    Returns:
        The losses alone, in a list. The step is for the sum of upstream *
        losses, where `options` have no other loss_weights.
    """
    w, *b, vectors = (v for v in variables if v is not None)
    options = {"loss_weights": problem.upstream, **options}
    return [
        tf_hsm.hierarchical_softmax_embedding_train_step(
            w,
            b[0] if b else None,
            problem.labels,
            vectors,
            indices,
            tree,
            optimizer,
            **options,
        )
    ]


def assert_same(one, other):
    """Asserts that two nests of arrays have the same bits."""
    for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        np.testing.assert_array_equal(a, b)


def assert_close(actual, expected, bound, what):
    """Asserts that no element is off by more than its bound."""
    error = abs(np.asarray(actual).astype(np.float64) - expected)
    # Written so that a NaN fails too.
    bad = ~(error <= bound)
    assert not bad.any(), f"{what}: {bad.sum()} of {bad.size}, {error.max()}"


def assert_stepped(optimizer, step, before, after, gradients, dtype, decays):
    """Asserts that an optimizer's step is NumPy's, on touched rows alone.

    Args:
        optimizer: One of `tf_hsm.optimizers`.
        step: 1 for its first.
        before: As from `states`.
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
            assert_close(new[i][rows], wanted, limit, f"{step}, array {i}")
            assert_same(new[i][others], old[i][others])


def assert_near(one, other, tolerance):
    """Asserts that two nests of arrays differ by rounding."""
    for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
