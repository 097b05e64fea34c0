"""What a trained adaptive softmax answers."""

import tensorflow as tf

from tf_hsm import _arguments
from tf_hsm.log_probs import (
    hierarchical_softmax_log_prob,
    hierarchical_softmax_log_probs,
)
from tf_hsm.sample import hierarchical_softmax_sample, seed_pair
from tf_hsm.top_k import TopK, hierarchical_softmax_top_k


class AdaptivePredictions:
    """Methods of `AdaptiveSoftmax`, which take inputs `[..., width]`.

    Only the examples that need a tail are scored by it.
    """

    def log_probs(self, inputs):
        """Log-probabilities `[..., num_classes]` of all classes, in nats.

        They have gradients, and cost as much as a flat softmax, but for the
        narrower tails.
        """
        self._check_built()
        head = hierarchical_softmax_log_probs(*self._head(inputs))
        size = self.clusters.head_size
        parts = [head[..., :size]]
        for number in range(len(self.cutoffs)):
            row = size + number
            parts.append(
                head[..., row : row + 1]
                + hierarchical_softmax_log_probs(*self._tail(number, inputs))
            )
        by_rank = tf.concat(parts, -1)
        ranks = self.clusters.all_ranks()
        return by_rank if ranks is None else tf.gather(by_rank, ranks, axis=-1)

    def log_prob(self, classes, inputs):
        """Log-probabilities of given classes `[..., C]`, in nats.

        Raises:
          tf.errors.InvalidArgumentError: a class is not in [0, num_classes).
        """
        self._check_built()
        classes = _arguments.integers(classes, "classes")
        inputs = tf.convert_to_tensor(inputs)
        shape = tf.shape(classes)
        flat = tf.reshape(classes, [-1, shape[-1]])
        inputs = tf.reshape(inputs, [-1, inputs.shape[-1]])
        ranks = self.clusters.ranks(flat, "classes")
        tails = self.clusters.tails(ranks)
        weights, biases, _, tree = self._head(inputs)
        log_probs = hierarchical_softmax_log_prob(
            weights,
            biases,
            self.clusters.head_rows(ranks, tails),
            inputs,
            tree,
        )
        for number, cutoff in enumerate(self.cutoffs):
            members, is_member = _members(tf.equal(tails, number))
            weights, biases, narrow, tree = self._tail(
                number, tf.gather_nd(inputs, members)
            )
            within = tf.gather_nd(ranks, members) - cutoff
            found = hierarchical_softmax_log_prob(
                weights, biases, tf.where(is_member, within, 0), narrow, tree
            )
            log_probs = tf.tensor_scatter_nd_add(
                log_probs, members, tf.where(is_member, found, 0)
            )
        return tf.reshape(log_probs, shape)

    def top_k(self, inputs, k):
        """Finds the k most probable classes, exactly.

        A tail is searched for those inputs only for which it could hold one of
        them: all of its classes together are as probable as its row in the
        head.

        Args:
          inputs: `[..., width]`.
          k: an integer in `[1, num_classes]`.

        Returns:
          A named tuple `(log_probs, classes)`, each `[..., k]`, in order of
          falling probability, equal ones in that of falling frequency. NaN
          counts as a probability of zero.

        Raises:
          ValueError: k is out of range.
        """
        self._check_built()
        if not 1 <= k <= self.num_classes:
            raise ValueError(f"k = {k} is not in [1, {self.num_classes}]")
        inputs = tf.convert_to_tensor(inputs)
        shape = tf.shape(inputs)[:-1]
        inputs = tf.reshape(inputs, [-1, inputs.shape[-1]])
        head = hierarchical_softmax_log_probs(*self._head(inputs))
        head = tf.where(tf.math.is_nan(head), -float("inf"), head)
        size = self.clusters.head_size
        best = tf.math.top_k(head[:, :size], min(k, size))
        fill = [[0, 0], [0, k - min(k, size)]]
        values = tf.pad(best.values, fill, constant_values=-float("inf"))
        ranks = tf.pad(tf.cast(best.indices, tf.int64), fill)
        for number, cutoff in enumerate(self.cutoffs):
            in_tail = head[:, size + number]
            members = tf.where(in_tail > values[:, -1])
            narrow = self._tail(number, tf.gather_nd(inputs, members))
            found = hierarchical_softmax_top_k(
                *narrow, min(k, narrow[-1].num_classes)
            )
            above = tf.gather_nd(in_tail, members)[:, tf.newaxis]
            all_values = tf.concat(
                [tf.gather_nd(values, members), above + found.log_probs], 1
            )
            all_ranks = tf.concat(
                [tf.gather_nd(ranks, members), cutoff + found.classes], 1
            )
            # Of equal values the first, which is of the smaller rank.
            best = tf.math.top_k(all_values, k)
            values = tf.tensor_scatter_nd_update(values, members, best.values)
            ranks = tf.tensor_scatter_nd_update(
                ranks,
                members,
                tf.gather(all_ranks, best.indices, batch_dims=1),
            )
        shape = tf.concat([shape, [k]], 0)
        return TopK(
            tf.reshape(values, shape),
            tf.reshape(self.clusters.classes(ranks), shape),
        )

    def sample(self, inputs, num_samples, seed=None, temperature=1.0):
        """Draws classes `[..., num_samples]` by their probabilities.

        A draw in the head, and if it is a tail's row, one in that tail.

        Args:
          inputs: `[..., width]`.
          num_samples: draws per input.
          seed: see `tf_hsm.hierarchical_softmax_sample`.
          temperature: a positive number, which divides the logits of the head
            and those of the tails.

        Returns:
          Classes, int64; -1 where the probabilities are NaN.
        """
        self._check_built()
        inputs = tf.convert_to_tensor(inputs)
        shape = tf.shape(inputs)[:-1]
        inputs = tf.reshape(inputs, [-1, inputs.shape[-1]])
        seed = seed_pair(seed)
        size = self.clusters.head_size
        rows = hierarchical_softmax_sample(
            *self._head(inputs), num_samples, seed, temperature
        )
        ranks = rows
        for number, cutoff in enumerate(self.cutoffs):
            members, is_member = _members(tf.equal(rows, size + number))
            drawn = hierarchical_softmax_sample(
                *self._tail(number, tf.gather_nd(inputs, members)),
                num_samples,
                tf.random.fold_in(seed, number + 1),
                temperature,
            )
            # NaN in a tail alone.
            drawn = tf.where(drawn < 0, drawn, cutoff + drawn)
            ranks = tf.tensor_scatter_nd_update(
                ranks,
                members,
                tf.where(is_member, drawn, tf.gather_nd(ranks, members)),
            )
        shape = tf.concat([shape, tf.shape(ranks)[-1:]], 0)
        return tf.reshape(self.clusters.classes(ranks), shape)

    def predict_class(self, inputs):
        """The most probable class of each input, `[...]` int64."""
        return self.top_k(inputs, 1).classes[..., 0]

    def _head(self, inputs):
        return (
            self.head_kernel,
            self.head_bias,
            inputs,
            self.clusters.head_tree,
        )

    def _tail(self, number, inputs):
        return (
            self.tail_kernels[number],
            self.tail_biases[number],
            self.project(number, inputs),
            self.clusters.tail_trees[number],
        )

    def _check_built(self):
        if not self.built:
            raise ValueError(
                f"{self.name} has no weights yet: call it, or a model with it, "
                "on inputs first"
            )


def _members(is_member):
    """The rows `[M, 1]` of `is_member` `[B, C]` with any, and these rows."""
    members = tf.where(tf.reduce_any(is_member, -1))
    return members, tf.gather_nd(is_member, members)
