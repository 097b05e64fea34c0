"""Keras losses."""

import keras
import tensorflow as tf
from keras import ops

from tf_hsm import _checks
from tf_hsm._head_reference import HeadReference, reference_to
from tf_hsm.ops import focal
from tf_hsm.runtime import arguments, private_keras, replicas

__all__ = ["HeadLoss", "focal_loss"]


# Files of earlier versions have this registered name.
@keras.saving.register_keras_serializable("tf_hsm", "HierarchicalSoftmaxLoss")
class HeadLoss(keras.losses.Loss):
    """The loss of a head of `tf_hsm.layers`, for `model.compile(loss=...)`.

    >>> model.compile("adam", loss=head.loss)

    `head.loss` is `HeadLoss(head)`. The loss of a label is in nats, with the
    label smoothing, class weights, focal loss and z-loss of the head, in `fit`
    and in `evaluate` alike; `tf_hsm.metrics.Perplexity(head)` is plain. Ignored
    and masked labels count neither in the sum nor in the mean. Labels keep
    their integer type: Keras' own losses make them float32, which is exact only
    to 2^24.

    On several replicas (`tf.distribute`) a mean is over the labels of all
    replicas, however many each replica has. Each replica returns its equal part
    of the mean, so that the sum over the replicas is the mean, in `fit` and in
    a training loop of your own. So all replicas must call the loss.

    A model that is loaded from a file has losses of its own heads.

    Args:
      head: a layer of `tf_hsm.layers`.
      reduction: as for every Keras loss; "none" gives one loss for each label.
      name: the name of the loss.
      dtype: the type in which losses are averaged; by default float64 for
        float64 losses, else Keras' `floatx`, float32.

    Raises:
      TypeError: `head` is no layer of `tf_hsm.layers`.
    """

    def __init__(
        self,
        head,
        reduction="sum_over_batch_size",
        *,
        name="hierarchical_softmax_loss",
        dtype=None,
    ):
        self.reference = reference_to(head)
        self._given_dtype = dtype
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Reduces the losses of labels.

        Args:
          y_true: labels, `[...]` or `[..., 1]` integers; `[..., M]` or ragged
            where the head takes several labels.
          y_pred: the hidden vectors `[..., width]`, with a Keras mask or not.
          sample_weight: broadcast from the left to the losses `[...]`; or None.
            Where the head takes several labels, it may have a number for each
            label: see `several_labels` of `tf_hsm.layers.HierarchicalSoftmax`.

        Raises:
          TypeError: labels are not integers.
          ValueError: `y_pred` are no hidden vectors of the head.
        """
        if private_keras.in_symbolic_scope():
            losses, mask = tf.zeros(tf.shape(y_true)), None
            return reduced(losses, mask, None, self.reduction)
        return self.reference.get()._reduced_loss(
            y_true,
            y_pred,
            sample_weight,
            private_keras.mask_of(y_pred),
            reduction=self.reduction,
            dtype=self._given_dtype,
        )

    def call(self, y_true, y_pred):
        """Returns the losses `[...]` of labels."""
        return self.reference.get().label_losses(y_true, y_pred)

    def get_config(self):
        """Returns the arguments of the constructor, the head by its name."""
        dtype = None if self._given_dtype is None else self.dtype
        return {
            **super().get_config(),
            "head": self.reference.name,
            "dtype": dtype,
        }

    @classmethod
    def from_config(cls, config):
        """Makes the loss that `get_config` described; see `HeadReference`."""
        return cls(HeadReference.of_file(config.pop("head", None)), **config)


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
    gamma = _checks.check_real("gamma", gamma, 0)
    losses = tf.convert_to_tensor(losses)
    return focal.values(losses, focal.slopes(losses, gamma), gamma)


class _Reduction(keras.losses.Loss):
    """Keras' weighting, masking and reduction of losses made elsewhere."""

    def call(self, y_true, y_pred):
        """Returns the losses."""
        del y_true
        return y_pred


def reduced(
    losses,
    mask,
    sample_weight,
    reduction="sum_over_batch_size",
    dtype=None,
    caller=None,
):
    """Reduces the losses of labels as Keras does, but over all replicas.

    On several replicas a mean is the mean over the labels of all of them. Each
    replica returns one of as many equal parts of it as there are replicas,
    since Keras and `tf.distribute` add the results of replicas.

    Args:
      losses: `[...]`.
      mask: `[...]` bool, the losses that count; None for all.
      sample_weight: broadcast from the left to the losses; or None.
      reduction: as for every Keras loss.
      dtype: the type of sums; None: float64 for float64 losses, else Keras'
        `floatx`.
      caller: the model that called the head, or the head; see `kept_losses`.
    """
    if dtype is None and losses.dtype == tf.float64:
        dtype = "float64"
    reduce = _Reduction("reduction", reduction, dtype)
    weights = sample_weight
    if weights is not None:
        weights = broadcast_weights(weights, losses)
    context = replicas.context()
    if context is None or reduction in ("sum", "none", None):
        return reduce(losses, private_keras.set_mask(losses, mask), weights)
    if weights is not None:
        weights = _copied(weights)
    losses = ops.cast(losses, reduce.dtype)
    counts = ops.ones_like(losses)
    if mask is not None:
        counts = ops.cast(mask, losses.dtype)
    weights = counts if weights is None else counts * weights
    if reduction == "mean_with_sample_weight":
        counts = weights
    with private_keras.kept_losses(caller):
        # Its gradient is the sum of the gradients of all replicas.
        total, count = context.all_reduce(
            tf.distribute.ReduceOp.SUM,
            [ops.sum(losses * weights), ops.sum(counts)],
        )
    return ops.divide_no_nan(total, count) / replicas.count()


@tf.custom_gradient
def _copied(weights):
    """Returns a copy of weights, into whose memory ops may write.

    The slice of a batch that a CPU replica gets may be a part of the user's
    own array, and TensorFlow lets an op write its result there.
    """
    return tf.raw_ops.DeepCopy(x=weights), lambda gradient: gradient


def broadcast_weights(sample_weight, losses):
    """Broadcasts `sample_weight` from the left to the losses, `[...]`.

    A trailing 1 beyond the losses' dimensions, as `labels [..., 1]` have it, is
    dropped. None stays None.

    Weights `[batch]` of sequences are refused: Keras makes such ones of the
    `class_weight` of `fit`, by the class that is largest in each sequence.

    Raises:
      ValueError: `sample_weight` has more dimensions than the losses, or
        another shape (tf.errors.InvalidArgumentError where a graph runs); or
        it is `[batch]`, and the losses are of sequences.
    """
    if sample_weight is None:
        return None
    weights = ops.convert_to_tensor(sample_weight, dtype=losses.dtype)
    missing = len(losses.shape) - len(weights.shape)
    if missing > 0 and len(weights.shape) == 1 and losses.shape[1:] != (1,):
        raise ValueError(
            "sample_weight has a number for each sequence, "
            f"{tuple(weights.shape)}, but the losses are "
            f"{tuple(losses.shape)}. If they come from class_weight of fit, "
            "give the head class_weights= instead: Keras gives a whole "
            "sequence the weight of one class. If you mean them, give "
            "sample_weight[:, np.newaxis]"
        )
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
