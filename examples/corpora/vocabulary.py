"""Which words are classes."""

import heapq

from examples.corpora import splitters
from examples.corpora.formats import UNKNOWN


def choose(options, rules, tally, num_train_tokens):
    """Returns the count of each class, a dict; `UNKNOWN` is one of them.

    Args:
        options: `corpus.Options`.
        rules: the `reading.Rules`, whose boundary is a class too.
        tally: the `counting.Tally` of the training text.
        num_train_tokens: of all words, so that the rest is `UNKNOWN`.

    Raises:
        ValueError: the vocabulary's file is none, or nothing would be
            `UNKNOWN`.
    """
    given = _given(options.vocabulary, rules.tokens)
    if given is None:
        counts = tally.counts(lambda word, n: n >= options.min_count)
        counts.pop(UNKNOWN, None)
        most = options.max_classes
        if most and len(counts) >= most:
            by_count = heapq.nsmallest(
                most - 1, counts.items(), key=lambda item: (-item[1], item[0])
            )
            counts = dict(by_count)
    else:
        given -= {UNKNOWN}
        given |= {rules.boundary} - {None}
        counts = dict.fromkeys(given, 0)
        counts |= tally.counts(lambda word, n: word in given)
    counts[UNKNOWN] = num_train_tokens - sum(counts.values())
    if not counts[UNKNOWN] and given is None:
        raise ValueError(
            "No word of the training text is seen fewer than "
            f"{options.min_count} times, so that {UNKNOWN} would never be "
            "trained: give more text or a larger --min_count."
        )
    return counts


def _given(path, tokens):
    """The words of a file or of the splitter, a set; None if there is none."""
    if not path:
        words = splitters.named(tokens).vocabulary
        return None if words is None else set(words)
    try:
        with open(path, encoding="utf-8-sig") as file:
            words = {line.split()[0] for line in file if line.strip()}
    except UnicodeError as error:
        raise ValueError(
            f"--vocabulary={path} is not UTF-8 text: {error}"
        ) from None
    if not words:
        raise ValueError(f"--vocabulary={path} has no words.")
    return words
