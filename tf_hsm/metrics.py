"""Keras metrics."""

import keras
from keras import ops

from tf_hsm import _head


@keras.saving.register_keras_serializable("tf_hsm")
class Perplexity(keras.metrics.Metric):
    """The exponential of the mean loss per label, over all batches so far.

    In `model.compile(metrics=[...])`, with a model whose output is a head's, it
    takes the losses that the training loss has made already. Ignored and
    masked labels do not count.

    Args:
      head: not needed, since the head is found on the model's output; taken so
        that the metric can say which head it belongs to.
      name: the name of the metric.
      dtype: the type of the sums, float32 by default.
    """

    def __init__(self, head=None, name="perplexity", dtype=None):
        """See the class."""
        super().__init__(name=name, dtype=dtype)
        del head
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
          y_true: labels, `[...]` or `[..., 1]`; not used when `y_pred` are
            losses.
          y_pred: the output of a head, `[..., width]`; or losses in nats,
            `[...]`.
          sample_weight: broadcast to the shape of the losses, or None.
        """
        if _head.is_marked(y_pred):
            losses, mask = _head.label_losses(y_true, y_pred)
        else:
            losses, mask = y_pred, _head.get_mask(y_pred)
        losses = ops.cast(losses, self.dtype)
        weights = ops.ones_like(losses)
        if mask is not None:
            weights = weights * ops.cast(mask, self.dtype)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, self.dtype)
            missing = len(losses.shape) - len(sample_weight.shape)
            sample_weight = ops.reshape(
                sample_weight, ops.shape(sample_weight) + (1,) * missing
            )
            weights = weights * sample_weight
        self.total.assign_add(ops.sum(losses * weights))
        self.count.assign_add(ops.sum(weights))

    def result(self):
        """Returns the perplexity; 1 before the first label."""
        return ops.exp(ops.divide_no_nan(self.total, self.count))
