"""What the ops refuse of pinned trees."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import pinned
from tests.support.pinned import TREE
from tests.support.training import in_place, variables_of
from tests.support.update_rules import built
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import child_tensors, tree_tensors


def test_weights_of_another_tree():
    """Those of the tree before it was pinned, or the other way round."""
    problem = pinned.random_problem(TREE, 3, 4)
    wide = pinned.expanded(problem)
    names = "weights must be made for this tree"
    for given, tree in ((wide, TREE), (problem, TREE.expand())):
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            tf_hsm.hierarchical_softmax_loss(
                given.weights, None, given.labels, given.inputs, tree
            )
        variables = variables_of(given)
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            in_place(variables, given, tree, built("sgd", variables))
        arguments = given.weights, None, given.inputs, tree
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            tf_hsm.hierarchical_softmax_log_probs(*arguments)
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            tf_hsm.hierarchical_softmax_top_k(*arguments, 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match=names):
            tf_hsm.hierarchical_softmax_sample(*arguments, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="biases must"):
        tf_hsm.hierarchical_softmax_loss(
            problem.weights, wide.biases, problem.labels, problem.inputs, TREE
        )


def test_shapes_in_a_graph():
    """They are known, and wrong ones are refused, before anything runs."""
    problem = pinned.random_problem(TREE, 3, 4)

    @tf.function
    def traced(weights):
        of_nodes = tf_hsm.hierarchical_softmax_log_probs(
            weights, None, problem.inputs, TREE, nodes=True
        )
        assert of_nodes.shape == [3, TREE.num_rows]
        assert tf_hsm.hierarchical_softmax_log_probs(
            weights, None, problem.inputs, TREE
        ).shape == [3, TREE.num_classes]
        return tf_hsm.hierarchical_softmax_loss(
            weights, None, problem.labels, problem.inputs, TREE
        )

    traced.get_concrete_function(tf.constant(problem.weights))
    with pytest.raises(ValueError, match="must be equal"):
        traced.get_concrete_function(
            tf.constant(pinned.expanded(problem).weights)
        )


def test_groups_that_are_no_pairs():
    """The raw ops look at the groups on the way."""
    # As many rows as two pairs have, but 3 and 1 of them.
    tree = tf_hsm.Tree.from_nested([[0], 1, 2])
    given = {
        "weights": np.zeros([2, 3], np.float32),
        "biases": [],
        "inputs": np.zeros([1, 3], np.float32),
        "Taccumulator": tf.float32,
        "pinned": True,
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match="pinned tree"):
        raw_ops.tf_hsm_loss(
            labels=np.array([0]),
            smoothing_prior=[],
            **given,
            **tree_tensors(tree)._asdict(),
        )
    down = child_tensors(tree)
    with pytest.raises(tf.errors.InvalidArgumentError, match="pinned tree"):
        raw_ops.tf_hsm_log_probs(
            group_offsets=down.group_offsets,
            row_below=down.row_below,
            root_groups=[],
            root_log_probs=[],
            scales=[],
            **given,
        )


def test_no_label_trees():
    """Their rows have a sigmoid each."""
    w, x = np.zeros([TREE.num_groups, 3], np.float32), np.zeros([2, 3])
    labels = np.zeros([2, 1], np.int64)
    w = tf.Variable(w)
    calls = [
        lambda: tf_hsm.label_tree_loss(w, None, labels, x, TREE),
        lambda: tf_hsm.label_tree_top_k(w, None, x, TREE, 2),
        lambda: tf_hsm.label_tree_log_prob(w, None, labels, x, TREE),
        lambda: tf_hsm.label_tree_train_step(
            w, None, labels, x, TREE, built("sgd", [w])
        ),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"pinned.*tree\.expand\(\)"):
            call()
