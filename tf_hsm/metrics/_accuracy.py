"""Accuracy and precision of the k most probable classes."""

import keras
from keras import ops

from tf_hsm.metrics._of_the_best import (
    OfTheBest,
    find_labels,
)


@keras.saving.register_keras_serializable("tf_hsm")
class TopKAccuracy(OfTheBest):
    """The share of labels among the k most probable classes.

    A label at an inner node is among them where one of them is below it.

    The classes are found by exact search through the tree
    (`tf_hsm.hierarchical_softmax_top_k`), so that it costs more than a loss: in
    `model.compile(weighted_metrics=[...])` it runs at each training step too,
    after the step, on the hidden vectors from before it. Ignored and masked
    labels do not count.

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
