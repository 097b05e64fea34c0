"""The base of the metrics of the k most probable classes."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tf_hsm import _checks
from tf_hsm._head_reference import HeadReference, check_hidden, reference_to
from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.losses import broadcast_weights
from tf_hsm.ops.label_ranks import label_ranks
from tf_hsm.runtime import (
    arguments,
    label_sets,
    private_keras,
    private_tensorflow,
)
from tf_hsm.runtime.devices import is_on_gpu

# In nats, relative to a log-probability and by itself: two ops round apart.
_SLACK = 1e-4


class HeadMetric(keras.metrics.Metric):
    """A metric of a head, which a model of a file finds by the head's name.

    Args:
      head: a layer of `tf_hsm.layers`; None where the metric needs no head.
      name: the name of the metric.
      dtype: the type of the sums.

    Raises:
      TypeError: `head` is something else.
    """

    def __init__(self, head, name, dtype):
        super().__init__(name=name, dtype=dtype)
        self.reference = None if head is None else reference_to(head)

    def get_config(self):
        """Returns the arguments of the constructor, the head by its name."""
        name = self.reference and self.reference.name
        return {**super().get_config(), "head": name}

    @classmethod
    def from_config(cls, config):
        """Makes the metric that `get_config` described."""
        name = config.pop("head", "")
        # Files of earlier versions have no name.
        head = None if name is None else HeadReference.of_file(name or None)
        return cls(head, **config)


class OfTheBest(HeadMetric):
    """The mean over the inputs of a score of their k most probable classes.

    A subclass has a `_default_name`, and `_scores(head, hidden, labels)`, which
    takes hidden vectors, and the labels `[..., M]` of `read_labels`. It returns
    the scores `[...]` of inputs, one tensor for each of `_means()`.

    Args:
      head: the head.
      k: how many classes.
      name: the name of the metric; None: `_default_name` with k in it.
      dtype: the type of the sums.

    Raises:
      TypeError: `head` is no layer of `tf_hsm.layers`.
      ValueError: `k` is below 1.
    """

    _takes_sets = False  # whether labels are sets for a head of one label too

    def __init__(self, head, k, name, dtype):
        self.k = _checks.as_integer("k", k)
        if self.k < 1:
            raise ValueError(f"k = {k} is below 1")
        name = name or self._default_name.format(self.k)
        super().__init__(reference_to(head), name, dtype)
        self.mean = keras.metrics.Mean(name="mean", dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
          y_true: labels, in the shape that the class describes.
          y_pred: the hidden vectors `[..., width]`, with a Keras mask or not.
          sample_weight: broadcast from the left to the inputs; or None.

        Raises:
          tf.errors.InvalidArgumentError: a label that counts is no class of the
            head, as for a loss.
          ValueError: `y_pred` are no hidden vectors of the head, or the metric
            cannot score the classes of this head.
        """
        if private_keras.in_symbolic_scope():
            return
        head, mask = self.reference.get(), private_keras.mask_of(y_pred)
        with head._explain_lost_values():
            hidden = check_hidden(head, y_pred)
            self._check(head)
            labels, mask, sample_weight = read_labels(
                head, hidden, y_true, mask, sample_weight, self._takes_sets
            )
            found = self._scores(head, hidden, labels)
            for mean, scores in zip(self._means(), found, strict=True):
                scores = ops.cast(scores, self.dtype)
                weights = broadcast_weights(sample_weight, scores)
                if mask is not None:
                    counts = ops.cast(mask, self.dtype)
                    weights = counts if weights is None else weights * counts
                mean.update_state(scores, weights)

    def _check(self, head):
        """Raises a ValueError if the metric cannot score labels of a head."""

    def _means(self):
        """Returns the `keras.metrics.Mean`s of the scores, a list."""
        return [self.mean]

    def result(self):
        """Returns the mean; 0 before the first batch."""
        return self.mean.result()

    def reset_state(self):
        """Forgets all batches."""
        for mean in self._means():
            mean.reset_state()

    def get_config(self):
        """The arguments of the constructor."""
        return {**super().get_config(), "k": self.k}


def read_labels(head, hidden, labels, mask, sample_weight, as_sets=False):
    """Reads one label for each input, or several.

    Args:
      head: the head.
      hidden: `[..., width]`.
      labels: labels as the head takes them.
      mask: `[...]` bool, the inputs that count; or None.
      sample_weight: as for `update_state`.
      as_sets: whether labels are sets for a head of one label too.

    Returns:
      Labels `[..., M]` int64, each one once, and -1 where there is none; the
      inputs that count, `[...]` bool or None; and the weights of inputs.

    Raises:
      tf.errors.InvalidArgumentError: a label that counts is no class, or no row
        of the tree with `node_labels`.
      ValueError: labels are one for each input, but must be sets.
    """
    objective = head.objective
    if not (head.several_labels or as_sets):
        labels, mask = objective.read_one(labels, hidden, mask)
        labels = _in_range(head, tf.cast(labels, tf.int64), mask)
        if mask is not None:
            labels = tf.where(
                mask, labels, tf.constant(label_sets.NONE, tf.int64)
            )
        return labels[..., tf.newaxis], mask, sample_weight
    shape = labels.shape if tf.is_tensor(labels) else np.shape(labels)
    if len(shape) == len(hidden.shape) - 1 and not head.several_labels:
        raise ValueError(
            f"labels, of shape {tuple(shape)}, are one for each input, but "
            "this metric takes several, [..., M]: take "
            "tf_hsm.metrics.TopKAccuracy, or labels[..., np.newaxis]"
        )
    weights, of_labels = objective.split_weights(sample_weight, labels)
    # Weights of labels are not weights of inputs: every input counts once.
    if of_labels is None or of_labels.shape[-1] != 1:
        sample_weight = weights
    labels = objective.read_sets(
        labels, hidden, tree=getattr(head, "tree", None)
    )
    labels = tf.cast(labels, tf.int64)
    labels = _in_range(head, labels, labels != label_sets.NONE)
    labels = tf.sort(labels, -1)
    none = tf.constant(label_sets.NONE, tf.int64)
    is_again = labels[..., 1:] == labels[..., :-1]
    labels = tf.concat(
        [
            labels[..., :1],
            tf.where(is_again, none, labels[..., 1:]),
        ],
        -1,
    )
    return labels, mask, sample_weight


def _in_range(head, labels, counted):
    """Returns labels, whose use is an error where one that counts is wrong."""
    count = head.tree.num_rows if head.node_labels else head.num_classes
    kept = arguments.in_range(labels, count, "labels", counted)
    return arguments.checked(labels, kept)


@private_tensorflow.allow_infinities
def find_labels(head, hidden, k, labels, of_first=False):
    """Returns which of the k best classes are which labels, `[..., M, k]`.

    With `node_labels`, a class is a label if it is at or below the label's row.

    Args:
      head: the head.
      hidden: `[..., width]`.
      k: how many classes; where the head has fewer, all.
      labels: `[..., M]`, from `read_labels`.
      of_first: whether classes after the first label may be missing. The result
        may then be `[..., 1, k]`, of the most probable label.

    One label of a `TreeHead` on a CPU needs no search. Else the search opens no
    group less probable than the last label, with `of_first` the first.
    """
    is_label, bounds = labels != label_sets.NONE, None
    k = min(k, head.num_classes)
    tree_head = head._head
    has_ranks = (
        isinstance(tree_head, TreeHead)
        and not head.node_labels
        and not is_on_gpu(tree_head.weights)
    )
    if has_ranks and labels.shape[-1] == 1:
        return _find_one(tree_head, hidden, k, labels)
    if not head.node_labels:
        found = head.log_prob(tf.where(is_label, labels, 0), hidden)
        # An input without labels needs no search.
        if of_first:
            # A label of probability 0, or NaN, is found nowhere.
            found = tf.where(is_label & (found > -np.inf), found, -np.inf)
            if has_ranks:
                # There is one label at least, perhaps none of an input.
                ends = [[0, 0]] * (labels.shape.rank - 1) + [[0, 1]]
                found = tf.pad(found, ends, constant_values=-np.inf)
                padded = tf.pad(labels, ends, constant_values=label_sets.NONE)
                first = tf.argmax(found, -1)[..., tf.newaxis]
                first = tf.gather(padded, first, batch_dims=-1)
                return _find_one(tree_head, hidden, k, first)
            bounds = tf.reduce_max(found, -1)
            bounds = tf.where(bounds > -np.inf, bounds, np.inf)
        else:
            bounds = tf.reduce_min(tf.where(is_label, found, np.inf), -1)
        slack = _SLACK * (1 + tf.abs(bounds))
        bounds = tf.where(tf.math.is_finite(bounds), bounds - slack, bounds)
    classes = head.top_k(hidden, k, bounds=bounds).classes
    hits = head.hits(classes[..., tf.newaxis, :], labels)
    return hits & is_label[..., tf.newaxis]


def _find_one(head, hidden, k, labels):
    """`find_labels` for a `TreeHead` and labels `[..., 1]`."""
    ranks = label_ranks(
        head.weights,
        head.biases,
        labels[..., 0],
        hidden,
        head.tree,
        k,
        logit_soft_cap=head.logit_soft_cap,
    )
    return tf.one_hot(ranks, k, True, False)[..., tf.newaxis, :]


def refuse_node_labels(metric, head):
    """Raises a ValueError if the labels of a head are rows of its tree."""
    if head.node_labels:
        raise ValueError(
            f"{metric.name} needs labels that are classes, but {head.name} "
            "has node_labels=True; take tf_hsm.metrics.RecallAtK"
        )
