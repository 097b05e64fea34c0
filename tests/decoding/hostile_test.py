"""Malformed arguments of the decoders: each is refused in a sentence."""

import types

import numpy as np
import pytest
import tensorflow as tf

from tests.support.decoding_models import Recurrent, make_head
from tests.support.pairs import all_pairs
from tf_hsm import Tree
from tf_hsm.decoding import Sampler, Trie, beam_search
from tf_hsm.layers import EmbeddingSoftmax, HierarchicalSoftmax, LabelTree

RECURRENT = Recurrent(9, batch=2, dtype="float32")
TREE = Tree.two_level(9)
TRIE = Trie([[1, 5, 2, 3], [0, -1, -1, -1]])


def arguments(**changes):
    """Arguments of either decoder."""
    return {
        "step": RECURRENT.step,
        "state": RECURRENT.state,
        "head": make_head(TREE),
        "length": 4,
        **changes,
    }


def search(beam_width=3, **changes):
    return beam_search(beam_width=beam_width, **arguments(**changes))


def draw(**changes):
    return Sampler(seed=1)(**arguments(**changes))


BAD = [
    ({"length": 0}, ValueError, "length is 0; it must be at least 1"),
    ({"length": 2.5}, ValueError, "length must be an integer, not 2.5"),
    ({"end": 9}, ValueError, "end is 9; the classes of the head are 0 to 8"),
    ({"end": -1}, ValueError, "end is -1; it must be at least 0"),
    ({"end": [1, 9]}, ValueError, "end is 9; the classes of the head are 0 to"),
    ({"end": [[1]]}, ValueError, r"end must be a class or a list of classes"),
    ({"end": "1"}, ValueError, "end must be a class or a list .* not '1'"),
    ({"end": [1.5]}, ValueError, "end must be an integer, not 1.5"),
    ({"start": 0.5}, TypeError, "start must be integers, but are float32"),
    ({"start": [[1, 2]]}, ValueError, r"start must .* the shape \(1, 2\)"),
    ({"start": [1, 2, 3]}, ValueError, r"first axis, .* shapes \(3,\) and"),
    ({"state": [np.zeros([2, 3]), 1.0]}, ValueError, r"first axis, .* \(\)$"),
    ({"state": 1.0}, ValueError, "as their first axis"),
    ({"state": [np.zeros([2]), np.zeros([3])]}, ValueError, "first axis"),
    ({"head": None}, TypeError, "head must be .* NoneType has no num_classes"),
    (
        {"head": types.SimpleNamespace(num_classes=3)},
        TypeError,
        "SimpleNamespace has no (top_k|sample)",
    ),
    ({"head": HierarchicalSoftmax(TREE)}, ValueError, "has no weights yet"),
    ({"min_length": 0}, ValueError, "min_length is 0; it must be at least 1"),
    ({"min_length": 2}, ValueError, "nothing ends a sequence .* give `end`"),
    ({"min_length": 5, "end": 1}, ValueError, "is 5, but length is 4"),
    ({"exclude": [1, 9]}, ValueError, "exclude is 9; the classes"),
    ({"exclude": ["a"]}, ValueError, "exclude must be an integer, not 'a'"),
    ({"constraint": TREE}, TypeError, "must be a .*Trie .* not a Tree"),
    ({"allowed": [1]}, ValueError, "needs a constraint"),
    (
        {"constraint": TRIE, "end": 1},
        ValueError,
        "end does not go with a constraint",
    ),
    (
        {"constraint": TRIE, "length": 3},
        ValueError,
        "length is 3, but a path .* has 4 codes",
    ),
    (
        {"constraint": TRIE, "head": make_head(Tree.flat(5))},
        ValueError,
        "has the code 5, but the classes of the head are 0 to 4",
    ),
]
BAD_SEARCH = [
    ({"head": LabelTree(TREE)}, TypeError, "LabelTree, whose labels do not"),
    (
        {"head": EmbeddingSoftmax(TREE, num_embeddings=9, width=5)},
        TypeError,
        "EmbeddingSoftmax, whose inputs are ids, .* HierarchicalSoftmax with",
    ),
    ({"beam_width": 0}, ValueError, "beam_width is 0; it must be at least 1"),
    (
        {"beam_width": True},
        ValueError,
        "beam_width must be an integer, not True",
    ),
    ({"length_penalty": -0.1}, ValueError, "length_penalty is -0.1; it must"),
    ({"length_penalty": np.nan}, ValueError, "length_penalty is nan; it must"),
    ({"length_penalty": np.inf}, ValueError, "length_penalty is inf; it must"),
]


@pytest.mark.parametrize(
    "decode, changes, error, message",
    [(search, *case) for case in BAD + BAD_SEARCH]
    + [(draw, *case) for case in BAD],
)
def test_arguments(decode, changes, error, message):
    with pytest.raises(error, match=message):
        decode(**changes)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"temperature": -1}, ValueError, "temperature is -1; it must be at"),
        ({"temperature": np.nan}, ValueError, "temperature is nan"),
        ({"top_k": 0}, ValueError, "top_k is 0; it must be at least 1"),
        ({"top_k": 1.5}, ValueError, "top_k must be an integer, not 1.5"),
        ({"top_p": 0}, ValueError, "top_p is 0; it must be above 0"),
        ({"top_p": np.nan}, ValueError, "top_p is nan; it must be above 0"),
        ({"seed": 1.5}, TypeError, "integer"),
        ({"repetition_penalty": 0.9}, ValueError, "penalty is 0.9; it must be"),
        ({"repetition_penalty": np.inf}, ValueError, "at least 1 and finite"),
    ],
)
def test_options_of_a_sampler(options, error, message):
    with pytest.raises(error, match=message):
        Sampler(**options)


RETURNED = [
    (lambda h, s: h, r"must return \(hidden, state\), but returned"),
    (lambda h, s: (h, s, s), r"must return \(hidden, state\), but"),
    (lambda h, s: (h[:1], s), r"shape \[sequences, width\], but for cl"),
    (lambda h, s: (h[0], s), r"shape \[sequences, width\]"),
    (lambda h, s: (h, ()), "state of the structure that it was given"),
    (lambda h, s: (h, {**s, "hidden": h[:, :2]}), "shapes and types .* it"),
    (
        lambda h, s: (h, {**s, "hidden": tf.cast(h, "float64")}),
        "shapes and types .* returned float64",
    ),
]


@pytest.mark.parametrize(
    "case, decode, traced",
    all_pairs(RETURNED, [search, draw], [False, True]),
)
def test_what_a_step_returns(case, decode, traced):
    returned, message = case

    def step(classes, state):
        return returned(*RECURRENT.step(classes, state))

    def run():
        return decode(step=step)

    with pytest.raises(ValueError, match=message):
        (tf.function(run) if traced else run)()


@pytest.mark.parametrize("decode", [search, draw])
def test_inputs_of_another_width(decode):
    def step(classes, state):
        hidden, state = RECURRENT.step(classes, state)
        return hidden[:, :3], state

    with pytest.raises(tf.errors.InvalidArgumentError, match="inputs"):
        decode(step=step)


@pytest.mark.parametrize("decode", [search, draw])
def test_an_error_of_the_step_is_its_own(decode):
    def step(classes, state):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        decode(step=step)
