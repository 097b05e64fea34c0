"""The two tables of word2vec, and the steps that train them in place.

Mikolov et al., 2013: Efficient Estimation of Word Representations in Vector
Space; Distributed Representations of Words and Phrases and their
Compositionality.
"""

import functools

import tensorflow as tf

import tf_hsm

_DEVICE = "CPU"  # The op of a skip-gram step runs on no other.
_ACCUMULATOR = 0.1  # Each pair is a step of its own: gradients are large.
_OPTIMIZERS = {
    "sgd": tf_hsm.optimizers.SGD,
    "adagrad": functools.partial(
        tf_hsm.optimizers.Adagrad, initial_accumulator_value=_ACCUMULATOR
    ),
    "rowwise_adagrad": functools.partial(
        tf_hsm.optimizers.RowwiseAdagrad,
        initial_accumulator_value=_ACCUMULATOR,
    ),
}


class Model:
    """Vectors of words that predict words by a hierarchical softmax.

    Each example is a step of its own size, as in word2vec. The examples of a
    batch see the same tables, and their steps are added up.

    Attributes:
        tree: the Huffman tree of the words; a binary one is pinned.
        vectors: a variable `[N, width]`, the result.
        weights: a variable `[rows, width]`, the tree's rows.
    """

    def __init__(self, counts, settings):
        """Makes the tables as word2vec.c does: small random vectors, zeros.

        Args:
            counts: `[N]`, how often each word occurs.
            settings: a `settings.Settings`.
        """
        width = settings.width
        self.tree = tf_hsm.Tree.huffman(
            counts, branching=settings.branching, pinned=settings.branching == 2
        )
        self._optimizer = _OPTIMIZERS[settings.optimizer](
            settings.learning_rate
        )
        with tf.device(_DEVICE):
            self.weights = tf.Variable(
                tf.zeros([self.tree.num_weight_rows, width])
            )
            self.vectors = tf.Variable(
                tf.random.stateless_uniform(
                    [len(counts), width],
                    [settings.seed, 0],
                    -0.5 / width,
                    0.5 / width,
                )
            )
            self._optimizer.build([self.weights, self.vectors])
        self._batch_size = settings.batch_size
        # Examples of skip-gram have two arrays; examples of CBOW have three.
        array = tf.TensorSpec([None], tf.int32)
        num_arrays = 2 + (settings.architecture == "cbow")
        # One graph for slices of any size, and one call for all its batches.
        self._steps = tf.function(
            self._all_steps, input_signature=[array] * num_arrays
        )

    def train(self, examples, learning_rate):
        """Trains on the `examples` of a `windows.Slice`, batch after batch.

        Returns:
            The sum of their losses, in nats, each before its own step.
        """
        self._optimizer.learning_rate = learning_rate
        with tf.device(_DEVICE):
            return float(self._steps(*examples))

    def _all_steps(self, contexts, *others):
        """Trains on single words, or on the means of windows."""
        *splits, labels = others
        total = tf.constant(0.0, tf.float64)
        for begin in tf.range(0, tf.size(labels), self._batch_size):
            end = begin + self._batch_size
            if splits:
                bounds = tf.cast(splits[0][begin : end + 1], tf.int64)
                inputs = tf.RaggedTensor.from_row_splits(
                    contexts[bounds[0] : bounds[-1]],
                    bounds - bounds[0],
                    validate=False,
                )
            else:
                inputs = contexts[begin:end]
            total += self._step(inputs, labels[begin:end])
        return total

    def _step(self, inputs, labels):
        """The sum of the losses of one batch, which it trains on."""
        losses = tf_hsm.hierarchical_softmax_embedding_train_step(
            self.weights,
            None,
            labels,
            self.vectors,
            inputs,
            self.tree,
            self._optimizer,
            loss_weights=1.0,
        )
        return tf.reduce_sum(tf.cast(losses, tf.float64))
