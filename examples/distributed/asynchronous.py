"""Many trainers: the body is on the first server, the head on all of them."""

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from examples.language_model.model import Embedding


class Asynchronous:
    """Embedding -> LSTM -> hierarchical softmax, for steps of many trainers.

    A step reads what it needs of the body from the first server: the rows of
    its tokens, and the other weights once. The head's rows stay where they are
    and are updated there, in place. The body's gradients go back to the server
    and are applied there. Steps of several trainers do not wait for each other:
    the gradient of a step comes from weights to which others have been applied
    since, as many as there are other trainers, about.

    Attributes:
        steps: the number of steps that were applied, on the first server.
    """

    def __init__(self, tree, cluster, units, learning_rate, window):
        """Makes all variables.

        Args:
            tree: the `tf_hsm.Tree` of the classes.
            cluster: a `tf_hsm.distribute.Cluster` with a coordinator.
            units: width of the embedding and of the LSTM.
            learning_rate: that of LazyAdam, of body and head.
            window: the shape `(batch, steps)` of the tokens of a step.
        """
        self._window = window
        self._cluster = cluster
        devices = cluster.devices()
        with tf.device(devices[0]):
            self.embedding = Embedding(tree.num_classes, units)
            self.embedding.build(window)
            vectors = keras.Input(batch_shape=(*window, units))
            self.recurrent = keras.Model(
                vectors,
                keras.layers.LSTM(units, return_sequences=True)(vectors),
            )
            self.head = tf_hsm.layers.HierarchicalSoftmax(
                tree,
                devices=devices,
                optimizer=tf_hsm.optimizers.LazyAdam(learning_rate),
            )
            self.head.build((*window, units))
            self.optimizer = tf_hsm.optimizers.LazyAdam(learning_rate)
            self.optimizer.build(self._variables)
            self.steps = tf.Variable(0, dtype=tf.int64)
        self._step_function, self._loss_function = self._functions()

    @property
    def _variables(self):
        """Those of the body."""
        return [
            *self.embedding.trainable_variables,
            *self.recurrent.trainable_variables,
        ]

    def checkpoint(self):
        """What `tf.train.CheckpointManager` saves: each server its own rows."""
        body = {
            variable.path: variable.value
            for variable in [*self._variables, *self.optimizer.variables]
        }
        return tf.train.Checkpoint(
            body=tf.train.Checkpoint(
                **{path.replace("/", "."): v for path, v in body.items()}
            ),
            head=tf_hsm.distribute.checkpoint(self.head),
            steps=self.steps,
        )

    def train(self, tokens, labels):
        """One step for each window `[B, T]`; returns the mean loss in nats.

        A window whose trainer is lost is given to another, perhaps after its
        step was applied: each step is applied once at least, not exactly once.
        """
        return self._run(self._step_function, tokens, labels)

    def evaluate(self, tokens, labels):
        """Returns the mean loss in nats."""
        return self._run(self._loss_function, tokens, labels)

    def _run(self, function, tokens, labels):
        losses = [
            self._cluster.coordinator.schedule(
                function, args=(tf.constant(x), tf.constant(y))
            )
            for x, y in zip(tokens, labels, strict=True)
        ]
        self._cluster.join()
        return float(np.mean([loss.fetch() for loss in losses]))

    def _functions(self):
        """Returns the step and the evaluation, of tokens and labels `[B, T]`.

        They are traced here, outside of the strategy of the coordinator, in
        which optimizers do not work, nor heads that step in place.
        """
        batch = [tf.TensorSpec(self._window, tf.int32)] * 2
        return (
            tf.function(self._step).get_concrete_function(*batch),
            tf.function(self._loss).get_concrete_function(*batch),
        )

    def _step(self, tokens, labels):
        weights = self._read_weights()
        with tf.GradientTape() as tape:
            tape.watch(weights)
            hidden = self._hidden(tokens, weights)
            loss = tf.reduce_mean(self.head.label_losses(labels, hidden))
        table = self.embedding.table
        gradients = tape.gradient(loss, [table.value, *weights])
        self.optimizer.apply(gradients, self._variables)
        with tf.control_dependencies([loss]):
            self.steps.assign_add(1)
        return loss

    def _loss(self, tokens, labels):
        hidden = self._hidden(tokens, self._read_weights())
        return tf.reduce_mean(self.head.label_losses(labels, hidden))

    def _read_weights(self):
        """Those of the LSTM, which would fetch them anew for each token."""
        return [tf.identity(v) for v in self.recurrent.trainable_variables]

    def _hidden(self, tokens, weights):
        states = [v.value for v in self.recurrent.non_trainable_variables]
        hidden, _ = self.recurrent.stateless_call(
            weights, states, self.embedding(tokens)
        )
        return hidden
