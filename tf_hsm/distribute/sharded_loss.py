"""The loss, and a training step, of a head on several devices.

Every example passes the top, and the shard that has its label: a partition, an
op on each device, and a stitch. Inputs go to the devices, losses and the
gradient of the inputs come back; rows, their gradients and slots stay.
"""

import tensorflow as tf

from tf_hsm.ops.loss import hierarchical_softmax_loss
from tf_hsm.ops.part_steps import PartSteps


def loss(rows, labels, inputs, ignored, visit):
    """Computes -log p(label | input), as `hierarchical_softmax_loss` does.

    Args:
      rows: the `ShardedRows`.
      labels: `[...]` integers.
      inputs: `[..., width]`.
      ignored: the list of labels that stand for no class.
      visit: see `WholeHead.loss`.

    Returns:
      `[...]`, in nats.
    """

    def of_part(part, labels, inputs, ignored, loss_weights):
        del loss_weights
        variables = part.weights, part.biases
        losses = hierarchical_softmax_loss(
            *variables, labels, inputs, part.tree, ignored
        )
        visit(part.tree, *variables, labels, ignored, losses)
        return losses

    return _sum(rows, labels, inputs, ignored, None, of_part)


def train_step(
    rows,
    labels,
    inputs,
    optimizer,
    loss_weights,
    ignore_class,
    stochastic_rounding,
    seed,
):
    """Computes the losses and applies one step of an optimizer in place.

    As `hierarchical_softmax_train_step` on each part, all with the rate of the
    same step.

    Args:
      rows: the `ShardedRows`.
      labels: `[...]` integers.
      inputs: `[..., width]`.
      optimizer: one that can step in place, built with all variables.
      loss_weights: `[...]`, the weight of each loss in what is minimized.
      ignore_class: the list of labels that stand for no class.
      stochastic_rounding: see `hierarchical_softmax_train_step`.
      seed: likewise.

    Returns:
      `[...]`, in nats.
    """
    steps = PartSteps(optimizer, stochastic_rounding, seed)

    def of_part(part, labels, inputs, ignored, loss_weights):
        return steps.losses(
            part.weights,
            part.biases,
            labels,
            inputs,
            part.tree,
            loss_weights,
            ignored,
        )

    losses = _sum(rows, labels, inputs, ignore_class, loss_weights, of_part)
    steps.count(losses)
    return losses


def _sum(rows, labels, inputs, ignored, loss_weights, of_part):
    """The losses of the top and those of the shards, in the labels' order."""
    shape = tf.shape(labels)
    labels = tf.reshape(labels, [-1])
    inputs = rows.flat(inputs, shape, "labels")
    routing = rows.route(labels, ignored)
    weights = [None] * len(rows.shards)
    if loss_weights is not None:
        loss_weights = tf.reshape(loss_weights, [-1])
        weights = routing.routes.split(loss_weights)
    # A unit may have the number of an ignored label: route has made these -1.
    losses = of_part(
        rows.top, routing.units, inputs, [-1] if ignored else [], loss_weights
    )
    if not rows.shards:
        return tf.reshape(losses, shape)
    below = []
    for part, *arguments in zip(
        rows.shards,
        routing.places,
        routing.routes.split(inputs),
        weights,
        strict=True,
    ):
        with tf.device(part.device):
            places, x, weight = arguments
            below.append(of_part(part, places, x, [], weight))
    return tf.reshape(losses + routing.routes.join(below, 0), shape)
