"""Keras losses."""

import functools

import keras
import tensorflow as tf
from keras import ops

from tf_hsm import _attached_head, _compiled_model
from tf_hsm.runtime import arguments, focal, private_keras


class _LabelLoss(keras.losses.Loss):
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

    def _reduce(self, losses, mask, sample_weight):
        dtype = self._type_for(losses)
        typed = _LabelLoss(dtype, name=self.name, reduction=self.reduction)
        return typed(
            losses,
            _attached_head.set_mask(losses, mask),
            _attached_head.broadcast_weights(sample_weight, losses),
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
            weights = counts * _attached_head.broadcast_weights(
                sample_weight, losses
            )
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


@keras.saving.register_keras_serializable("tf_hsm")
class HierarchicalSoftmaxLoss(_LabelLoss):
    """The mean loss of a head, in nats, for `model.compile(loss=...)`.

    The model's output must be `layer(inputs)` of a head of `tf_hsm.layers`,
    whose weights the loss finds on it.
    Ignored and masked labels count neither in the sum nor in the mean. Labels
    keep their integer type: Keras' own losses make them float32, exact only
    to 2^24.

    On several replicas (`tf.distribute`) a mean is that over the labels of all
    of them, however many each has, in `fit` and `evaluate`. In a training loop
    by hand it is, as for every Keras loss, that over the replica's labels,
    divided by the number of replicas.

    Args:
      reduction: as for every Keras loss; "none" gives one loss per label.
      name: the name of the loss.
      dtype: the type in which losses are averaged; by default float64 for
        losses of that type, else Keras' `floatx`, float32.
    """

    def __init__(
        self,
        reduction="sum_over_batch_size",
        name="hierarchical_softmax_loss",
        dtype=None,
    ):
        """See the class."""
        super().__init__(dtype, name=name, reduction=reduction)

    def get_config(self):
        """Returns the arguments of the constructor."""
        dtype = None if self._given_dtype is None else self.dtype
        return {**super().get_config(), "dtype": dtype}

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Reduces the losses of labels `y_true` [...] or [..., 1].

        `sample_weight` is broadcast from the left to the losses, `[...]`. Where
        the head takes several labels, `[..., M]`, it may have a number for
        each: see `several_labels` of `tf_hsm.layers.HierarchicalSoftmax`.

        Raises:
          ValueError: `y_pred` is not the output of a tf_hsm head; or `compile`
            has metrics or loss weights that do not fit it.
        """
        with _attached_head.lost_values_told(y_pred):
            return self._total(y_true, y_pred, sample_weight)

    def _total(self, y_true, y_pred, sample_weight):
        """Returns what is to be minimized."""
        reduce = self._reduce
        model = _attached_head.model_of(y_pred)
        if model is not None:
            head, _ = _attached_head.head_of(y_pred)
            updates = _attached_head.updates_head(y_pred)
            _compiled_model.check_loss(model, self, head, updates)
            if head.steps_in_loss_alone() and not updates:
                _compiled_model.check_untold_training(model, head)
        model = _if_on_replicas(model)
        if model is not None and self.reduction not in ("sum", "none", None):
            reduce = functools.partial(self._share_of_mean, model=model)
        sample_weight, label_weights = _attached_head.split_weights(
            sample_weight, y_true, y_pred
        )
        reduction = _attached_head.Reduction(reduce, sample_weight)
        losses, mask = _attached_head.label_losses(
            y_true, y_pred, reduction=reduction, label_weights=label_weights
        )
        return reduction.total(losses, mask)

    def _share_of_mean(self, losses, mask, sample_weight, model):
        """One of as many equal parts as there are replicas, as Keras wants."""
        mean = self._mean(losses, mask, sample_weight, model)
        return mean / tf.distribute.get_strategy().num_replicas_in_sync


def focal_loss(losses, gamma=2.0):
    """Weighs losses down where the label is probable already.

    With l = -log p(label), it is (1 - p)^gamma l (Lin et al., 2017: Focal Loss
    for Dense Object Detection), for each by itself:

    >>> losses = tf_hsm.hierarchical_softmax_loss(w, b, labels, inputs, tree)
    >>> loss = tf.reduce_mean(tf_hsm.losses.focal_loss(losses))

    Args:
      losses: `[...]`, in nats, of classes by themselves: without label
        smoothing.
      gamma: a number of at least 0, which leaves losses as they are.

    Returns:
      `[...]`, exact for small and large losses; so is the gradient.

    Raises:
      ValueError: `gamma` is negative, infinite or not a number.
    """
    gamma = arguments.exponent("gamma", gamma)
    losses = tf.convert_to_tensor(losses)
    return focal.values(losses, focal.slopes(losses, gamma), gamma)


def mean_loss(losses, mask, sample_weight, model):
    """The mean of `losses` over the labels that count, for `add_loss`.

    Args:
      losses: `[...]`.
      mask: `[...]` bool, or None.
      sample_weight: broadcast from the left to the losses; or None.
      model: the compiled model that asks, which takes the mean over all
        replicas; or None.
    """
    loss = _LabelLoss()
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return loss._reduce(losses, mask, sample_weight)
    return loss._mean(losses, mask, sample_weight, _if_on_replicas(model))


def _if_on_replicas(model):
    """The model if this is one of several replicas that run it; or None."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return None
    return model
