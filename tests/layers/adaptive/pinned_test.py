"""Pinned trees as tails of an AdaptiveSoftmax."""

import keras
import numpy as np
import pytest

from tests.support.pinned_heads import COUNTS, WIDTH, data
from tf_hsm import Tree
from tf_hsm.layers import AdaptiveSoftmax


@pytest.mark.parametrize("optimizer", [None, "sgd"])
def test_tails_of_an_adaptive_softmax(optimizer, tmp_path):
    tail = Tree.huffman(COUNTS[10:], pinned=True)
    heads = [
        AdaptiveSoftmax(
            len(COUNTS),
            cutoffs=[10],
            div_value=2.0,
            counts=COUNTS,
            tail=[tree],
            optimizer=optimizer,
            name="head",
        )
        for tree in (tail, tail.expand())
    ]
    x, labels = data((12,))
    for head in heads:
        head.build([None, WIDTH])
    head, other = heads
    assert head.tail_kernels[0].shape == (tail.num_groups, 3)
    other.tail_kernels[0].assign(tail.expand_rows(head.tail_kernels[0].numpy()))
    other.tail_biases[0].assign(tail.expand_rows(head.tail_biases[0].numpy()))
    other.head_kernel.assign(head.head_kernel)
    other.projections[0].assign(head.projections[0])
    np.testing.assert_allclose(head(x, labels), other(x, labels), rtol=1e-5)
    np.testing.assert_allclose(
        np.exp(head.log_probs(x)), np.exp(other.log_probs(x)), rtol=1e-4
    )
    np.testing.assert_array_equal(
        head.top_k(x, 20).classes, other.top_k(x, 20).classes
    )
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile("sgd", head.loss)
    history = model.fit(x, labels, epochs=4, verbose=0).history["loss"]
    assert history[-1] < history[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].clusters.tail_trees[0] == tail
    np.testing.assert_array_equal(
        loaded.layers[-1].tail_kernels[0], head.tail_kernels[0]
    )


def test_an_adaptive_softmax_that_embeds():
    tail = Tree.huffman(COUNTS[10:], pinned=True)
    with pytest.raises(ValueError, match=r"tail 0 is pinned.*expand\(\)"):
        AdaptiveSoftmax(len(COUNTS), cutoffs=[10], tail=[tail], width=8)
