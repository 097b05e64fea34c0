"""Metrics of the k most probable classes: accuracy, precision and ranks."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tf_hsm.metrics._of_the_best import (
    OfTheBest,
    find_labels,
    refuse_node_labels,
)
from tf_hsm.runtime import label_sets


@keras.saving.register_keras_serializable("tf_hsm")
class TopKAccuracy(OfTheBest):
    """The share of labels among the k most probable classes.

    A label at an inner node is among them where one of them is below it.

    The k classes are exact, as in `tf_hsm.hierarchical_softmax_top_k`, so that
    it costs more than a loss: in `model.compile(weighted_metrics=[...])` it
    runs at each training step too, after the step, on the hidden vectors from
    before it. Ignored and masked labels do not count.

    Labels are `[...]` or `[..., 1]`, one for each input.

    Args:
      head: a layer of `tf_hsm.layers`.
      k: how many classes, at least 1; where the tree has fewer, all.
      name: the name of the metric; None: `top_<k>_accuracy`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1.
    """

    _default_name = "top_{}_accuracy"

    def __init__(self, head, k=5, *, name=None, dtype=None):
        super().__init__(head, k, name, dtype)

    def _check(self, head):
        if head.several_labels:
            raise ValueError(
                f"{self.name} is for one label per input, but {head.name} has "
                "several labels: take tf_hsm.metrics.PrecisionAtK"
            )

    def _scores(self, head, hidden, labels):
        found = find_labels(head, hidden, self.k, labels)
        return [ops.any(found, [-2, -1])]


@keras.saving.register_keras_serializable("tf_hsm")
class PrecisionAtK(OfTheBest):
    """The share of the k most probable classes that are labels of their input.

        P@k = mean over the inputs of |labels among the k best| / k

    It is the measure of extreme classification. A label at an inner node is
    found by each of the k best classes below it. An input without labels counts
    as 0, and masked ones do not count. The k best are found by exact search: in
    `model.compile(weighted_metrics=[...])` it runs at each training step too.

    Labels are `[..., M]` or ragged; a negative number stands for no label. For
    a multi-hot matrix there is `tf_hsm.label_lists`.

    Args:
      head: a layer of `tf_hsm.layers`.
      k: how many labels, at least 1 and at most as the head has classes.
      name: the name of the metric; None: `precision_at_<k>`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1.
    """

    _default_name = "precision_at_{}"
    _takes_sets = True

    def __init__(self, head, k=1, *, name=None, dtype=None):
        super().__init__(head, k, name, dtype)

    def _check(self, head):
        if self.k > head.num_classes:
            raise ValueError(
                f"{self.name}: k = {self.k}, but {head.name} has "
                f"{head.num_classes} classes"
            )

    def _scores(self, head, hidden, labels):
        found = find_labels(head, hidden, self.k, labels)
        return [ops.mean(ops.cast(ops.any(found, -2), self.dtype), -1)]


@keras.saving.register_keras_serializable("tf_hsm")
class RecallAtK(OfTheBest):
    """The share of an input's labels among the k most probable classes.

        recall@k = mean over the inputs of |labels among the k best| / |labels|

    For one label per input it is `TopKAccuracy`: the share of labels that are
    found, which recommenders call the hit rate. With `node_labels`, a label is
    found if one of the k best classes is at or below its row.

    The k best classes are exact, so the metric costs more than a loss:
    in `model.compile(weighted_metrics=[...])` it runs at each training step
    too, after the step, on the hidden vectors from before it. Ignored and
    masked labels do not count. An input of a head with several labels that has
    none counts as 0.

    Labels are `[...]` or `[..., 1]`; for a head with several labels `[..., M]`
    or ragged, where a negative number stands for no label.

    Args:
      head: a layer of `tf_hsm.layers`.
      k: how many classes, at least 1; where the head has fewer, all.
      name: the name of the metric; None: `recall_at_<k>`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1.
    """

    _default_name = "recall_at_{}"

    def __init__(self, head, k=10, *, name=None, dtype=None):
        super().__init__(head, k, name, dtype)

    def _scores(self, head, hidden, labels):
        found = ops.any(find_labels(head, hidden, self.k, labels), -1)
        recall = ops.divide_no_nan(
            _count(found, self.dtype),
            _count(labels != label_sets.NONE, self.dtype),
        )
        return [recall]


@keras.saving.register_keras_serializable("tf_hsm")
class NDCGAtK(OfTheBest):
    """Normalized discounted cumulative gain of the k most probable classes.

        DCG@k = sum over i = 1 to k of [the i-th best class is a label] /
                log2(1 + i)
        nDCG@k = mean over the inputs of DCG@k / the largest possible DCG@k

    For one label per input it is 1 / log2(1 + rank), or 0 if the rank of the
    label is above k. With several labels it is the nDCG@k of extreme
    classification.

    Search, labels and what counts are as for `RecallAtK`, but labels must be
    classes: with `node_labels` the metric raises an error.

    Args:
      head: a layer of `tf_hsm.layers`.
      k: how many classes, at least 1; where the head has fewer, all.
      name: the name of the metric; None: `ndcg_at_<k>`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1.
    """

    _default_name = "ndcg_at_{}"

    def __init__(self, head, k=10, *, name=None, dtype=None):
        super().__init__(head, k, name, dtype)

    def _check(self, head):
        refuse_node_labels(self, head)

    def _scores(self, head, hidden, labels):
        k = min(self.k, head.num_classes)
        found = find_labels(head, hidden, k, labels)
        gains = ops.cast(ops.any(found, -2), self.dtype)
        discounts = tf.constant(1 / np.log2(np.arange(2, k + 2)), gains.dtype)
        count = tf.reduce_sum(
            tf.cast(labels != label_sets.NONE, tf.int32), -1, keepdims=True
        )
        best = ops.cast(tf.range(k) < count, self.dtype)
        ndcg = ops.divide_no_nan(
            ops.sum(gains * discounts, -1), ops.sum(best * discounts, -1)
        )
        return [ndcg]


@keras.saving.register_keras_serializable("tf_hsm")
class MeanReciprocalRank(OfTheBest):
    """The mean of 1 / rank, where the label is the rank-th most probable class.

    A label whose rank is above k counts as 0, so the metric is below the mean
    over all ranks by at most 1 / (k + 1). With several labels the rank is the
    best rank among the labels. With `node_labels` it is the rank of the first
    class at or below the label's row.

    No group of the tree is opened that is less probable than the label.
    So k may be large: a label of rank 7 costs about a top-7. Classes of one
    probability stand in the order of `top_k`. Labels and what counts are as for
    `RecallAtK`.

    Args:
      head: a layer of `tf_hsm.layers`.
      k: the largest rank that counts, at least 1; where the head has fewer
        classes, the rank is exact.
      name: the name of the metric; None: `mrr_at_<k>`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1.
    """

    _default_name = "mrr_at_{}"

    def __init__(self, head, k=1000, *, name=None, dtype=None):
        super().__init__(head, k, name, dtype)

    def _scores(self, head, hidden, labels):
        found = find_labels(head, hidden, self.k, labels, of_first=True)
        found = ops.any(found, -2)
        rank = 1 + ops.argmax(ops.cast(found, "int32"), -1)
        reciprocal = 1 / ops.cast(rank, self.dtype)
        is_found = ops.cast(ops.any(found, -1), self.dtype)
        return [is_found * reciprocal]


def _count(booleans, dtype):
    return ops.sum(ops.cast(booleans, dtype), -1)
