"""A source of words with known entropy: a Markov chain of word classes.

Words are numbered by rank, r = 1 ... V, and follow the law of Zipf and
Mandelbrot:

    p(r) = (r + q)^-s / Σ_r' (r' + q)^-s

Each word is in one of C classes: of C words with adjacent ranks, one in each. A
class has the probability π(c) = Σ_{r in c} p(r). As in Brown et al. (1992),
Class-based n-gram models of natural language, the next word depends on the
class of the word before, c':

    P(r | c') = P(c | c') p(r) / π(c),    c the class of r

The chain of the classes is made from a joint law of two adjacent ones,

    P(c | c') = J(c', c) / π(c'),    J = ε π πᵀ + (1 - ε)/K Σ_k J_k

where J_k is a coupling of π with itself: two random orders of the classes cut
[0, 1) into intervals of length π(c), and J_k(c', c) is the length that the
interval of c' in the one shares with that of c in the other. Rows and columns
of J sum to π. So π is stationary, and p(r) the exact law of every word: Zipf's
law holds whatever the chain. J_k has 2C - 1 entries at most: few classes follow
a class, which a model of the text can learn.

The entropy per word, in nats, is that of the next class and that of the word
within it:

    H = Σ_c' π(c') Σ_c P(c | c') log 1/P(c | c') + Σ_r p(r) log π(c)/p(r)

After each word the sentence ends with probability h, whatever the words; the
first word of a sentence has the law p(r). The end of a line is a token too, so
that a share 1/(1 + h) of the tokens are words, and the entropy per token is

    [h log 1/h + (1 - h) log 1/(1 - h) + (1 - h) H + h H_1] / (1 + h)

with H_1 = Σ_r p(r) log 1/p(r). No model's perplexity is below exp of that in
expectation, and the chain's own is equal to it.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from examples.corpora.synthetic import alias_table


@dataclasses.dataclass(frozen=True)
class Law:
    """The constants of the source, in the symbols above.

    Attributes:
        num_words: V; a multiple of `num_classes`.
        exponent: s.
        shift: q.
        end: h; 0 for a text without sentences.
        num_classes: C.
        num_couplings: K.
        restart: ε, the share of the words that depend on none before.
    """

    num_words: int
    exponent: float
    shift: float
    end: float = 0.0
    num_classes: int = 256
    num_couplings: int = 4
    restart: float = 0.1


class Words(NamedTuple):
    """Drawn words, in order.

    Attributes:
        ranks: `[N]` int32, from 0.
        ends: `[N]` bool, whether the sentence ends after the word.
        nats: `[N]` float64, log 1/P of the word given those before, and of
            whether its sentence ends.
    """

    ranks: np.ndarray
    ends: np.ndarray
    nats: np.ndarray


class ClassChain:
    """The source.

    Attributes:
        law: the constants.
        class_probs: `[C]`, π.
        transitions: `[C, C]`, P(c | c'), row c'.
        members: `[C, V/C]` int32, the ranks of the words of each class, from 0.
    """

    def __init__(self, law, seed):
        """Draws the classes and the chain; O(V log V)."""
        rng = np.random.default_rng(seed)
        self.law = law
        num_classes = law.num_classes
        ranks = np.arange(law.num_words, dtype=np.int32)
        self.members = np.ascontiguousarray(
            rng.permuted(ranks.reshape(-1, num_classes), axis=1).T
        )
        weights = (ranks + (1 + law.shift)) ** -law.exponent
        self._log_normalizer = np.log(weights.sum())
        member_probs = np.exp(self._log_probs(self.members))
        self.class_probs = member_probs.sum(axis=1)
        couplings = [
            _coupling(self.class_probs, rng) for _ in range(law.num_couplings)
        ]
        followers = np.mean(couplings, axis=0) / self.class_probs[:, None]
        self.transitions = (
            law.restart * self.class_probs + (1 - law.restart) * followers
        )

        self._words = alias_table.AliasTable(member_probs, self.members)
        self._classes = alias_table.AliasTable(
            self.class_probs[None], np.arange(num_classes, dtype=np.int32)[None]
        )
        self._followers = _sparse_table(followers)
        # log P(c | c')/π(c), with a last row for the first word of a sentence.
        self._association = np.log(
            np.vstack(
                [self.transitions / self.class_probs, np.ones(num_classes)]
            )
        )

    def draw(self, rng, count):
        """Returns `Words`; the first begins a sentence, the last ends one.

        Sorts are stable: without that, the words for a seed would depend on
        the processor.

        Args:
            rng: a `numpy.random.Generator`.
            count: how many words.
        """
        law = self.law
        ends = rng.random(count) < law.end
        ends[-1] = law.end > 0
        begins = np.roll(ends, 1)
        begins[0] = True
        restarts = begins | (rng.random(count) < law.restart)

        # What follows a restart does not depend on what was before: all such
        # runs grow at once, by one word at a time, the longest first.
        starts = np.flatnonzero(restarts)
        lengths = np.diff(starts, append=count)
        order = np.argsort(-lengths, kind="stable")
        starts, lengths = starts[order], lengths[order]
        classes = np.empty(count, np.int32)
        run = self._classes.draw(rng, np.zeros(starts.size, np.int32))
        classes[starts] = run
        for step in range(1, lengths[0]):
            longer = np.searchsorted(-lengths, -step)
            run = self._followers.draw(rng, run[:longer])
            classes[starts[:longer] + step] = run

        ranks = self._words.draw(rng, classes)
        before = np.where(begins, law.num_classes, np.roll(classes, 1))
        nats = -self._log_probs(ranks) - self._association[before, classes]
        if law.end:
            nats -= np.where(ends, np.log(law.end), np.log1p(-law.end))
        return Words(ranks, ends, nats)

    def entropy(self, known=None):
        """Returns entropies per token, in nats: of the chain, of p(r) alone.

        Args:
            known: `[V]` bool, the words that are told apart; all others are
                one token, `<unk>`. The first number is then what is left to
                one who knows the class of every word before, of the unknown
                ones too: no model has a lower cross-entropy in expectation.
        """
        within = np.exp(self._log_probs(self.members))
        within /= self.class_probs[:, None]
        inside = _surprisal(within)
        if known is not None:
            inside *= known[self.members]
            within *= known[self.members]
        inside, known_share = inside.sum(axis=1), within.sum(axis=1)

        def of_word(class_probs):
            unknown = class_probs @ (1 - known_share)
            return (
                _surprisal(class_probs) @ known_share
                + class_probs @ inside
                + _surprisal(np.maximum(unknown, 0))
            )

        end = self.law.end
        first = of_word(self.class_probs)
        next_word = self.class_probs @ of_word(self.transitions)
        ends = _surprisal(np.array([end, 1 - end])).sum()
        line_ends = _surprisal(np.array([end, 1.0]) / (1 + end)).sum()
        return (
            float(ends + (1 - end) * next_word + end * first) / (1 + end),
            float(line_ends + first / (1 + end)),
        )

    def unigram_nats(self, counts, num_lines):
        """Returns log 1/P of a text under p(r) alone, in nats.

        Args:
            counts: `[V]`, how often each word is in it.
            num_lines: how often a line ends in it.
        """
        end = self.law.end
        ranks = np.flatnonzero(counts)
        nats = np.log1p(end) - self._log_probs(ranks)
        total = nats @ counts[ranks]
        if num_lines:
            total += num_lines * np.log((1 + end) / end)
        return float(total)

    def _log_probs(self, ranks):
        """Returns log p(r) for ranks from 0."""
        log_ranks = np.log(ranks + (1 + self.law.shift))
        return -self.law.exponent * log_ranks - self._log_normalizer


def _coupling(probs, rng):
    """J_k, `[C, C]`."""
    orders = [rng.permutation(probs.size) for _ in range(2)]
    ends = [np.cumsum(probs[order]) for order in orders]
    cuts = np.sort(np.concatenate(ends))
    lengths = np.diff(cuts, prepend=0)
    middles = cuts - lengths / 2
    result = np.zeros((probs.size, probs.size))
    pairs = (
        order[np.minimum(np.searchsorted(end, middles), probs.size - 1)]
        for order, end in zip(orders, ends, strict=True)
    )
    np.add.at(result, tuple(pairs), lengths)
    return result


def _sparse_table(probs):
    """An alias table without the columns that are zero in each row."""
    width = int((probs > 0).sum(axis=1).max())
    columns = np.argsort(-probs, axis=1, kind="stable")[:, :width]
    columns = columns.astype(np.int32)
    return alias_table.AliasTable(
        np.take_along_axis(probs, columns, axis=1), columns
    )


def _surprisal(probs):
    """Returns p log 1/p of each, 0 for 0."""
    return -probs * np.log(np.where(probs > 0, probs, 1))
