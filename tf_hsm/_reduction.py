"""How the losses of labels become one number: weights, masks, means.

On several replicas, the mean is over the labels of all of them.
"""

import typing

import keras
import tensorflow as tf
from keras import ops

from tf_hsm.runtime import arguments, private_keras


class Reduction(typing.NamedTuple):
    """How losses `[...]` become the total that training minimizes.

    Attributes:
      reduce: a linear function of losses, their mask or None, and
        `sample_weight`.
      sample_weight: the weights of the losses, or None.
      scale: what the total is multiplied by before it is minimized.
    """

    reduce: typing.Callable
    sample_weight: typing.Any
    scale: float = 1.0

    def total(self, losses, mask):
        """Returns the total."""
        return self.reduce(losses, mask, self.sample_weight)

    def loss_weights(self, labels, mask, dtype):
        """Returns the weight `[...]` of each loss in what is minimized.

        Raises:
          ValueError: tapes record nothing here.
        """
        losses = tf.zeros(tf.shape(labels), dtype)
        with tf.GradientTape() as tape:
            tape.watch(losses)
            total = self.total(losses, mask) * self.scale
        weights = tape.gradient(total, losses)
        if weights is None:
            raise ValueError(
                "a head with an optimizer of its own makes its step in the "
                "forward pass, which cannot be made within tf.recompute_grad "
                "or tape.stop_recording(): the step would be made twice, or "
                "not follow the loss. Call the head outside, or leave out its "
                "optimizer"
            )
        return tf.stop_gradient(weights)


class LabelLoss(keras.losses.Loss):
    """Keras' weighting, masking and reduction of losses made elsewhere."""

    def __init__(self, dtype=None, **kwargs):
        super().__init__(dtype=dtype, **kwargs)
        self._given_dtype = dtype

    def call(self, y_true, y_pred):
        return y_pred

    def _type_for(self, losses):
        """The type of sums and weights; gradients would have their rounding."""
        if self._given_dtype is None and losses.dtype == tf.float64:
            return "float64"
        return self.dtype

    def _reduced(self, losses, mask, sample_weight):
        dtype = self._type_for(losses)
        typed = LabelLoss(dtype, name=self.name, reduction=self.reduction)
        return typed(
            losses,
            private_keras.set_mask(losses, mask),
            broadcast_weights(sample_weight, losses),
        )

    def _mean(self, losses, mask, sample_weight, model):
        """The mean over this replica's labels; for a model, over all replicas'.

        Keras' `_reduce` divides it by the number of replicas, and takes no
        other replicas' labels into account.
        """
        losses = ops.cast(losses, self._type_for(losses))
        counts = ops.ones_like(losses)
        if mask is not None:
            counts = ops.cast(mask, losses.dtype)
        weights = counts
        if sample_weight is not None:
            weights = counts * broadcast_weights(sample_weight, losses)
        if self.reduction == "mean_with_sample_weight":
            counts = weights
        total, count = ops.sum(losses * weights), ops.sum(counts)
        if model is not None:
            context = tf.distribute.get_replica_context()
            with private_keras.kept_losses(model):
                # Its gradient is the sum of the replicas' gradients.
                total, count = context.all_reduce(
                    tf.distribute.ReduceOp.SUM, [total, count]
                )
        return ops.divide_no_nan(total, count)


def mean_loss(losses, mask, sample_weight, model):
    """The mean of `losses` over the labels that count, for `add_loss`.

    Args:
      losses: `[...]`.
      mask: `[...]` bool, or None.
      sample_weight: broadcast from the left to the losses; or None.
      model: the compiled model that asks, which takes the mean over all
        replicas; or None.
    """
    loss = LabelLoss()
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return loss._reduced(losses, mask, sample_weight)
    return loss._mean(losses, mask, sample_weight, if_on_replicas(model))


def if_on_replicas(model):
    """The model if this is one of several replicas that run it; or None."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return None
    return model


def broadcast_weights(sample_weight, losses):
    """Broadcasts `sample_weight` from the left to the losses, `[...]`.

    A trailing 1 beyond the losses' dimensions, as `labels [..., 1]` have it, is
    dropped. None stays None.

    Raises:
      ValueError: `sample_weight` has more dimensions than the losses, or
        another shape (tf.errors.InvalidArgumentError where a graph runs).
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
    return arguments.broadcast("sample_weight", weights, tf.shape(losses))
