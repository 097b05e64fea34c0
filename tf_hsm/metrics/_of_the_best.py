"""What the metrics of the k most probable classes have in common."""

import functools

import keras
import tensorflow as tf
from keras import ops

from tf_hsm import _checks, _compiled_model, _head_output
from tf_hsm._reduction import broadcast_weights
from tf_hsm.runtime import label_sets, private_keras


def telling_lost_values(update_state):
    """Decorates a metric's `update_state`."""

    @functools.wraps(update_state)
    def update(self, y_true, y_pred, sample_weight=None):
        with _head_output.lost_values_told(y_pred):
            update_state(self, y_true, y_pred, sample_weight)

    return update


class OfTheBest(_compiled_model.ReadsHead, keras.metrics.Metric):
    """The mean over the inputs of a score of their k most probable classes.

    A subclass has a `default_name`, and `_scores(output, labels, mask,
    sample_weight)`, which takes the `HeadOutput`, labels and weights as given,
    and the mask of `y_pred` or None. It returns the scores `[...]` of inputs;
    `[...]` bool, the inputs that count, or None; and weights that broadcast
    from the left, or None.

    Args:
      k: how many classes.
      name: the name of the metric; None: `default_name` with k in it.
      dtype: the type of the sums.

    Raises:
      ValueError: `k` is below 1.
    """

    def __init__(self, k, name, dtype):
        """See the class."""
        self.k = _checks.as_integer("k", k)
        if self.k < 1:
            raise ValueError(f"k = {k} is below 1")
        super().__init__(
            name=name or self.default_name.format(self.k), dtype=dtype
        )
        self.mean = keras.metrics.Mean(name="mean", dtype=dtype)

    @telling_lost_values
    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
          y_true: labels, in the shape that the class describes; not used when
            `y_pred` are a head's losses.
          y_pred: what a head returned for its inputs, or for these and labels.
          sample_weight: broadcast from the left to the inputs; or None.

        Raises:
          ValueError: `y_pred` did not come from a head, or the metric cannot
            score the classes of this head.
        """
        if _head_output.is_placeholder(y_pred):
            return
        output = _head_output.require(y_pred, or_losses=True)
        labels = y_true if output.labels is None else output.labels
        scores, mask, sample_weight = self._scores(
            output, labels, private_keras.mask_of(y_pred), sample_weight
        )
        self._add(self.mean, scores, mask, sample_weight)

    def _add(self, mean, scores, mask, sample_weight):
        """Adds the scores `[...]` of inputs to a `keras.metrics.Mean`."""
        scores = ops.cast(scores, self.dtype)
        weights = broadcast_weights(sample_weight, scores)
        if mask is not None:
            counts = ops.cast(mask, self.dtype)
            weights = counts if weights is None else weights * counts
        mean.update_state(scores, weights)

    def result(self):
        """Returns the mean; 0 before the first batch."""
        return self.mean.result()

    def reset_state(self):
        """Forgets all batches."""
        self.mean.reset_state()

    def get_config(self):
        """The arguments of the constructor."""
        return {**super().get_config(), "k": self.k}


def read_labels(output, labels, mask, sample_weight, as_sets=False):
    """Reads one label for each input, or several.

    Args:
      output: a `HeadOutput`.
      labels: labels as the head takes them.
      mask: `[...]` bool, the inputs that count; or None.
      sample_weight: as for `update_state`.
      as_sets: whether labels are sets for a head of one label too.

    Returns:
      Labels `[..., M]` int64, each one once, and -1 where there is none; the
      inputs that count, `[...]` bool or None; and the weights of inputs.
    """
    objective = output.layer.objective
    if not (output.layer.several_labels or as_sets):
        labels, mask = objective.read_one(labels, output.inputs, mask)
        labels = tf.cast(labels, tf.int64)
        if mask is not None:
            labels = tf.where(
                mask, labels, tf.constant(label_sets.NONE, tf.int64)
            )
        return labels[..., tf.newaxis], mask, sample_weight
    weights, of_labels = objective.split_weights(sample_weight, labels)
    # Weights of labels are not weights of inputs: every input counts once.
    if of_labels is None or of_labels.shape[-1] != 1:
        sample_weight = weights
    labels = objective.read_sets(
        labels, output.inputs, tree=getattr(output.layer, "tree", None)
    )
    labels = tf.sort(tf.cast(labels, tf.int64), -1)
    none = tf.constant(label_sets.NONE, tf.int64)
    is_again = labels[..., 1:] == labels[..., :-1]
    labels = tf.concat(
        [
            labels[..., :1],
            tf.where(is_again, none, labels[..., 1:]),
        ],
        -1,
    )
    # The mask of losses leaves out the inputs without a label too.
    return labels, output.inputs_mask, sample_weight


def find_labels(layer, classes, labels):
    """Returns which classes `[..., k]` are labels `[..., M]`: `[..., M, k]`.

    With `node_labels`, a class is a label if it is at or below the label's row.
    """
    hits = layer.hits(classes[..., tf.newaxis, :], labels)
    return hits & (labels != label_sets.NONE)[..., tf.newaxis]


def refuse_node_labels(metric, layer):
    """Raises a ValueError if the labels of a layer are rows of its tree."""
    if getattr(layer, "node_labels", False):
        raise ValueError(
            f"{metric.name} needs labels that are classes, but {layer.name} "
            "has node_labels=True; take tf_hsm.metrics.RecallAtK"
        )
