"""Classes that are drawn by a law: the same for the same seed and step."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from tf_hsm.runtime import tree_tensors
from tf_hsm.tree.builders.adaptive import by_frequency

SAMPLERS = ("log_uniform", "uniform", "counts")


@dataclasses.dataclass(frozen=True, eq=False)
class ClassSampler:
    """Draws S of N classes at a time.

    A law p gives each class an expected count, min(1, a p), where a makes their
    sum S: no class is expected more than once. In falling order these lie end
    to end on the interval [0, S), and one point is drawn in each unit of it
    (stratified sampling: Cochran, 1977, Sampling Techniques). Hence

    - a class whose expected count is 1 is in every draw;
    - the mean number of times that any other one is drawn is its expected
      count; one that lies across the end of a unit may be drawn twice;
    - with S = N every class is drawn once.

    A draw takes S binary searches. It is a function of the seed and the step.

    Attributes:
      sampler: the law. "log_uniform": class c by log((c + 2) / (c + 1)), for
        classes in the order of falling frequency; "uniform": all alike;
        "counts": by counts ** power.
      num_classes: N.
      num_sampled: S, at most N.
      counts: `[N]`, or None. A class that never occurs counts as half the
        rarest of the others.
      power: a number of at least 0.
    """

    sampler: str
    num_classes: int
    num_sampled: int
    counts: np.ndarray | None
    power: float

    def draw(self, seed, step, near=None):
        """Returns classes `[S]` int64.

        Args:
          seed: an integer.
          step: an integer, or a scalar of one; each has a draw of its own.
          near: a variable. The draw is made on the first CPU of the task that
            has it.
        """
        with tf.device(tree_tensors.cpu_of(near)):
            cumulative, classes = tree_tensors.array_tensors(
                self, ["cumulative", "classes"], near
            )
            places = tf.random.stateless_uniform(
                [self.num_sampled],
                tf.stack([tf.constant(seed, tf.int64), tf.cast(step, "int64")]),
                dtype=tf.float64,
                alg="philox",
            )
            points = tf.range(self.num_sampled, dtype=tf.float64) + places
            ranks = tf.searchsorted(
                cumulative, points, side="right", out_type=tf.int64
            )
            # Rounding may take a point to the end of the last unit.
            return tf.gather(classes, tf.minimum(ranks, self.num_classes - 1))

    def expected(self, classes, near=None):
        """Returns the expected counts of classes, float64, of their shape."""
        with tf.device(tree_tensors.cpu_of(near)):
            (counts,) = tree_tensors.array_tensors(
                self, ["expected_counts"], near
            )
            return tf.gather(counts, classes)

    @functools.cached_property
    def classes(self):
        """`[N]` int64, by falling expected count."""
        return by_frequency(self._law)

    @functools.cached_property
    def expected_counts(self):
        """`[N]` float64, of each class."""
        law, left = self._law[self.classes], np.arange(self.num_sampled, 0, -1)
        rest = np.cumsum(law[::-1])[::-1]  # the sum from each rank on
        # How many have a count of 1: the next one no longer reaches it.
        reached = law[: left.size] * left <= rest[: left.size]
        certain = int(np.argmax(reached))
        expected = np.ones(self.num_classes)
        if self.num_sampled < self.num_classes:
            share = left[certain] / rest[certain]
            expected[self.classes[certain:]] = law[certain:] * share
        return np.minimum(expected, 1)

    @functools.cached_property
    def cumulative(self):
        """`[N]` float64, where the interval of each rank ends."""
        ends = np.cumsum(self.expected_counts[self.classes])
        return np.minimum(ends, self.num_sampled)

    @property
    def _law(self):
        """`[N]`, positive, in proportion to the law."""
        if self.sampler == "uniform":
            return np.ones(self.num_classes)
        if self.sampler == "log_uniform":
            return np.log1p(1 / np.arange(1.0, self.num_classes + 1))
        counts = self.counts / max(self.counts.max(), 1e-300)
        seen = counts[counts > 0]
        rarest = seen.min() if seen.size else 1
        law = np.where(counts > 0, counts, 0.5 * rarest) ** self.power
        return np.maximum(law, np.finfo(float).tiny)
