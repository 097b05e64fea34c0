"""Training steps on problems, in place and as loss, gradient and apply."""

import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import oracle, references
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


def assert_near(one, other, tolerance):
    """Asserts that two nests of arrays differ by rounding."""
    for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
