"""Our loss in a skip-gram model, in a process of its own."""

import time

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import machine
from benchmarks.peers import ours

# Steps in one turn.
_STEPS = 20


class Implementation:
    """Steps of plain SGD over the pairs of neighbours of a corpus.

    The spec has "width", "batch", "learning_rate", "words", the path of an
    array of class ids `[lines, words]`, and "pinned", whether the tree is. A
    step updates the input vectors of the neighbours and the rows on the paths,
    by `tf_hsm.hierarchical_softmax_embedding_train_step`.
    """

    def __init__(self, spec):
        """Makes the Huffman tree of the corpus, the variables and the step."""
        machine.use_threads(spec["threads"])
        words = np.load(spec["words"])
        self._tree = tf_hsm.Tree.huffman(np.bincount(words.ravel()))
        if spec["pinned"]:
            self._tree = self._tree.pin()
        self._batches = batches(words, spec["batch"])
        width = spec["width"]
        # Like word2vec: no bias, zeros above, small random vectors below.
        self._weights = tf.Variable(
            tf.zeros([self._tree.num_weight_rows, width])
        )
        shape = [self._tree.num_classes, width]
        self._vectors = tf.Variable(
            tf.random.uniform(shape, -0.5 / width, 0.5 / width, seed=1)
        )
        trained = [self._weights, self._vectors]
        self._optimizer = tf_hsm.optimizers.SGD(spec["learning_rate"])
        self._optimizer.build(trained)
        # As Keras' steps_per_execution: what Python does for a call of its own
        # is paid once for all steps of a turn.
        self._steps = tf.function(self._last_loss)
        self.facts = ours.facts(trained)

    def run(self, phase, turn):
        """Times some steps, each turn on other pairs.

        Raises:
          RuntimeError: the loss of the last one is not finite.
        """
        del phase  # There is one.
        numbers = np.arange(turn * _STEPS, (turn + 1) * _STEPS)
        batches = tf.constant(self._batches[numbers % len(self._batches)])
        start = time.perf_counter()
        # All results are there once the loss is.
        loss = self._steps(batches).numpy()
        seconds = time.perf_counter() - start
        if not np.isfinite(loss):
            raise RuntimeError(f"the training diverged: its loss is {loss}")
        return {
            "seconds": seconds,
            "pairs": batches.shape[0] * batches.shape[2],
        }

    def _last_loss(self, batches):
        losses = [self._step(batches[number]) for number in range(_STEPS)]
        # Else nobody would ask for what the steps before it make.
        with tf.control_dependencies(losses):
            return tf.identity(losses[-1])

    def _step(self, batch):
        neighbours, labels = tf.unstack(batch)
        # Summed: every pair is a step of its own in word2vec.
        return tf.reduce_sum(
            tf_hsm.hierarchical_softmax_embedding_train_step(
                self._weights,
                None,
                labels,
                self._vectors,
                neighbours,
                self._tree,
                self._optimizer,
                loss_weights=1.0,
            )
        )


def batches(words, batch):
    """Returns `[batches, 2, batch]`: neighbours and labels, window 1."""
    left, right = words[:, :-1].ravel(), words[:, 1:].ravel()
    pairs = np.stack([left, right, right, left], 1).reshape(-1, 2)
    count = len(pairs) // batch
    return (
        pairs[: count * batch].reshape(count, batch, 2).transpose(0, 2, 1)
    ).copy()
