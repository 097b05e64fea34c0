"""A step of an optimizer on rows of which each replica has a copy."""

import tensorflow as tf

from tf_hsm.runtime import gradients, private_keras


def step_on_copies(losses_of, inputs, variables, loss_weights, optimizer):
    """Makes a step by the gradients of all replicas, on all copies alike.

    The step counts as one of the optimizer. As in a step in place, the gradient
    of the losses is the gradient of the sum of `loss_weights * losses`.

    Args:
      losses_of: takes inputs to losses `[B]` by the rows.
      inputs: `[B, width]`.
      variables: the Keras variables of the rows, a list.
      loss_weights: `[B]`.
      optimizer: one of `tf_hsm.optimizers` that is built.

    Returns:
      The losses `[B]` before the step.
    """

    @tf.custom_gradient
    def step(inputs):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            watched = [v.value for v in variables]
            tape.watch([inputs, *watched])
            losses = losses_of(inputs)
            total = tf.reduce_sum(losses * loss_weights)
        dx, *slopes = tape.gradient(total, [inputs, *watched])
        # A step that fails does not count. And a layer's autocast would make
        # 16-bit tensors of the slots.
        with tf.control_dependencies([losses]), private_keras.no_autocast():
            optimizer.apply(slopes, variables)

        def backward(loss_grads, variables=()):
            checked = gradients.of_stepped(loss_grads, loss_weights)
            with tf.control_dependencies(checked):
                return tf.identity(dx), [None for _ in variables]

        return losses, backward

    return step(inputs)
