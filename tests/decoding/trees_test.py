"""Beam search over trees of each shape, with ties and beams wider than a tree.

Candidates come from searches with a bound for each hypothesis, which open
groups in another order, and fewer of them, than searches without.
"""

import pytest
import tensorflow as tf

from tests.support import decoding_reference as reference
from tests.support.decoding_models import (
    Recurrent,
    as_pairs,
    assert_same,
    make_head,
    own_model,
)
from tests.support.pairs import all_pairs
from tf_hsm import Tree
from tf_hsm.decoding import beam_search

N = 43
TREES = {
    "flat": lambda: Tree.balanced(N, N),
    "two_level": lambda: Tree.two_level(N),
    "balanced": lambda: Tree.balanced(N, 4),
    "binary": lambda: Tree.balanced(N, 2),
    "pinned": lambda: Tree.balanced(N, 2, pinned=True),
    "pinned_huffman": lambda: Tree.huffman(range(1, N + 1), pinned=True),
}


# Logits that are drawn, and ties.
@pytest.mark.parametrize(
    "name, width, scale", all_pairs(list(TREES), [1, 6, N + 7], [2.0, 0.0])
)
def test_is_the_beam_search_of_the_definition(name, width, scale):
    """With more classes than a beam has places, and with fewer."""
    recurrent = Recurrent(N, batch=2, seed=width)
    head = make_head(TREES[name](), scale=scale, dtype="float64")
    options = {"end": 5, "length_penalty": 0.7, "exclude": [0, 9]}
    found = beam_search(
        recurrent.step,
        recurrent.state,
        head,
        beam_width=width,
        length=3,
        **options,
    )
    for entry in range(2):
        model = own_model(recurrent, head, entry)
        wanted = reference.beam_search(model, width, 3, **options)
        assert_same(as_pairs(found, entry), wanted)


@pytest.mark.parametrize("name", TREES)
def test_is_exhaustive_search_where_nothing_is_left_out(name):
    recurrent = Recurrent(N, batch=1)
    head = make_head(TREES[name](), dtype="float64")
    width = N * N + 1
    found = beam_search(
        recurrent.step, recurrent.state, head, beam_width=width, length=2, end=3
    )
    wanted = reference.exhaustive_search(own_model(recurrent, head), 2, end=3)
    assert_same(as_pairs(found), wanted)
    assert len(wanted) == 1 + (N - 1) * N
    total = tf.reduce_sum(tf.exp(found.log_probs))
    assert float(total) == pytest.approx(1)
