"""Keras losses."""

import functools

import keras
import tensorflow as tf

from tf_hsm import _compiled_model, _head_output
from tf_hsm._reduction import LabelLoss, Reduction, if_on_replicas
from tf_hsm.runtime import arguments, focal, private_compile


# Files of earlier versions have this registered name.
@keras.saving.register_keras_serializable("tf_hsm", "HierarchicalSoftmaxLoss")
class HeadLoss(LabelLoss):
    """The loss of every head of `tf_hsm.layers`, for `model.compile(loss=...)`.

    >>> model.compile("adam", loss=head.loss)

    `head.loss` is a `HeadLoss`. The output of the model must be `head(inputs)`,
    on which the loss finds the head and its inputs. The loss of a label is in
    nats. Ignored and masked labels count neither in the sum nor in the mean.
    Labels keep their integer type: Keras' own losses make them float32, which
    is exact only to 2^24.

    On several replicas (`tf.distribute`), `fit` and `evaluate` take the mean
    over the labels of all replicas, however many each replica has. In a
    training loop of your own, each replica takes the mean over its own labels
    and divides it by the number of replicas, as every Keras loss does.

    Args:
      reduction: as for every Keras loss; "none" gives one loss for each label.
      name: the name of the loss.
      dtype: the type in which losses are averaged; by default float64 for
        float64 losses, else Keras' `floatx`, float32.
    """

    def __init__(
        self,
        reduction="sum_over_batch_size",
        *,
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
        """Reduces the losses of labels `y_true` `[...]` or `[..., 1]`.

        `sample_weight` is broadcast from the left to the losses, `[...]`. Where
        the head takes several labels, `[..., M]`, it may have a number for
        each label: see `several_labels` of `tf_hsm.layers.HierarchicalSoftmax`.

        Raises:
          ValueError: `y_pred` is not the output of a head; or `compile` has
            metrics or loss weights that do not fit the head.
        """
        with _head_output.lost_values_told(y_pred):
            if _head_output.is_placeholder(y_pred):
                losses = tf.zeros(tf.shape(y_true))
                return self._reduced(losses, None, sample_weight)
            output = _head_output.require(y_pred, note=_OF_FUNCTIONS)
            layer, model = output.layer, output.model
            _check_not_converted(y_true, layer, model)
            if model is not None:
                _compiled_model.check_loss(model, self, layer, output.updates)
                layer.check_trains(output)
            sample_weight, label_weights = layer.objective.split_weights(
                sample_weight, y_true
            )
            reduction = Reduction(
                self._reduction_for(if_on_replicas(model)), sample_weight
            )
            found = layer.label_losses(output, y_true, label_weights, reduction)
            return reduction.total(found.losses, found.mask)

    def _reduction_for(self, model):
        """Returns what reduces losses; for a model, over all its replicas."""
        if model is None or self.reduction in ("sum", "none", None):
            return self._reduced
        return functools.partial(self._share_of_mean, model=model)

    def _share_of_mean(self, losses, mask, sample_weight, model):
        """One of as many equal parts as there are replicas, as Keras wants."""
        mean = self._mean(losses, mask, sample_weight, model)
        return mean / tf.distribute.get_strategy().num_replicas_in_sync


# What HeadLoss says where Keras may have converted its arguments.
_OF_FUNCTIONS = (
    "Keras converts labels and outputs for a loss that is a function: give "
    "compile head.loss itself, with loss_weights to scale it, or call "
    "head(inputs, labels) in the model and compute with what it returns"
)


def _check_not_converted(y_true, layer, model):
    """Raises a TypeError if a function in `compile` calls the loss."""
    if model is None or tf.as_dtype(y_true.dtype).is_integer:
        return
    losses = private_compile.losses_of_output(model, layer.name)
    if any(callable(f) and not isinstance(f, LabelLoss) for f in losses):
        dtype = tf.as_dtype(y_true.dtype).name
        raise TypeError(
            f"labels must be integers, but are {dtype}. {_OF_FUNCTIONS}"
        )


def focal_loss(losses, gamma=2.0):
    """Weighs losses down where the label is probable already.

    With l = -log p(label), the focal loss of a label is (1 - p)^gamma l (Lin et
    al., 2017: Focal Loss for Dense Object Detection):

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
