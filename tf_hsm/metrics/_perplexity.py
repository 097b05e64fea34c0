"""The perplexity."""

import keras
from keras import ops

from tf_hsm.losses import broadcast_weights
from tf_hsm.metrics._of_the_best import HeadMetric
from tf_hsm.runtime import private_keras


@keras.saving.register_keras_serializable("tf_hsm")
class Perplexity(HeadMetric):
    """The exponential of the mean loss per label, over all batches so far.

    >>> model.compile("adam", head.loss, [tf_hsm.metrics.Perplexity(head)])

    The loss is -log p(label) over all classes: without label smoothing, class
    weights, the focal loss and z-loss, and for a `SampledSoftmax` without
    sampling. Ignored and masked labels do not count.

    In `fit` the metric computes the losses once more, after the step, on the
    hidden vectors from before it. Where the loss is plain, exp(loss) costs
    nothing: take the metric for `evaluate` alone, or leave it out.

    Args:
      head: a layer of `tf_hsm.layers`. Or None: `y_pred` are then losses, such
        as those that `head(inputs, labels)` returns.
      name: the name of the metric.
      dtype: the type of the sums, float32 by default.

    Raises:
      TypeError: `head` is something else.
    """

    def __init__(self, head, *, name="perplexity", dtype=None):
        super().__init__(head, name=name, dtype=dtype)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
          y_true: labels, as the head takes them; not used where `y_pred` are
            losses.
          y_pred: the hidden vectors `[..., width]`; or losses in nats, `[...]`.
            They may have a Keras mask.
          sample_weight: broadcast from the left to the losses; or None. For
            inputs with several labels, `[..., M]`: the mean is then over the
            sum of the weights.

        Raises:
          ValueError: `y_pred` are no hidden vectors of the head.
        """
        if private_keras.in_symbolic_scope():
            return
        mask, mass = private_keras.mask_of(y_pred), None
        if self.reference is None:
            losses = y_pred
        else:
            head = self.reference.get()
            with head._explain_lost_values():
                losses, mask, sample_weight, mass = head._find_losses(
                    y_true, y_pred, sample_weight, mask, plain=True
                )
        losses = ops.cast(losses, self.dtype)
        weights = ops.ones_like(losses)
        if mask is not None:
            weights = weights * ops.cast(mask, self.dtype)
        if sample_weight is not None:
            weights = weights * broadcast_weights(sample_weight, losses)
        self.total.assign_add(ops.sum(losses * weights))
        if mass is not None:
            weights = weights * ops.cast(mass, self.dtype)
        self.count.assign_add(ops.sum(weights))

    def result(self):
        """Returns the perplexity; 1 before the first label."""
        return ops.exp(ops.divide_no_nan(self.total, self.count))
