"""Loss and update of the weights in one op."""

import operator

import tensorflow as tf

from tf_hsm.ops.loss import first_order_only
from tf_hsm.optimizers import in_place
from tf_hsm.runtime import arguments as runtime_arguments
from tf_hsm.runtime import private_keras, private_tensorflow
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import tree_tensors


def hierarchical_softmax_train_step(
    weights,
    biases,
    labels,
    inputs,
    tree,
    optimizer,
    loss_weights=None,
    ignore_class=None,
    stochastic_rounding=None,
    seed=0,
):
    """Computes the losses and applies one step of an optimizer in place.

    The same as `hierarchical_softmax_loss`, its gradient and
    `optimizer.apply`, to rounding, but in one pass over the touched weights:
    no gradient of the weights is ever stored. What is minimized is the sum of
    `loss_weights * losses`. Losses and the gradient of `inputs` are those of
    the weights before the step; `weights` and `biases` have no gradient.

    The step takes place when the losses are computed, whether or not anybody
    asks for a gradient; a `tf.function` does so once per call, in program
    order. Meanwhile it holds the exclusive locks of all the variables that it
    writes. A gradient of `inputs` for another total than the sum above is an
    error: the weights would have followed another objective than the inputs.

    Args:
      weights: a variable `[rows, width]`, as for `hierarchical_softmax_loss`.
      biases: a variable `[rows]` of the same type, or None.
      labels: `[...]`, int32 or int64, each in `[0, tree.num_classes)`.
      inputs: `[..., width]`, any of the float types.
      tree: a `tf_hsm.Tree`.
      optimizer: a `tf_hsm.optimizers` SGD (without momentum), Adagrad,
        RowwiseAdagrad or LazyAdam, built with `[weights]` or
        `[weights, biases]`. Its slots, learning rate and step count are used
        and moved. Clipping, weight decay, averaging and accumulation, which
        need all of a gradient at once, are refused.
      loss_weights: `[...]`, broadcast to the labels; None: 1 / the number of
        labels that are not ignored, so that the mean loss is minimized.
      ignore_class: a label whose loss is 0 and which updates nothing, or None.
      stochastic_rounding: whether bfloat16 weights are rounded up or down at
        random such that the mean is kept (Gupta et al., 2015: Deep Learning
        with Limited Numerical Precision); to nearest, small steps would be
        lost. None: for bfloat16 weights.
      seed: of stochastic_rounding, an integer. The same seed gives the same
        weights, whatever the number of threads.

    Returns:
      `[...]`: one loss per label, in nats; float64 for float64 weights, else
      float32.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape or a label does not fit; nothing is updated then.
      TypeError: weights or biases are no variables.
      ValueError: the optimizer does what is not possible in place, or there are
        several replicas.
    """
    return train_step_ignoring(
        ignored_by(ignore_class),
        weights,
        biases,
        labels,
        inputs,
        tree,
        in_place.get(optimizer),
        loss_weights,
        stochastic_rounding,
        seed,
    )


def train_step_ignoring(
    ignored,
    weights,
    biases,
    labels,
    inputs,
    tree,
    optimizer,
    loss_weights,
    stochastic_rounding=None,
    seed=0,
):
    """`hierarchical_softmax_train_step` that ignores any number of labels."""
    arguments = step_arguments(
        ignored,
        weights,
        biases,
        labels,
        tree,
        optimizer,
        loss_weights,
        stochastic_rounding,
        seed,
    )
    outputs = raw_ops.resource_tf_hsm_train_step(
        **arguments,
        inputs=runtime_arguments.floats(inputs, arguments["T"]),
        with_gradients=(
            not tf.executing_eagerly() or private_tensorflow.is_recording()
        ),
    )
    count_step(optimizer, outputs.loss)
    return outputs.loss


def ignored_by(ignore_class):
    """Returns the list of ignored labels that an `ignore_class` stands for."""
    return [] if ignore_class is None else [operator.index(ignore_class)]


def step_arguments(
    ignored,
    weights,
    biases,
    labels,
    tree,
    optimizer,
    loss_weights,
    stochastic_rounding,
    seed,
):
    """Returns the arguments by name that the ops of a step in place share."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas > 1:
        raise ValueError(
            f"a step in place updates one copy of the weights, but there are "
            f"{replicas} replicas; use hierarchical_softmax_loss and an "
            "optimizer of tf_hsm.optimizers instead"
        )
    parameters = [variable_named("weights", weights)]
    if biases is not None:
        parameters.append(variable_named("biases", biases))
    dtype = runtime_arguments.dtype_of(parameters[0])
    if stochastic_rounding is None:
        stochastic_rounding = dtype == tf.bfloat16
    elif stochastic_rounding and dtype != tf.bfloat16:
        raise ValueError(
            "stochastic_rounding is for bfloat16 weights, but they are "
            f"{dtype.name}"
        )
    labels = runtime_arguments.integers(labels)
    if loss_weights is None:
        loss_weights = _mean_weights(labels, ignored)
    # A layer's autocast would make 16-bit tensors of the rate.
    with private_keras.no_autocast():
        rule = in_place.rule_of(optimizer)
    return {
        "weights": parameters[0].handle,
        "biases": [p.handle for p in parameters[1:]],
        "labels": labels,
        **tree_tensors(tree)._asdict(),
        "loss_grads": tf.broadcast_to(
            tf.cast(loss_weights, runtime_arguments.accumulator(dtype)),
            tf.shape(labels),
        ),
        "hyperparameters": rule.hyperparameters,
        "seed": (
            _seed_of_step(seed, optimizer.iterations)
            if stochastic_rounding
            else tf.constant(0, tf.int64)
        ),
        "weight_slots": slot_handles(optimizer, "weights", weights),
        "bias_slots": (
            [] if biases is None else slot_handles(optimizer, "biases", biases)
        ),
        "T": dtype,
        "ignore_classes": ignored,
        "rule": rule.name,
        "stochastic_rounding": stochastic_rounding,
    }


def slot_handles(optimizer, name, variable):
    """Returns the handles of the slots of the variable of this name.

    Raises:
      ValueError: the optimizer was not built with it.
    """
    # A layer's autocast would make 16-bit tensors of the slots.
    with private_keras.no_autocast():
        try:
            slots = optimizer.slots(variable)
        except ValueError as error:
            raise ValueError(
                "optimizer must be built, by its method build, with the "
                f"variables of the step, but does not know {name}"
            ) from error
        return [private_tensorflow.variable_of(slot).handle for slot in slots]


def count_step(optimizer, loss):
    """Counts a step of the optimizer once its losses are there.

    A step that fails does not count. Keras would read and then write, and lose
    a step of another thread between.
    """
    with tf.control_dependencies([loss]):
        private_tensorflow.variable_of(optimizer.iterations).assign_add(1)


def variable_named(name, value):
    """Returns the `tf.Variable` that an argument of this name must be."""
    # A layer's autocast would make a 16-bit tensor of it.
    with private_keras.no_autocast():
        variable = private_tensorflow.variable_of(value)
    if variable is None:
        raise TypeError(
            f"{name} must be a variable, to be updated in place, but are "
            f"{type(value).__name__}"
        )
    return variable


def _mean_weights(labels, ignored):
    """The weights of losses whose sum is the mean of those that count."""
    kept = tf.ones_like(labels, tf.float64)
    for label in ignored:
        kept *= tf.cast(tf.not_equal(labels, label), tf.float64)
    return tf.math.divide_no_nan(kept, tf.reduce_sum(kept))


def _seed_of_step(seed, iterations):
    """A 64-bit number for each seed and step, without a pattern."""
    pair = tf.stack([tf.cast(seed, tf.int64), tf.cast(iterations, tf.int64)])
    return tf.random.stateless_uniform(
        [], pair, minval=None, maxval=None, dtype=tf.int64
    )


@tf.RegisterGradient("ResourceTfHsmTrainStep")
def _train_step_gradient(op, loss_grads, *unused_grads):
    """The gradient of the inputs; the variables have had theirs."""
    first = 1 + len(op.get_attr("BiasTypes"))
    inputs, loss_weights = op.inputs[first + 1], op.inputs[first + 7]
    assertion = tf.debugging.assert_near(
        loss_grads,
        loss_weights,
        rtol=1e-3,
        atol=1e-30,
        message="The weights were updated in place for the sum of "
        "loss_weights * losses, but the gradient that is asked for is of "
        "another total (x: its weight of each loss; y: loss_weights). Do not "
        "scale the loss afterwards: no LossScaleOptimizer, no loss_weights in "
        "compile.",
    )
    with tf.control_dependencies([] if assertion is None else [assertion]):
        gradient = tf.cast(first_order_only(op.outputs[1]), inputs.dtype)
    gradients = [None] * len(op.inputs)
    gradients[first + 1] = gradient
    return gradients
