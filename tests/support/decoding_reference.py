"""Decoding in plain Python: all sequences, and a beam search.

A model is a function from the classes so far, a tuple, to the log-probabilities
`[N]` of the next one. A hypothesis is a pair: the classes, and the sum of their
log-probabilities.
"""

from tests.support import inference_reference


def score(hypothesis, length_penalty):
    """That of Wu et al., arXiv:1609.08144, equation 14."""
    classes, log_prob = hypothesis
    return log_prob / (((5 + len(classes)) / (5 + 1)) ** length_penalty)


def ends_of(end):
    """The classes that end a hypothesis, a set."""
    if end is None:
        return set()
    return set(end) if isinstance(end, list | tuple) else {end}


def all_hypotheses(model, length, end=None):
    """Those that end with `end`, and those of `length` classes without it.

    `end` is a class, a list of classes, or None.
    """
    ends = ends_of(end)
    over, going_on = [], [((), 0.0)]
    for _ in range(length):
        longer = [
            ((*classes, c), log_prob + more)
            for classes, log_prob in going_on
            for c, more in enumerate(model(classes))
        ]
        over += [h for h in longer if h[0][-1] in ends]
        going_on = [h for h in longer if h[0][-1] not in ends]
    return over + going_on


def beam_search(
    model,
    beam_width,
    length,
    end=None,
    min_length=1,
    length_penalty=0.0,
    exclude=(),
):
    """The hypotheses of a beam, best first."""
    beam, ends = [((), 0.0)], ends_of(end)
    for count in range(1, length + 1):
        candidates = [h for h in beam if ends & set(h[0][-1:])]
        for classes, log_prob in beam:
            if ends & set(classes[-1:]):
                continue
            next_ones = model(classes)
            for c in inference_reference.ranking(next_ones).tolist():
                if c in exclude or (c in ends and count < min_length):
                    continue
                candidates.append(((*classes, c), log_prob + next_ones[c]))
        # Sorting keeps the order of equal ones.
        candidates.sort(key=lambda h: -score(h, length_penalty))
        beam = candidates[:beam_width]
    return beam
