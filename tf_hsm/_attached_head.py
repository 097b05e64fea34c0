"""How a head's outputs carry the head to losses and metrics.

A loss that depends on weights cannot be a function of `y_pred` alone. So the
layer attaches itself to the tensor that it returns, as Keras attaches masks,
and the loss and the metrics find the layer, and each other's result, on it.
"""

import typing

import tensorflow as tf
from keras import ops

from tf_hsm.runtime import first_step, label_sets, private_keras


class Reduction(typing.NamedTuple):
    """How losses `[...]` become what is minimized: by a linear function.

    `reduce` takes the losses, their mask or None, and `sample_weight` or None.
    """

    reduce: typing.Callable
    sample_weight: typing.Any

    def total(self, losses, mask):
        """What is minimized."""
        return self.reduce(losses, mask, self.sample_weight)

    def loss_weights(self, labels, mask, dtype):
        """The weight `[...]` of each label's loss in the total."""
        losses = tf.zeros(tf.shape(labels), dtype)
        with tf.GradientTape() as tape:
            tape.watch(losses)
            total = self.total(losses, mask)
        return tf.stop_gradient(tape.gradient(total, losses))


def attach_head(
    outputs, head, inputs, updates=False, training=False, best=None
):
    """Attaches `head` to its `outputs` for `inputs` [..., width].

    `updates` is whether the loss makes a step of the head, `training` whether
    it is that of training, `best` the most probable classes before that, or
    None. Returns the outputs.
    """
    outputs._tf_hsm_head = head
    outputs._tf_hsm_inputs = inputs
    outputs._tf_hsm_updates = updates
    outputs._tf_hsm_training = training
    outputs._tf_hsm_best = best
    outputs._tf_hsm_model = private_keras.compiled_model()
    return outputs


def has_head(outputs):
    """Whether `outputs` came from a head."""
    return hasattr(outputs, "_tf_hsm_head")


def model_of(outputs):
    """The compiled model whose call made a head's `outputs`, or None."""
    return getattr(outputs, "_tf_hsm_model", None)


def lost_values_told(outputs):
    """See `first_step.lost_values_told`; of the model of a head's `outputs`."""
    model = model_of(outputs)
    return first_step.lost_values_told(
        lambda: [] if model is None else model.weights
    )


def updates_head(outputs):
    """Whether the loss of a head's `outputs` makes a step of the head."""
    return outputs._tf_hsm_updates


def head_of(outputs):
    """The head whose `outputs` these are, and its inputs [..., width].

    Raises:
      ValueError: they did not come from a head.
    """
    if not has_head(outputs):
        raise ValueError(
            "y_pred does not come from a tf_hsm head: make the output of "
            "layer(inputs), unchanged, the model's output"
        )
    return outputs._tf_hsm_head, outputs._tf_hsm_inputs


def split_weights(sample_weight, labels, outputs):
    """Weights of losses, and of several labels of each input; None for none.

    Args:
      sample_weight: one or the other; or None.
      labels: those of a head's outputs.
      outputs: what a head returned, or losses.
    """
    if not has_head(outputs):
        return sample_weight, None
    return head_of(outputs)[0].split_weights(sample_weight, labels)


def label_losses(
    labels, outputs, reuse=False, reduction=None, label_weights=None
):
    """Computes a head's loss per label.

    Args:
      labels: `[...]` or `[..., 1]`, integers.
      outputs: what a head returned for its inputs.
      reuse: whether the result of the last call for the same tensors, weights
        included, will do. That spares a metric the work, and keeps its losses
        those from before the update. A loss wants its own: the weights may
        have changed, and another tape may be recording.
      reduction: the `Reduction` to what is minimized; None when nothing is.
      label_weights: of several labels for each input; None for their mean.

    Returns:
      losses: `[...]`, in nats.
      mask: `[...]` bool, the labels that count; None when all do.

    Raises:
      ValueError: `outputs` did not come from a head.
    """
    if is_placeholder(outputs):
        return tf.zeros(tf.shape(labels)), None
    head, inputs = head_of(outputs)
    known = getattr(outputs, "_tf_hsm_losses", None)
    if reuse and known is not None and known[0] is labels:
        if known[1] is label_weights:
            return known[2:]
        each = getattr(known[2], "_tf_hsm_each", None)
        if label_weights is None and each is not None:
            shares = label_sets.shares(each[1], each[0].dtype)
            return sum_of_each(*each, shares), known[3]
    updates = updates_head(outputs)
    losses, mask = head.label_losses(
        labels,
        inputs,
        get_mask(outputs),
        reduction if updates else None,
        outputs._tf_hsm_training,
        label_weights,
    )
    if not updates:
        each = getattr(losses, "_tf_hsm_each", None)
        losses = head.outside_steps(losses)
        losses._tf_hsm_each = each
    outputs._tf_hsm_losses = labels, label_weights, losses, mask
    return losses, mask


def sum_of_each(losses, labels, shares):
    """Losses `[...]` of inputs, the sums of those of each label times a share.

    Args:
      losses: `[..., M]`, of each label.
      labels: `[..., M]`, of `label_sets.read`.
      shares: `[..., M]`.
    """
    total = tf.reduce_sum(shares * losses, -1)
    total._tf_hsm_each = losses, labels
    return total


def best_classes(outputs, head, inputs, k):
    """The k most probable classes `[..., k]` for what a head returned.

    In training they are those from before the step.
    """
    best = getattr(outputs, "_tf_hsm_best", None)
    if best is None or best.shape[-1] < k:
        best = head.top_k(inputs, k).classes
    return best[..., :k]


def label_mass(head, inputs, labels, label_weights, dtype):
    """The sum `[...]` of the weights of each input's labels."""
    labels = label_sets.read(labels, inputs, head.ignore_class)
    given = label_sets.weights(label_weights, labels, dtype)
    return tf.reduce_sum(given, -1)


def is_placeholder(outputs):
    """Whether `outputs` only stand for a head's, where shapes are asked for."""
    return private_keras.in_symbolic_scope() and not has_head(outputs)


def mark_as_losses(
    losses, head, inputs, labels, inputs_mask, best=None, mass=None
):
    """Notes on losses [...] that a head returned them; returns them.

    `best` are the most probable classes before a step, or None; `mass` is the
    sum `[...]` of the weights of each input's labels, None for 1.
    """
    losses._tf_hsm_is_loss = True
    losses._tf_hsm_made_of = (head, inputs, labels)
    losses._tf_hsm_inputs_mask = inputs_mask
    losses._tf_hsm_best = best
    losses._tf_hsm_mass = mass
    return losses


def mass_of(losses):
    """The `mass` of `mark_as_losses`, or None."""
    return getattr(losses, "_tf_hsm_mass", None)


def inputs_mask(outputs):
    """Which inputs of a head's outputs or losses count; None when all do.

    The mask of losses leaves out the inputs without a label too.
    """
    return getattr(outputs, "_tf_hsm_inputs_mask", get_mask(outputs))


def labelled(labels, outputs):
    """The head whose outputs or losses these are, its inputs and labels.

    Args:
      labels: those of a head's outputs; losses know theirs.
      outputs: what a head returned.

    Raises:
      ValueError: they did not come from a head.
    """
    if hasattr(outputs, "_tf_hsm_made_of"):
        return outputs._tf_hsm_made_of
    return (*head_of(outputs), labels)


def is_losses(outputs, labels):
    """Whether `outputs`, without a head, may be losses of `labels`.

    Scores, `[..., classes]`, have a dimension more than labels, `[...]`.
    """
    return (
        labels is None
        or hasattr(outputs, "_tf_hsm_is_loss")
        or len(outputs.shape) <= len(labels.shape)
    )


def broadcast_weights(sample_weight, losses):
    """Broadcasts `sample_weight` from the left to the losses, `[...]`.

    A trailing 1 beyond the losses' dimensions, as `labels [..., 1]` have it, is
    dropped. None stays None.

    Raises:
      ValueError: it has more dimensions than the losses.
    """
    if sample_weight is None:
        return None
    weights = ops.convert_to_tensor(sample_weight, dtype=losses.dtype)
    missing = len(losses.shape) - len(weights.shape)
    if missing == -1 and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, -1)
    elif missing < 0:
        raise ValueError(
            f"sample_weight, of shape {tuple(weights.shape)}, has more "
            f"dimensions than the losses, of shape {tuple(losses.shape)}"
        )
    elif missing > 0:
        weights = ops.reshape(weights, ops.shape(weights) + (1,) * missing)
    return ops.broadcast_to(weights, ops.shape(losses))


def get_mask(tensor):
    """The Keras mask of `tensor`, or None."""
    return getattr(tensor, "_keras_mask", None)


def set_mask(tensor, mask):
    """Gives `tensor` a Keras mask, unless `mask` is None; returns it."""
    if mask is not None:
        tensor._keras_mask = mask
    return tensor
