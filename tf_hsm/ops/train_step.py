"""Loss and update of the weights in one op."""

import tensorflow as tf

from tf_hsm.ops.loss import loss_options
from tf_hsm.ops.row_update import RowUpdate, count_step
from tf_hsm.runtime import arguments, call, gradients
from tf_hsm.runtime.tree_tensors import tree_tensors
from tf_hsm.tree import Forest, Tree


def hierarchical_softmax_train_step(
    weights,
    biases,
    labels,
    inputs,
    tree: Tree | Forest,
    optimizer,
    *,
    loss_weights=None,
    ignore_class=None,
    stochastic_rounding: bool | None = None,
    seed=0,
    label_smoothing: float = 0.0,
    nodes: bool = False,
    smoothing_prior=None,
    logit_soft_cap: float | None = None,
    z_loss: float = 0.0,
) -> tf.Tensor:
    """Computes the losses and applies one step of an optimizer in place.

    The same as `hierarchical_softmax_loss`, its gradient and
    `optimizer.apply`, to rounding, but in one pass over the touched weights:
    no gradient of the weights is ever stored. What is minimized is the sum of
    `loss_weights * losses`. Losses and the gradient of `inputs` are those of
    the weights before the step; `weights` and `biases` have no gradient.

    The step takes place when the losses are computed, whether or not anybody
    asks for a gradient; a `tf.function` does so once per call, in program
    order. (A layer with an optimizer of its own makes its step in the gradient
    instead.) Meanwhile it holds the exclusive locks of all the variables that
    it writes. A gradient of `inputs` for another total than the sum above is an
    error: the weights would have followed another objective than the inputs.
    `tf.recompute_grad` around the step would make it twice.

    Args:
      weights: a variable `[rows, width]`, as for `hierarchical_softmax_loss`.
      biases: a variable `[rows]` of the same type, or None.
      labels: `[...]`, int32 or int64, each in `[0, tree.num_classes)`.
      inputs: `[..., width]`, any of the float types.
      tree: a `tf_hsm.Tree`; or a `tf_hsm.Forest`, whose loss is
        -log p(label | inputs, the root above the label).
      optimizer: one that `tf_hsm.optimizers` says can step in place, built
        with `[weights]` or `[weights, biases]`. Its slots, learning rate and
        step count are used and moved. Clipping, averaging and accumulation,
        which need all of a gradient at once, are refused.
      loss_weights: `[...]`, broadcast to the labels; None: 1 / the number of
        labels that are not ignored, so that the mean loss is minimized.
      ignore_class: a label whose loss is 0 and which updates nothing; a list or
        tuple of such labels; or None.
      stochastic_rounding: whether bfloat16 weights are rounded up or down at
        random such that the mean is kept (Gupta et al., 2015: Deep Learning
        with Limited Numerical Precision); to nearest, small steps would be
        lost. None: for bfloat16 weights.
      seed: of stochastic_rounding, an integer. The same seed gives the same
        weights, whatever the number of threads.
      label_smoothing: see `hierarchical_softmax_loss`.
      nodes: whether labels are rows of the tree, of inner nodes too, instead of
        classes: see `hierarchical_softmax_loss`.
      smoothing_prior: see `hierarchical_softmax_loss`.
      logit_soft_cap: see `hierarchical_softmax_loss`.
      z_loss: see `hierarchical_softmax_loss`.

    Returns:
      `[...]`: one loss per label, in nats; float64 for float64 weights, else
      float32.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape or a label does not fit; nothing is updated then.
      TypeError: weights or biases are no variables.
      tf.errors.UnimplementedError: a GPU holds the weights, and the optimizer
        is RMSprop with `momentum` or `centered`.
      ValueError: the optimizer does what is not possible in place, or there are
        several replicas.
    """
    update = RowUpdate(weights, biases, optimizer, stochastic_rounding, seed)
    found = call.op(
        "tf_hsm_train_step",
        inputs=arguments.floats(inputs, update.dtype),
        with_gradients=gradients.is_recording(),
        **step_arguments(
            update, labels, tree, loss_weights, ignore_class, nodes
        ),
        **loss_options(
            tree, label_smoothing, smoothing_prior, logit_soft_cap, z_loss
        ),
    )
    count_step(update.optimizer, found.loss)
    return found.loss


def step_arguments(
    update,
    labels,
    tree,
    loss_weights,
    ignore_class,
    nodes=False,
    vectors=None,
    are_sets=False,
):
    """Returns what all ops take that make losses and a step at once, by name.

    Args:
      update: the `RowUpdate`.
      labels: `[...]`; for a label tree `[..., M]`.
      tree: see `hierarchical_softmax_train_step`, also for the rest.
      loss_weights: broadcast to the losses; None for their mean.
      ignore_class: a label, a list of them, or None.
      nodes: whether labels are rows of the tree.
      vectors: a variable that the op updates too, or None.
      are_sets: whether there is one loss for all labels `[..., M]` of an input.
    """
    labels = arguments.integers(labels)
    shape, counted = tf.shape(labels), None
    if are_sets:
        shape = shape[:-1]
    else:
        counted = arguments.counted(labels, ignore_class)
    return {
        "dtype": update.dtype,
        "labels": labels,
        **tree_tensors(tree, update.weights, nodes)._asdict(),
        "loss_grads": _loss_grads(loss_weights, shape, counted, update.dtype),
        "ignore_classes": arguments.ignored_labels(ignore_class),
        **update.arguments(vectors),
    }


def _loss_grads(loss_weights, shape, counted, dtype):
    """Returns the weight `[...]` of each loss in the sum that is minimized.

    Args:
      loss_weights: broadcast to the losses; None for their mean.
      shape: the shape of the losses, a tensor.
      counted: `[...]` bool, which losses count in the mean; None for all.
      dtype: the type of the weights of the tree.
    """
    if loss_weights is None:
        counted = (
            tf.ones(shape, tf.float64)
            if counted is None
            else tf.cast(counted, tf.float64)
        )
        loss_weights = tf.math.divide_no_nan(counted, tf.reduce_sum(counted))
    return arguments.broadcast(
        "loss_weights",
        tf.cast(loss_weights, arguments.accumulator(dtype)),
        shape,
    )


@tf.RegisterGradient("ResourceTfHsmTrainStep")
@tf.RegisterGradient("ResourceTfHsmLabelTreeTrainStep")
def _train_step_gradient(op, loss_grads, *unused_grads):
    """The gradient of the inputs; the variables have had theirs."""
    given = gradients.inputs_of(op)
    checked = gradients.check_step_total(loss_grads, given["loss_grads"])
    with tf.control_dependencies(checked):
        gradient = tf.cast(
            gradients.first_order_only(op.outputs[1]), given["inputs"].dtype
        )
    return gradients.in_order(op, inputs=gradient)
