"""Each answer of each head is in a graph what it is eagerly, in every type."""

import numpy as np
import pytest
import tensorflow as tf

from tf_hsm import Tree, layers

ALLOWED = np.arange(3, 25, 2)
HEADS = {
    "hierarchical": lambda dtype: layers.HierarchicalSoftmax(
        Tree.two_level(30), dtype=dtype
    ),
    "pinned": lambda dtype: layers.HierarchicalSoftmax(
        Tree.huffman(np.arange(1, 31), branching=2).pin(), dtype=dtype
    ),
    "adaptive": lambda dtype: layers.AdaptiveSoftmax(
        30, cutoffs=[6, 15], div_value=2, dtype=dtype
    ),
    "sampled": lambda dtype: layers.SampledSoftmax(
        30, num_sampled=8, dtype=dtype
    ),
}
ANSWERS = {
    "predict_class": lambda head, x: head.predict_class(x),
    "top_k": lambda head, x: head.top_k(x, 5),
    "top_k_allowed": lambda head, x: head.top_k(x, 5, allowed=ALLOWED),
    "log_probs": lambda head, x: head.log_probs(x),
    "log_prob": lambda head, x: head.log_prob(
        tf.tile(ALLOWED[None], [tf.shape(x)[0], 1]), x
    ),
    "sample": lambda head, x: head.sample(x, 9, seed=1),
    "sample_of_few": lambda head, x: head.sample(x, 9, seed=1, top_k=7),
    "sample_allowed": lambda head, x: head.sample(
        x, 9, seed=1, allowed=ALLOWED
    ),
}


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("name", HEADS)
def test_answers(name, dtype):
    head = HEADS[name](dtype)
    x = tf.constant(np.random.default_rng(0).normal(size=[4, 8]), dtype)
    head(x)
    shape = tf.TensorSpec([None, 8], dtype)
    for ask in ANSWERS.values():
        traced = tf.function(
            lambda x, ask=ask: ask(head, x), input_signature=[shape]
        )
        for found, expected in zip(
            tf.nest.flatten(traced(x)),
            tf.nest.flatten(ask(head, x)),
            strict=True,
        ):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-6)
