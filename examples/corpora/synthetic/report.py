"""What perplexity a model of a synthetic text can reach."""

import numpy as np

# How often the words of a vocabulary occur: all words seen, 1bw (more than
# twice), text8 (more than 10 times), and others in use.
_MIN_COUNTS = (1, 2, 3, 5, 10, 11)


def make(chain, sections, tallies, counts):
    """Returns a dict for JSON.

    A token is a word or the end of a line; perplexities are per token.

    * `entropy`: of the chain, exact. No model has a lower perplexity in
      expectation.
    * `parts`: of the words that were written of each: what the chain itself
      reaches on them, and what the exact frequencies of single words reach.
    * `vocabularies`: of the words that the part "train" has `min_count` times
      and more, the rest being one word `<unk>`. The perplexity is again exact
      in expectation; as the chain knows what `<unk>` stands for in the words
      before, a model does not quite reach it.
    * `sections`: `parts` in more detail, in the order of the text. `nats` of
      adjacent sections add up.

    Args:
        chain: the `ClassChain`.
        sections: list of `Section`.
        tallies: the `Tally` of each.
        counts: of each part, how often it has each word, `[V]`.
    """
    return {
        "entropy": _perplexities(*chain.entropy()),
        "parts": {
            part: _part(
                chain,
                [
                    tally
                    for section, tally in zip(sections, tallies, strict=True)
                    if section.part == part
                ],
                part_counts,
            )
            for part, part_counts in counts.items()
        },
        "vocabularies": [
            _vocabulary(chain, counts["train"], min_count)
            for min_count in _MIN_COUNTS
        ],
        "sections": [
            {"file": section.file, "part": section.part, **vars(tally)}
            for section, tally in zip(sections, tallies, strict=True)
        ],
    }


def _perplexities(nats, unigram_nats):
    """A table of entropies or cross-entropies per token."""
    return {
        "nats_per_token": nats,
        "bits_per_token": nats / np.log(2),
        "perplexity": np.exp(nats),
        "unigram_perplexity": np.exp(unigram_nats),
    }


def _part(chain, tallies, counts):
    words, lines, characters, nats = (
        sum(getattr(tally, name) for tally in tallies)
        for name in ("words", "lines", "characters", "nats")
    )
    tokens = words + lines
    return {
        "words": words,
        "lines": lines,
        "tokens": tokens,
        "characters": characters,
        "distinct_words": int(np.count_nonzero(counts)),
        **_perplexities(
            nats / tokens, chain.unigram_nats(counts, lines) / tokens
        ),
    }


def _vocabulary(chain, counts, min_count):
    known = counts >= min_count
    return {
        "min_count": min_count,
        "words": int(np.count_nonzero(known)),
        "unknown_share": float(counts[~known].sum() / counts.sum()),
        **_perplexities(*chain.entropy(known)),
    }
