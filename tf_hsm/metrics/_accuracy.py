"""Accuracy and precision of the k most probable classes."""

import keras
from keras import ops

from tf_hsm.metrics._of_the_best import OfTheBest, find_labels, read_labels


@keras.saving.register_keras_serializable("tf_hsm")
class TopKAccuracy(OfTheBest):
    """How often the label is among the k most probable classes.

    A label at an inner node is among them where one of them is below it.

    The classes are found by exact search through the tree
    (`tf_hsm.hierarchical_softmax_top_k`), so that it costs more than a loss: in
    `model.compile(weighted_metrics=[...])` it runs at each training step too,
    before the head has changed. Ignored and masked labels do not count.

    Labels are `[...]` or `[..., 1]`, one for each input.

    Args:
      k: how many classes, at least 1; where the tree has fewer, all.
      name: the name of the metric; None: `top_<k>_accuracy`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1.
    """

    default_name = "top_{}_accuracy"

    def __init__(self, k=5, *, name=None, dtype=None):
        """See the class."""
        super().__init__(k, name, dtype)

    def _scores(self, output, labels, mask, sample_weight):
        layer = output.layer
        if layer.several_labels:
            raise ValueError(
                f"{self.name} is for one label per input, but {layer.name} has "
                "several labels: take tf_hsm.metrics.PrecisionAtK"
            )
        labels, mask = layer.objective.read_one(labels, output.inputs, mask)
        classes = output.best_classes(min(self.k, layer.num_classes))
        hits = ops.any(layer.hits(classes, labels), -1)
        return hits, mask, sample_weight


@keras.saving.register_keras_serializable("tf_hsm")
class PrecisionAtK(OfTheBest):
    """How many of the k most probable classes are labels of their input.

        P@k = mean over the inputs of |labels among the k best| / k

    It is the measure of extreme classification. A label at an inner node is
    found by each of the k best classes below it. An input without labels counts
    as 0, and masked ones do not count. The k best are found by exact search: in
    `model.compile(weighted_metrics=[...])` it runs at each training step too.

    Labels are `[..., M]` or ragged; a negative number stands for no label. For
    a multi-hot matrix there is `tf_hsm.label_lists`.

    Args:
      k: how many labels, at least 1 and at most as the head has classes.
      name: the name of the metric; None: `precision_at_<k>`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1.
    """

    default_name = "precision_at_{}"

    def __init__(self, k=1, *, name=None, dtype=None):
        """See the class."""
        super().__init__(k, name, dtype)

    def _scores(self, output, labels, mask, sample_weight):
        layer = output.layer
        if self.k > layer.num_classes:
            raise ValueError(
                f"{self.name}: k = {self.k}, but {layer.name} has "
                f"{layer.num_classes} classes"
            )
        labels, mask, sample_weight = read_labels(
            output, labels, mask, sample_weight, as_sets=True
        )
        found = find_labels(layer, output.best_classes(self.k), labels)
        precision = ops.mean(ops.cast(ops.any(found, -2), self.dtype), -1)
        return precision, mask, sample_weight
