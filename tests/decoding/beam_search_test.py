"""Beam search against one in plain Python."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import decoding_reference as reference
from tests.support import trees
from tests.support.decoding_models import (
    Recurrent,
    as_pairs,
    assert_same,
    make_head,
    own_model,
    reference_model,
)
from tests.support.pairs import all_pairs
from tf_hsm import Tree
from tf_hsm.decoding import beam_search
from tf_hsm.layers import AdaptiveSoftmax

N = 43
TREES = {
    "few classes": lambda: Tree.huffman([5, 1, 1, 2, 3]),
    "chain": lambda: trees.chain(N - 1),
    "flat": lambda: Tree.balanced(N, N),
    "two_level": lambda: Tree.two_level(N),
    "balanced": lambda: Tree.balanced(N, 4),
    "binary": lambda: Tree.balanced(N, 2),
    "pinned": lambda: Tree.balanced(N, 2, pinned=True),
    "pinned_huffman": lambda: Tree.huffman(range(1, N + 1), pinned=True),
    "ternary": lambda: Tree.huffman(1 + np.arange(N) ** 2, branching=3),
}
OPTIONS = [
    {},
    {"end": 2},
    {"end": 2, "length_penalty": 0.8},
    {"end": 0, "min_length": 3, "length_penalty": 2.0},
    {"end": 4, "min_length": 2, "exclude": [1, 3]},
    {"exclude": (0,), "length_penalty": 1.0},
    {"end": [2, 0], "length_penalty": 0.8},
    {"end": (4, 0), "min_length": 2, "exclude": [1, 4]},
]


@functools.cache
def searched(tree, seed, scale):
    """A step with its state and head, and the models of all entries.

    They keep what they have said, for all options.
    """
    recurrent = Recurrent(tree.num_classes, batch=3, seed=seed)
    head = make_head(tree, scale=scale, dtype="float64")
    models = [reference_model(recurrent, head, entry) for entry in range(3)]
    return recurrent.with_head(head), models


# Logits that are drawn, and ties; beams wider than a tree, and narrower.
@pytest.mark.parametrize(
    "name, width, scale, options",
    [
        *all_pairs(list(TREES), [1, 3, 7, N + 7], [2.0, 0.0], OPTIONS),
        *(("few classes", 130, 2.0, options) for options in OPTIONS),
    ],
)
def test_is_the_beam_search_of_the_definition(name, width, scale, options):
    """A beam of 130 has all sequences of the few classes.

    Candidates come from searches with a bound for each hypothesis, which open
    groups in another order, and fewer of them, than searches without.
    """
    length = 3 if width > N else 6
    tree = TREES[name]()
    model, references = searched(tree, width, scale)
    found = beam_search(*model, beam_width=width, length=length, **options)
    for entry, one in enumerate(references):
        wanted = reference.beam_search(one, width, length, **options)
        assert_same(as_pairs(found, entry), wanted)


@pytest.mark.parametrize(
    "tree, options",
    [
        (Tree.two_level(30), {"dtype": "float32"}),
        (Tree.two_level(30), {"dtype": "bfloat16"}),
        (Tree.two_level(30), {"dtype": "float16"}),
        (Tree.two_level(30), {"devices": ["CPU:0"] * 2}),
        (30, {"kind": AdaptiveSoftmax, "cutoffs": [4, 15], "div_value": 2}),
    ],
)
def test_heads_of_every_kind(tree, options):
    """By the log-probabilities of the head itself, which may be rounded."""
    recurrent = Recurrent(30, batch=2, dtype="float32")
    head = make_head(tree, **options)
    options = {"end": 7, "length_penalty": 0.6}
    found = beam_search(
        *recurrent.with_head(head), beam_width=4, length=5, **options
    )
    assert found.log_probs.dtype == tf.float32
    for entry in range(2):
        model = own_model(recurrent, head, entry)
        wanted = reference.beam_search(model, 4, 5, **options)
        assert_same(as_pairs(found, entry), wanted, 1e-5)


def test_the_state_may_be_nothing():
    """A model of the last class alone, and a batch that `start` makes."""
    head = make_head(Tree.two_level(9))
    table = tf.constant(np.random.default_rng(0).normal(size=[9, 5]), "float32")

    def step(classes, state):
        assert state == ()
        return tf.gather(table, classes), ()

    def model(start, classes):
        hidden = table[(start, *classes)[-1], tf.newaxis]
        return np.float64(head.log_probs(hidden)[0])

    found = beam_search(step, (), head, beam_width=3, length=4, start=[8, 0, 5])
    for entry, start in enumerate([8, 0, 5]):
        wanted = reference.beam_search(lambda c, s=start: model(s, c), 3, 4)
        assert_same(as_pairs(found, entry), wanted, 1e-5)
    alone = beam_search(step, (), head, beam_width=3, length=4, start=8)
    assert as_pairs(alone) == as_pairs(found)


@pytest.mark.parametrize("batch", [None, 2])
def test_in_a_function(batch):
    """The same as eagerly, to the bit, for any batch; and only once traced."""
    recurrent = Recurrent(30, batch=2, dtype="float32")
    head = make_head(Tree.two_level(30))
    spec = tf.nest.map_structure(
        lambda x: tf.TensorSpec([batch, *x.shape[1:]], x.dtype),
        recurrent.state,
    )
    options = {"end": 3, "length_penalty": 0.7, "exclude": [5]}

    @tf.function(input_signature=[spec, tf.TensorSpec([batch], tf.int64)])
    def search(state, start):
        return beam_search(
            recurrent.step,
            state,
            head,
            beam_width=4,
            length=6,
            start=start,
            **options,
        )

    starts = tf.constant([1, 9], tf.int64)
    found = search(recurrent.state, starts)
    traced = search.get_concrete_function().structured_outputs
    assert traced.classes.shape.as_list() == [batch, 4, 6]
    assert traced.log_probs.shape.as_list() == [batch, 4]
    wanted = beam_search(
        *recurrent.with_head(head),
        beam_width=4,
        length=6,
        start=starts,
        **options,
    )
    for mine, its in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_a_batch_of_no_entries():
    recurrent, head = Recurrent(30), make_head(Tree.two_level(30))
    none = beam_search(
        *recurrent.with_head(head, 0), beam_width=3, length=5, end=1
    )
    assert none.classes.shape == (0, 3, 5)


def test_it_stops_when_all_have_ended():
    """No step is made for nothing, eagerly and in a graph."""
    head = make_head(Tree.balanced(4, 4), scale=0.0)
    head.bias.assign([0.0, 0.0, 0.0, 9.0])
    calls = tf.Variable(0)

    def step(classes, state):
        calls.assign_add(1)
        return tf.zeros([tf.size(classes), 5]), state

    def search():
        return beam_search(step, (), head, beam_width=2, length=50, end=3)

    for function in (search, tf.function(search)):
        calls.assign(0)
        found = function()
        assert (found.lengths.numpy() <= 4).all()
        assert calls < 10


def test_what_is_impossible_or_nan_is_no_candidate():
    """Fewer hypotheses than the width; none where all is NaN."""
    recurrent = Recurrent(6, batch=2)
    head = make_head(Tree.balanced(6, 6), dtype="float64")
    bias = head.bias.numpy()
    bias[[1, 2, 4]] = -np.inf
    head.bias.assign(bias)
    found = beam_search(*recurrent.with_head(head), beam_width=20, length=2)
    for entry in range(2):
        pairs = as_pairs(found, entry)
        assert {c for classes, _ in pairs for c in classes} == {0, 3, 5}
        assert len(pairs) == 9
    recurrent.hidden[1] = np.nan
    found = beam_search(*recurrent.with_head(head), beam_width=20, length=2)
    assert len(as_pairs(found, 0)) == 9
    assert as_pairs(found, 1) == []
    assert np.isneginf(found.log_probs[1]).all()
    assert (found.classes.numpy()[1] == -1).all()


class Counted:
    """A head that counts the hypotheses that its searches may not pass over."""

    def __init__(self, head):
        self._head = head
        self.num_classes = head.num_classes
        self.variable_dtype = head.variable_dtype
        self.wanted = []
        self.use_bounds = True

    def top_k(self, inputs, k, bounds):
        self.wanted.append(
            int(tf.reduce_sum(tf.cast(bounds < np.inf, tf.int32)))
        )
        if not self.use_bounds:
            bounds = None
        return self._head.top_k(inputs, k, bounds=bounds)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bound_changes_nothing(dtype):
    """Hypotheses that have ended are not searched, nor one twice."""
    recurrent = Recurrent(200, batch=3, dtype=dtype)
    head = Counted(make_head(Tree.balanced(200, 6), dtype=dtype))
    results = []
    for head.use_bounds in (True, False):
        for penalty in (0.0, 1.0):
            results.append(
                beam_search(
                    *recurrent.with_head(head),
                    beam_width=6,
                    length=7,
                    end=199,
                    length_penalty=penalty,
                )
            )
    for bounded, free in zip(results[:2], results[2:], strict=True):
        for mine, its in zip(bounded, free, strict=True):
            np.testing.assert_array_equal(mine, its)
    # One hypothesis of each entry, then none of the others, which are not yet.
    assert head.wanted[:2] == [3, 0]
    assert max(head.wanted) <= 15
