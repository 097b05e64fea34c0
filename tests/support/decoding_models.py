"""A recurrent model with a memory, in TensorFlow and in float64 NumPy."""

import functools

import numpy as np
import tensorflow as tf

from tests.support import inference_reference, oracle
from tf_hsm.layers import HierarchicalSoftmax

WIDTH, MEMORY = 5, 3


class Recurrent:
    """A state of two tensors in a nest, and a step that depends on both.

    The last MEMORY hidden vectors are remembered.
    """

    def __init__(self, num_classes, batch=1, seed=0, dtype="float64"):
        rng = np.random.default_rng(seed)
        self.num_classes = num_classes
        self.embedding = rng.normal(size=[num_classes, WIDTH])
        self.matrix = rng.normal(size=[WIDTH, WIDTH])
        self.hidden = rng.normal(size=[batch, WIDTH])
        self.memory = rng.normal(size=[batch, MEMORY, WIDTH])
        self.dtype = dtype

    @property
    def state(self):
        """The first state, `[batch, ...]` each."""
        hidden, memory = (
            tf.constant(x, self.dtype) for x in (self.hidden, self.memory)
        )
        return {"hidden": hidden, "others": [(memory,)]}

    def step(self, classes, state):
        """Returns hidden vectors, and the state after the classes."""
        hidden, ((memory,),) = state["hidden"], state["others"]
        hidden = tf.tanh(
            tf.gather(tf.constant(self.embedding, self.dtype), classes)
            + tf.matmul(hidden, tf.constant(self.matrix, self.dtype))
            + tf.reduce_mean(memory, 1)
        )
        memory = tf.concat([memory[:, 1:], hidden[:, tf.newaxis]], 1)
        return hidden, {"hidden": hidden, "others": [(memory,)]}

    def with_head(self, head, repeats=1):
        """The first three arguments of a decoder; states may be repeated."""
        state = tf.nest.map_structure(
            lambda x: tf.repeat(x, repeats, 0), self.state
        )
        return self.step, state, head

    def hidden_after(self, entry, classes):
        """The hidden vector `[WIDTH]` of an entry after classes, float64."""
        hidden, memory = self.hidden[entry], list(self.memory[entry])
        for c in classes:
            recalled = np.mean(memory[-MEMORY:], 0)
            hidden = np.tanh(
                self.embedding[c] + hidden @ self.matrix + recalled
            )
            memory.append(hidden)
        return hidden


def make_head(tree, seed=0, scale=2.0, kind=HierarchicalSoftmax, **options):
    """A head with random weights."""
    head = kind(tree, **options)
    head.build([None, WIDTH])
    rng = np.random.default_rng(seed)
    for variable in head.weights:
        variable.assign(scale * rng.normal(size=variable.shape))
    return head


def reference_model(recurrent, head, entry=0, start=0):
    """A model of `decoding_reference`: that of an entry of the batch."""
    parameters = [v.numpy().astype(np.float64) for v in head.weights]
    tree = head.tree
    if tree.pinned:
        parameters = [tree.expand_rows(x) for x in parameters]
        tree = tree.expand()

    @functools.cache
    def log_probs(classes):
        hidden = recurrent.hidden_after(entry, (start, *classes))
        problem = oracle.Problem(hidden[np.newaxis], None, *parameters, None)
        nodes, _ = inference_reference.node_log_probs(tree, problem)
        return inference_reference.by_class(tree, nodes)[0]

    return log_probs


def own_model(recurrent, head, entry=0, start=0):
    """The same by the head's own log-probabilities."""

    @functools.cache
    def log_probs(classes):
        hidden = recurrent.hidden_after(entry, (start, *classes))
        hidden = tf.constant(hidden[np.newaxis], recurrent.dtype)
        return np.float64(head.log_probs(hidden)[0])

    return log_probs


def as_pairs(sequences, entry=0):
    """Those of an entry, as `decoding_reference` has them."""
    classes, log_probs, lengths = (x[entry].numpy() for x in sequences)
    for row, length in zip(classes, lengths, strict=True):
        assert (row[:length] >= 0).all() and (row[length:] == -1).all()
    return [
        (tuple(row[:length].tolist()), log_prob)
        for row, log_prob, length in zip(
            classes, log_probs, lengths, strict=True
        )
        if length
    ]


def assert_same(found, wanted, tolerance=1e-12):
    """Asserts that hypotheses are the same, in order."""
    assert [c for c, _ in found] == [c for c, _ in wanted]
    np.testing.assert_allclose(
        [p for _, p in found], [p for _, p in wanted], rtol=tolerance
    )
