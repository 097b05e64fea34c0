"""Keras losses."""

import keras

from tf_hsm import _attached_head


class _LabelLoss(keras.losses.Loss):
    """Keras' weighting, masking and reduction of losses made elsewhere."""

    def call(self, y_true, y_pred):
        return y_pred

    def _reduce(self, losses, mask, sample_weight):
        return super().__call__(
            losses,
            _attached_head.set_mask(losses, mask),
            _attached_head.broadcast_weights(sample_weight, losses),
        )


@keras.saving.register_keras_serializable("tf_hsm")
class HierarchicalSoftmaxLoss(_LabelLoss):
    """The mean loss of a head, in nats, for `model.compile(loss=...)`.

    The model's output must be `layer(inputs)` of a head of `tf_hsm.layers`,
    whose weights the loss finds on it.
    Ignored and masked labels count neither in the sum nor in the mean. Labels
    keep their integer type: Keras' own losses make them float32, exact only
    to 2^24.

    Args:
      reduction: as for every Keras loss; "none" gives one loss per label.
      name: the name of the loss.
      dtype: the type in which losses are averaged, float32 by default.
    """

    def __init__(
        self,
        reduction="sum_over_batch_size",
        name="hierarchical_softmax_loss",
        dtype=None,
    ):
        """See the class."""
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Reduces the losses of labels `y_true` [...] or [..., 1].

        `sample_weight` is broadcast from the left to the losses, `[...]`.

        Raises:
          ValueError: `y_pred` is not the output of a tf_hsm head.
        """
        reduction = _attached_head.Reduction(self._reduce, sample_weight)
        losses, mask = _attached_head.label_losses(
            y_true, y_pred, reduction=reduction
        )
        return reduction.total(losses, mask)


def mean_loss(losses, mask, sample_weight):
    """The mean of `losses` as Keras makes it: over the labels that count."""
    return _LabelLoss()._reduce(losses, mask, sample_weight)
