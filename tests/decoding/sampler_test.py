"""Sequences that are drawn."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import inference_reference
from tests.support.decoding_models import Recurrent, make_head, reference_model
from tests.support.decoding_reference import all_hypotheses
from tf_hsm import Tree
from tf_hsm.decoding import Sampler, beam_search


@pytest.mark.parametrize("end", [2, [3, 1]])
def test_sequences_are_drawn_by_their_probabilities(end):
    """A chi-square test over all sequences, of several lengths."""
    recurrent = Recurrent(4)
    head = make_head(Tree.huffman([1, 2, 3, 4]), dtype="float64", scale=1.0)
    found = Sampler(seed=3)(
        *recurrent.with_head(head, 20_000), length=3, end=end
    )
    wanted = all_hypotheses(reference_model(recurrent, head), 3, end)
    number_of = {classes: i for i, (classes, _) in enumerate(wanted)}
    log_probs = np.array([log_prob for _, log_prob in wanted])
    drawn = np.array(
        [
            number_of[tuple(row[:length])]
            for row, length in zip(
                found.classes.numpy(), found.lengths.numpy(), strict=True
            )
        ]
    )
    assert inference_reference.p_value(drawn, np.exp(log_probs)) > 1e-4
    np.testing.assert_allclose(found.log_probs, log_probs[drawn], rtol=1e-12)
    is_past = np.arange(3) >= found.lengths.numpy()[:, np.newaxis]
    assert (found.classes.numpy()[is_past] == -1).all()


@pytest.mark.parametrize(
    "options", [{"top_k": 3}, {"top_p": 0.6}, {"temperature": 0.4, "top_k": 9}]
)
@pytest.mark.parametrize("traced", [False, True])
def test_each_class_is_a_draw_of_the_head(options, traced):
    """With the seed and the position as its seed; log-probabilities are not."""
    recurrent = Recurrent(30, batch=4, dtype="float32")
    head = make_head(Tree.two_level(30))
    sampler = Sampler(**options, seed=7)

    def run(state):
        return sampler(
            recurrent.step, state, head, length=6, start=[1, 2, 3, 4]
        )

    found = (tf.function(run) if traced else run)(recurrent.state)
    assert found.classes.shape == (4, 6)
    assert (found.lengths.numpy() == 6).all()
    state, last, sums = recurrent.state, tf.constant([1, 2, 3, 4]), 0.0
    for position in range(6):
        hidden, state = recurrent.step(last, state)
        last = head.sample(hidden, 1, seed=[7, position], **options)[:, 0]
        np.testing.assert_array_equal(found.classes[:, position], last)
        sums += head.log_prob(last[:, tf.newaxis], hidden)[:, 0]
    np.testing.assert_allclose(found.log_probs, sums, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.7}])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_rules(options, temperature):
    """A chi-square test of the last class: excluded, seen and end classes.

    The classes before are the only ones that `start` leads to.
    """
    n, batch, penalty = 12, 20_000, 1.7
    head = make_head(Tree.two_level(n), dtype="float64", scale=1.0)
    hidden = tf.constant([np.linspace(-1, 1, head.kernel.shape[1])])
    sampler = Sampler(
        **options, temperature=temperature, repetition_penalty=penalty, seed=3
    )
    probs = np.exp(head.log_probs(hidden)[0])
    order = np.argsort(-probs)
    end, unknown = order[0], order[1]
    found = sampler(
        lambda classes, state: (tf.repeat(hidden, tf.size(classes), 0), state),
        (),
        head,
        length=3,
        start=tf.zeros([batch], tf.int64),
        end=int(end),
        min_length=3,
        exclude=int(unknown),
    )
    assert (found.lengths.numpy() == 3).all()
    classes = found.classes.numpy()
    assert not np.isin(classes[:, :2], [end, unknown]).any()
    # The classes that come most often twice.
    pairs, counts = np.unique(classes[:, :2], axis=0, return_counts=True)
    before = pairs[np.argmax(counts)]
    drawn = classes[(classes[:, :2] == before).all(1), 2]
    wanted = probs.copy()
    wanted[before] **= penalty
    wanted[unknown] = 0
    order = np.argsort(-wanted)[: options.get("top_k")]
    kept = np.zeros(n)
    kept[order] = wanted[order] ** (1 / temperature)
    kept /= kept.sum()
    is_past = np.cumsum(kept[order]) - kept[order] >= options.get("top_p", 1)
    kept[order[is_past]] = 0
    assert len(drawn) > 200
    assert inference_reference.p_value(drawn, kept / kept.sum()) > 1e-4


@pytest.mark.parametrize("traced", [False, True])
def test_greedy_rules_are_a_beam_of_one(traced):
    recurrent = Recurrent(30, batch=3)
    arguments = recurrent.with_head(make_head(Tree.two_level(30)))
    rules = {"length": 9, "end": [15, 3], "min_length": 4, "exclude": [7, 8]}
    sampler = Sampler(temperature=0)
    if traced:
        sampler = tf.function(sampler)
    greedy = sampler(*arguments, **rules)
    beam = beam_search(*arguments, beam_width=1, **rules)
    np.testing.assert_array_equal(greedy.classes, beam.classes[:, 0])


def test_nothing_is_left():
    """A sequence ends where every class is excluded."""
    recurrent = Recurrent(4)
    head = make_head(Tree.flat(4))
    found = Sampler(seed=1)(
        *recurrent.with_head(head, 2), length=3, exclude=range(4)
    )
    assert (found.classes.numpy() == -1).all()
    assert np.isnan(found.log_probs).all()


def test_seeds():
    """The same seed draws the same, another one not; none, never the same."""
    recurrent = Recurrent(30, batch=40)
    head = make_head(Tree.two_level(30), dtype="float64")

    def draw(seed):
        sampler = Sampler(seed=seed)
        return sampler(*recurrent.with_head(head), length=5).classes.numpy()

    np.testing.assert_array_equal(draw(1), draw(1))
    for one, other in ((1, 2), (None, None)):
        assert (draw(one) != draw(other)).any()


@pytest.mark.parametrize("end", [None, 15, [15, 3]])
def test_greedy_is_a_beam_of_one(end):
    recurrent = Recurrent(30, batch=3)
    head = make_head(Tree.two_level(30), dtype="float64")
    arguments = recurrent.with_head(head)
    greedy = Sampler(temperature=0)(*arguments, length=9, end=end)
    beam = beam_search(*arguments, beam_width=1, length=9, end=end)
    best = Sampler(top_k=1)(*arguments, length=9, end=end)
    for one, other, third in zip(greedy, beam, best, strict=True):
        np.testing.assert_allclose(one, other[:, 0], rtol=1e-12)
        np.testing.assert_array_equal(one, third)
    if end is not None:
        assert greedy.lengths.numpy().min() < 9


@pytest.mark.parametrize(
    "end", [[15, 15], {15}, np.array([15]), np.int32(15), tf.constant(15)]
)
def test_one_class_in_another_form(end):
    recurrent = Recurrent(30, batch=3)
    arguments = recurrent.with_head(make_head(Tree.two_level(30)))
    for decode in (
        functools.partial(Sampler(temperature=0), *arguments, length=9),
        functools.partial(
            beam_search, *arguments, beam_width=2, length=9, min_length=3
        ),
    ):
        for one, other in zip(decode(end=end), decode(end=15), strict=True):
            np.testing.assert_array_equal(one, other)


def test_it_stops_when_all_have_ended():
    head = make_head(Tree.balanced(4, 4), scale=0.0)
    head.bias.assign([0.0, 0.0, 9.0, 0.0])
    calls = []

    def step(classes, state):
        calls.append(classes)
        return tf.zeros([tf.size(classes), 5]), state

    found = Sampler(seed=1)(step, (), head, length=90, start=[0] * 5, end=2)
    assert len(calls) == found.lengths.numpy().max() < 10
    assert found.classes.shape == (5, 90)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_ends_a_sequence(temperature):
    recurrent = Recurrent(30, batch=2)
    recurrent.hidden[1] = np.nan
    head = make_head(Tree.two_level(30), dtype="float64")
    found = Sampler(temperature=temperature, seed=1)(
        *recurrent.with_head(head), length=4
    )
    np.testing.assert_array_equal(found.lengths, [4, 0])
    np.testing.assert_array_equal(np.isnan(found.log_probs), [False, True])
    assert (found.classes.numpy()[1] == -1).all()


def test_config():
    """As Keras serializes it."""
    options = {
        "temperature": 0.5,
        "top_k": 4,
        "top_p": 0.9,
        "repetition_penalty": 1.5,
        "seed": 2**40,
    }
    config = keras.saving.serialize_keras_object(Sampler(**options))
    again = keras.saving.deserialize_keras_object(config)
    assert isinstance(again, Sampler)
    assert again.get_config() == options
    assert Sampler().get_config() == {
        "temperature": 1.0,
        "top_k": None,
        "top_p": None,
        "repetition_penalty": 1.0,
        "seed": None,
    }


def test_a_rule_of_ones_own():
    """A subclass chooses; the rest stays."""

    class Second(Sampler):
        def next_classes(self, head, hidden, position):
            return head.top_k(hidden, 2).classes[:, 1]

    recurrent = Recurrent(30, batch=2)
    head = make_head(Tree.two_level(30), dtype="float64")
    found = Second()(*recurrent.with_head(head), length=3)
    hidden, _ = recurrent.step(tf.zeros([2], tf.int64), recurrent.state)
    np.testing.assert_array_equal(
        found.classes[:, 0], head.top_k(hidden, 2).classes[:, 1]
    )
