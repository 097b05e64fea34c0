"""Precision that gives rare labels their weight."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tf_hsm import _checks
from tf_hsm.metrics._of_the_best import (
    OfTheBest,
    find_labels,
    refuse_node_labels,
)
from tf_hsm.runtime import label_sets


@keras.saving.register_keras_serializable("tf_hsm")
class PropensityScoredPrecisionAtK(OfTheBest):
    """Precision at k in which a rare label counts for more (PSP@k).

    Data sets of extreme classification miss labels, and rare labels most often.
    Jain, Prabhu and Varma (KDD 2016) divide each label by its propensity, the
    probability that a label that applies is in the data:

        C = (ln(E) - 1) (b + 1)^a
        propensity of l = 1 / (1 + C (count of l + b)^-a)
        PSP@k = sum of 1 / propensity over the labels among the k best
                / the largest possible sum

    Both sums are over all inputs, as in published tables. The k best classes
    are found by exact search. Labels must be classes: with `node_labels` the
    metric raises an error. Masked inputs do not count.

    Args:
      head: a layer of `tf_hsm.layers`.
      counts: `[N]`, how many training examples have each class as a label; or
        a mapping from classes.
      num_examples: E, the number of training examples.
      k: how many classes, at least 1; where the head has fewer, all.
      a: see above; 0.55 in the paper, 0.5 for Wikipedia, 0.6 for Amazon.
      b: see above; 1.5 in the paper, 0.4 for Wikipedia, 2.6 for Amazon.
      name: the name of the metric; None: `psp_at_<k>`.
      dtype: the type of the sums, float32 by default.

    Raises:
      ValueError: `k` is below 1, a count is negative, infinite or NaN, or
        another argument is out of range.
    """

    _default_name = "psp_at_{}"

    def __init__(
        self,
        head,
        counts,
        num_examples,
        k=1,
        *,
        a=0.55,
        b=1.5,
        name=None,
        dtype=None,
    ):
        super().__init__(head, k, name, dtype)
        num_classes = getattr(head, "num_classes", None)
        counts = _checks.by_class("counts", counts, num_classes)
        self.counts = _checks.check_counts(counts)
        self.num_examples = _checks.check_int("num_examples", num_examples, 3)
        if not (a >= 0 and b > 0):
            raise ValueError(f"a = {a} must be at least 0 and b = {b} above 0")
        self.a, self.b = float(a), float(b)
        constant = (np.log(self.num_examples) - 1) * (self.b + 1) ** self.a
        self._gains = 1 + constant * (self.counts + self.b) ** -self.a
        self.largest = keras.metrics.Mean(name="largest", dtype=dtype)

    def _check(self, head):
        refuse_node_labels(self, head)
        if self.counts.size != head.num_classes:
            raise ValueError(
                f"{self.name} has counts of {self.counts.size} classes, but "
                f"{head.name} has {head.num_classes}"
            )

    def _means(self):
        return [self.mean, self.largest]

    def _scores(self, head, hidden, labels):
        k = min(self.k, head.num_classes)
        found = ops.any(find_labels(head, hidden, k, labels), -1)
        table = tf.constant(self._gains, self.dtype)
        gains = tf.gather(table, tf.maximum(labels, 0))
        gains = tf.where(labels != label_sets.NONE, gains, 0)
        best = tf.sort(gains, -1, "DESCENDING")[..., :k]
        gains = tf.where(found, gains, 0)
        return ops.sum(gains, -1), ops.sum(best, -1)

    def result(self):
        """Returns PSP@k; 0 before the first batch."""
        return ops.divide_no_nan(self.mean.result(), self.largest.result())

    def get_config(self):
        """The arguments of the constructor."""
        return {
            **super().get_config(),
            "counts": self.counts.tolist(),
            "num_examples": self.num_examples,
            "a": self.a,
            "b": self.b,
        }
