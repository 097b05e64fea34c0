"""One trainer: `fit` in this process, with the head on the servers."""

import keras
import tensorflow as tf

import tf_hsm
from examples.language_model.model import Embedding


class Synchronous:
    """Embedding -> LSTM -> hierarchical softmax; only the head is remote.

    Attributes:
        steps: the number of steps that were applied.
    """

    def __init__(self, tree, cluster, units, learning_rate, window):
        """Makes all variables; see `asynchronous.Asynchronous`."""
        tokens = keras.Input(batch_shape=window, dtype="int32", name="tokens")
        labels = keras.Input(batch_shape=window, dtype="int32", name="labels")
        hidden = Embedding(tree.num_classes, units)(tokens)
        hidden = keras.layers.LSTM(units, return_sequences=True)(hidden)
        self.head = tf_hsm.layers.HierarchicalSoftmax(
            tree,
            devices=cluster.devices(),
            optimizer=tf_hsm.optimizers.LazyAdam(learning_rate),
        )
        self.model = keras.Model(
            {"tokens": tokens, "labels": labels}, self.head(hidden, labels)
        )
        self.model.compile(tf_hsm.optimizers.LazyAdam(learning_rate))
        self.model.optimizer.build(self.model.trainable_variables)
        self.steps = self.model.optimizer.iterations.value

    def checkpoint(self):
        """What `tf.train.CheckpointManager` saves: each server its own rows."""
        body = [
            *self.model.trainable_variables,
            *self.model.optimizer.variables,
        ]
        return tf.train.Checkpoint(
            body=tf.train.Checkpoint(
                **{v.path.replace("/", "."): v.value for v in body}
            ),
            head=tf_hsm.distribute.checkpoint(self.head),
        )

    def train(self, tokens, labels):
        """One step for each window `[B, T]`; returns the mean loss in nats."""
        history = self.model.fit(
            _dataset(tokens, labels), shuffle=False, verbose=0
        )
        return history.history["loss"][0]

    def evaluate(self, tokens, labels):
        """Returns the mean loss in nats."""
        return self.model.evaluate(_dataset(tokens, labels), verbose=0)


def _dataset(tokens, labels):
    return tf.data.Dataset.from_tensor_slices(
        ({"tokens": tokens, "labels": labels},)
    )
