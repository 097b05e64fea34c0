"""The perplexity."""

import keras
from keras import ops

from tf_hsm import _compiled_model, _head_output
from tf_hsm._reduction import broadcast_weights
from tf_hsm.metrics._of_the_best import telling_lost_values
from tf_hsm.runtime import private_keras


@keras.saving.register_keras_serializable("tf_hsm")
class Perplexity(_compiled_model.ReadsHead, keras.metrics.Metric):
    """The exponential of the mean loss per label, over all batches so far.

    In `model.compile(metrics=[...])`, with a model whose output is a head's, it
    takes the losses that the training loss has made already. Ignored and
    masked labels do not count.

    Args:
      name: the name of the metric.
      dtype: the type of the sums, float32 by default.
    """

    def __init__(self, *, name="perplexity", dtype=None):
        """See the class."""
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    @telling_lost_values
    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
          y_true: labels, `[...]` or `[..., 1]`; not used when `y_pred` are
            losses.
          y_pred: the output of a head, `[..., width]`; or losses in nats,
            `[...]`.
          sample_weight: broadcast from the left to the losses; or None. For
            inputs with several labels, `[..., M]`: the mean is then over the
            sum of the weights.

        Raises:
          ValueError: `y_pred` is neither.
        """
        if _head_output.is_placeholder(y_pred):
            return
        output, mass = _head_output.find(y_pred), None
        if output is not None and output.labels is None:
            objective = output.layer.objective
            sample_weight, label_weights = objective.split_weights(
                sample_weight, y_true
            )
            losses, mask, *_ = output.layer.label_losses(
                output, y_true, label_weights, reuse=True
            )
            if label_weights is not None:
                mass = objective.label_mass(
                    y_true, output.inputs, label_weights, self.dtype
                )
        elif output is not None or _are_losses(y_pred, y_true):
            losses, mask = y_pred, private_keras.mask_of(y_pred)
            mass = getattr(output, "label_mass", None)
        else:
            raise ValueError(
                f"y_pred, of shape {tuple(y_pred.shape)}, is neither the "
                "output of a tf_hsm head nor losses for y_true, of shape "
                f"{tuple(y_true.shape)}"
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


def _are_losses(y_pred, labels):
    """Returns whether `y_pred` without a head may be losses of labels.

    Scores, `[..., classes]`, have a dimension more than labels, `[...]`.
    """
    return labels is None or len(y_pred.shape) <= len(labels.shape)
