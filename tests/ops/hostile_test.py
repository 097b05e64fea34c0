"""Malformed arguments of the loss op that random ones do not meet.

`tests/fuzz` has the random ones.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import tree_tensors

ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)


def valid_arguments(rng):
    """A right set of arguments of a random small problem, as NumPy arrays."""
    tree = [
        tf_hsm.Tree.two_level(30),
        tf_hsm.Tree.balanced(12, 2),
        tf_hsm.Tree.huffman([9, 5, 1, 1, 7, 2]),
        tf_hsm.Tree.two_level(1),
    ][rng.integers(4)]
    batch, width = rng.integers(0, 6), rng.integers(0, 20)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    arguments = {
        "weights": normal(tree.num_rows, width),
        "biases": normal(tree.num_rows),
        "labels": rng.integers(0, tree.num_classes, size=batch),
        "inputs": normal(batch, width),
        **{k: v.numpy() for k, v in tree_tensors(tree)._asdict().items()},
    }
    return arguments


def test_a_handle_of_something_else():
    """A handle that is no variable's, or of one of another type."""
    arguments = valid_arguments(np.random.default_rng(0))
    arguments.pop("weights")
    biases = arguments.pop("biases")
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    double = tf.Variable(np.zeros((3, 2)))
    for handle in (table.resource_handle, double.handle):
        with pytest.raises(ERRORS, match="weights"):
            raw_ops.resource_tf_hsm_loss(
                weights=handle,
                biases=[biases],
                smoothing_prior=[],
                T=tf.float32,
                Taccumulator=tf.float32,
                **arguments,
            )


def test_a_width_beyond_all_memory():
    """No rows of any width take no memory, and no product may overflow."""
    arguments = valid_arguments(np.random.default_rng(0))
    for name in arguments:
        arguments[name] = arguments[name][:0]
    arguments["group_offsets"] = np.zeros(1, np.int64)
    arguments["weights"] = tf.zeros([0, 2**63 - 1])
    arguments["inputs"] = tf.zeros([0, 2**63 - 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="weights"):
        raw_ops.tf_hsm_loss(
            biases=[arguments.pop("biases")],
            smoothing_prior=[],
            Taccumulator=tf.float32,
            **arguments,
        )
