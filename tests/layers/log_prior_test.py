"""Biases that begin as the classes are frequent."""

import numpy as np
import pytest
import tensorflow as tf

from tf_hsm import LabelCounts, Tree, hierarchical_softmax_log_probs
from tf_hsm.layers import (
    AdaptiveSoftmax,
    EmbeddingSoftmax,
    HierarchicalSoftmax,
    LabelTree,
    SampledSoftmax,
)

COUNTS = np.array([3, 50, 1, 7, 7, 20, 2, 900, 4, 6])
TREES = {
    "flat": Tree.balanced(10, [10]),
    "two_level": Tree.two_level(10),
    "binary": Tree.balanced(10, 2),
    "huffman": Tree.huffman(COUNTS, branching=3),
    "uneven": Tree.from_nested([0, [1, [2, 3, 4], [5, [6, 7]]], [8, 9]]),
}


@pytest.mark.parametrize("name", TREES)
def test_biases_alone_give_the_frequencies(name):
    tree = TREES[name]
    prior = tree.log_prior(COUNTS)
    log_probs = hierarchical_softmax_log_probs(
        np.zeros([tree.num_rows, 1]), prior, np.zeros([1, 1]), tree
    )
    np.testing.assert_allclose(
        np.exp(log_probs[0]), COUNTS / COUNTS.sum(), rtol=1e-13
    )
    # Each group is a distribution of its own.
    groups = np.bincount(tree.row_groups, np.exp(prior))
    np.testing.assert_allclose(groups, 1, rtol=1e-13)


def test_what_never_occurs_is_half_as_frequent_as_the_rarest():
    tree = Tree.two_level(4)
    prior = tree.log_prior([0, 8, 0, 2])
    expected = tree.log_prior([1, 8, 1, 2])
    np.testing.assert_allclose(prior, expected, rtol=1e-14)
    np.testing.assert_allclose(np.exp(tree.log_prior([0] * 4)), 0.5)
    with pytest.raises(ValueError, match="of class 1 is -1"):
        tree.log_prior([1, -1, 1, 1])


HEADS = {
    "uneven": lambda **options: HierarchicalSoftmax(TREES["uneven"], **options),
    "pinned": lambda **options: HierarchicalSoftmax(
        TREES["binary"].pin(), **options
    ),
    "embedding": lambda **options: EmbeddingSoftmax(
        TREES["uneven"], num_embeddings=4, width=4, **options
    ),
    **{
        f"{tail} tails": lambda tail=tail, **options: AdaptiveSoftmax(
            10, cutoffs=[2, 5], div_value=2, tail=tail, **options
        )
        for tail in ("flat", "two_level", 2)
    },
    "sampled": lambda **options: SampledSoftmax(10, num_sampled=3, **options),
}


@pytest.mark.parametrize(
    "name, dtype, in_function",
    [
        *((name, "float32", False) for name in HEADS),
        ("uneven", "float32", True),
        ("uneven", "bfloat16", False),
    ],
)
def test_a_layer_begins_with_its_counts(name, dtype, in_function):
    """A copy by its config has zeros, as another initializer may be wanted."""
    head = HEADS[name](counts=COUNTS, dtype=dtype)
    hidden = tf.zeros([1, 4], dtype)
    (tf.function(head) if in_function else head)(hidden)
    log_probs = head.log_probs(hidden)
    np.testing.assert_allclose(
        np.exp(log_probs[0]),
        COUNTS / COUNTS.sum(),
        rtol=1e-5 if dtype == "float32" else 3e-2,
    )
    copy = type(head).from_config(head.get_config())
    copy.build([None, 4])
    biases = [v for v in copy.weights if "bias" in v.path]
    assert biases and not any(np.any(v.numpy()) for v in biases)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_label_tree_begins_with_its_counts(dtype):
    """label_counts_test.py has the log-odds."""
    tree = TREES["uneven"]
    labels = np.random.default_rng(0).integers(-20, 10, size=[60, 4])
    counts = LabelCounts.of(tree, labels)
    head = LabelTree(tree, counts=counts, dtype=dtype)
    copy = LabelTree.from_config(head.get_config())
    for layer, expected in ((head, counts.log_odds()), (copy, 0)):
        layer.build([None, 4])
        bias = tf.cast(layer.bias.value, "float64")
        np.testing.assert_allclose(
            bias, expected, rtol=1e-6 if dtype == "float32" else 1e-2
        )
