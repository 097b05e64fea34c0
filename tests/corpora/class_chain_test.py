"""A source of words with known entropy, against plain sums over its law."""

import numpy as np
import pytest

from examples.corpora.synthetic import alias_table, class_chain

LAW = class_chain.Law(
    num_words=65,
    exponent=1.1,
    shift=2.5,
    end=0.15,
    num_classes=5,
    num_couplings=2,
    restart=0.2,
)
ONE_LINE = class_chain.Law(
    num_words=9, exponent=0.9, shift=0.0, num_classes=3, num_couplings=1
)
LAWS = (LAW, ONE_LINE)


class _Grid:
    """Random numbers that are spaced evenly."""

    def random(self, size):
        return (np.arange(size) + 0.5) / size


@pytest.mark.parametrize("num_columns", (1, 2, 7, 300))
def test_alias_table_has_the_probabilities(num_columns):
    """Evenly spaced numbers draw values in proportion to probabilities."""
    rng = np.random.default_rng(num_columns)
    weights = np.stack(
        [
            rng.random(num_columns) ** 8 + 1e-9,
            np.ones(num_columns),
            np.arange(num_columns) // 2 + (np.arange(num_columns) == 0),
        ]
    )
    values = rng.permutation(3 * num_columns).reshape(3, -1).astype(np.int32)
    table = alias_table.AliasTable(weights, values)
    draws = 200_000
    for row in range(3):
        drawn = table.draw(_Grid(), np.full(draws, row, np.int32))
        assert np.isin(drawn, values[row]).all()
        shares = (
            np.bincount(drawn, minlength=3 * num_columns)[values[row]] / draws
        )
        # Each column has two intervals of numbers, which end in the grid.
        assert np.abs(shares - weights[row] / weights[row].sum()).max() < (
            2 * num_columns / draws
        )


def plain_law(law):
    """p(r), from the formula."""
    weights = [(r + law.shift) ** -law.exponent for r in range(1, 1000)]
    weights = np.array(weights[: law.num_words])
    return weights / weights.sum()


def classes_of(chain):
    result = np.full(chain.law.num_words, -1)
    for c, members in enumerate(chain.members):
        assert (result[members] == -1).all()
        result[members] = c
    return result


def token_law(chain):
    """P(token | token) and the law of single ones, the line end as the last."""
    law, probs, classes = chain.law, plain_law(chain.law), classes_of(chain)
    following = np.append(probs, 0)  # after the end of a line
    transitions = np.zeros((law.num_words + 1, law.num_words + 1))
    for word, c in enumerate(classes):
        words = (
            chain.transitions[c, classes] * probs / chain.class_probs[classes]
        )
        transitions[word] = np.append((1 - law.end) * words, law.end)
    transitions[-1] = following
    stationary = np.append(probs, law.end) / (1 + law.end)
    return transitions, stationary


@pytest.mark.parametrize("law", LAWS)
def test_the_law_of_words_is_zipfs_whatever_the_chain(law):
    chain = class_chain.ClassChain(law, seed=4)
    transitions, stationary = token_law(chain)
    np.testing.assert_allclose(transitions.sum(axis=1), 1)
    np.testing.assert_allclose(stationary @ transitions, stationary)
    assert (classes_of(chain) >= 0).all()
    # Each block of adjacent ranks has one word of each class.
    blocks = classes_of(chain).reshape(-1, law.num_classes)
    assert (np.sort(blocks) == np.arange(law.num_classes)).all()


def test_few_classes_follow_a_class():
    law = class_chain.Law(num_words=6400, exponent=1.2, shift=3, num_classes=64)
    chain = class_chain.ClassChain(law, seed=1)
    floor = law.restart * chain.class_probs
    num_followers = (chain.transitions > floor * (1 + 1e-9)).sum(axis=1)
    assert num_followers.mean() <= 2 * law.num_couplings
    assert (chain.transitions >= floor).all()


def plain_entropy(transitions, stationary, known):
    """Entropy of the next token, unknown words being one."""
    unknown = transitions[:, ~known].sum(axis=1, keepdims=True)
    lumped = np.hstack([transitions[:, known], unknown])
    logs = np.log(np.where(lumped > 0, lumped, 1))
    return -(stationary[:, None] * lumped * logs).sum()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("num_known", (0, 1, 4, None))
def test_entropy_is_the_sum_over_all_pairs_of_tokens(law, num_known):
    chain = class_chain.ClassChain(law, seed=4)
    transitions, stationary = token_law(chain)
    known = np.ones(law.num_words + 1, bool)
    if num_known is not None:
        known[num_known:-1] = False
    mask = None if num_known is None else known[:-1]
    entropy, of_unigrams = chain.entropy(mask)
    expected = plain_entropy(transitions, stationary, known)
    np.testing.assert_allclose(entropy, expected, rtol=1e-9, atol=1e-12)
    expected = plain_entropy(stationary[None], np.ones(1), known)
    np.testing.assert_allclose(of_unigrams, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_nats_are_those_of_the_drawn_words(law):
    chain = class_chain.ClassChain(law, seed=4)
    transitions, stationary = token_law(chain)
    words = chain.draw(np.random.default_rng(0), 3001)
    before, line_end = law.num_words, law.num_words
    for rank, end, nats in zip(*words, strict=True):
        prob = transitions[before, rank]
        prob *= law.end if end else 1 - law.end
        if before != line_end:
            # Said already of the word before, that no line ends there.
            prob /= 1 - law.end
        assert nats == pytest.approx(-np.log(prob))
        before = line_end if end else rank
    assert words.ends[-1] == (law.end > 0)
    tokens = np.append(words.ranks, np.full(words.ends.sum(), line_end))
    counts = np.bincount(words.ranks, minlength=law.num_words)
    assert chain.unigram_nats(counts, words.ends.sum()) == pytest.approx(
        -np.log(stationary[tokens]).sum()
    )


def test_pairs_of_words_are_as_frequent_as_the_law_says():
    chain = class_chain.ClassChain(LAW, seed=2)
    transitions, stationary = token_law(chain)
    num_words = 400_000
    words = chain.draw(np.random.default_rng(3), num_words)
    sequence = np.repeat(words.ranks, 1 + words.ends)
    sequence[np.cumsum(1 + words.ends)[words.ends] - 1] = LAW.num_words
    counts = np.zeros_like(transitions)
    np.add.at(counts, (sequence[:-1], sequence[1:]), 1)
    expected = (sequence.size - 1) * stationary[:, None] * transitions
    assert not counts[expected == 0].any()
    often = expected > 20
    deviation = (counts - expected)[often] / np.sqrt(expected[often])
    assert often.sum() > 1000
    assert np.abs(deviation).max() < 6
    assert np.mean(deviation**2) == pytest.approx(1, abs=0.2)
    entropy, _ = chain.entropy()
    assert words.nats.sum() / sequence.size == pytest.approx(entropy, rel=5e-3)


def test_measured_exponent_of_zipfs_law():
    """The slope of log count over log (rank + q), words by how often seen."""
    law = class_chain.Law(num_words=25_600, exponent=1.24, shift=3.0)
    chain = class_chain.ClassChain(law, seed=1)
    words = chain.draw(np.random.default_rng(1), 1_000_000)
    counts = np.sort(np.bincount(words.ranks))[::-1]
    counts = counts[counts >= 50]
    slope, _ = np.polyfit(
        np.log(np.arange(1, counts.size + 1) + law.shift), np.log(counts), 1
    )
    assert slope == pytest.approx(-law.exponent, abs=0.02)


def test_counts_of_classes_come_near_the_entropy():
    """A class bigram that counted a text predicts the rest as well."""
    chain = class_chain.ClassChain(
        class_chain.Law(num_words=640, exponent=1.1, shift=2, num_classes=16), 1
    )
    words = chain.draw(np.random.default_rng(5), 400_000)
    classes = classes_of(chain)[words.ranks]
    pairs, held_out = np.ones((16, 16)), slice(300_000, None)
    np.add.at(pairs, (classes[: 300_000 - 1], classes[1:300_000]), 1)
    counts = 1 + np.bincount(words.ranks[:300_000], minlength=640)
    of_class = np.bincount(classes_of(chain), counts)
    log_probs = (
        np.log(pairs / pairs.sum(axis=1, keepdims=True))[
            classes[held_out.start - 1 : -1], classes[held_out]
        ]
        + np.log(counts)[words.ranks[held_out]]
        - np.log(of_class)[classes[held_out]]
    )
    own = words.nats[held_out].mean()
    assert own < -log_probs.mean() < own + 0.01
    _, of_unigrams = chain.entropy()
    assert own < of_unigrams - 0.7
