"""Searches for the classes that could follow each hypothesis of a beam.

A beam of width W keeps the W best of all candidates. The worst of any W known
candidates is a bound for all others. So there are two searches: the first for
the most probable hypothesis of each entry of the batch, whose candidates are
mostly among the best, and the second for all other hypotheses. The second
search opens only groups of the tree in which a class could reach its bound.
"""

import tensorflow as tf

from tf_hsm.decoding._sequences import NEVER

# Slack of a bound, relative to the terms whose difference it is: a candidate
# must not be left out because sums of float32 round.
_SLACK = 1e-6


def find(best, hidden, live, ended, penalty):
    """Finds all candidates that could be among the best of an entry.

    Args:
      best: a function from inputs `[..., D]` and bounds `[...]`, as the answers
        of `tf_hsm.hierarchical_softmax_top_k`, to the log-probabilities and the
        classes `[..., k]` of the best classes.
      hidden: `[batch, beam_width, D]`.
      live: `[batch, beam_width]`, the log-probabilities of live hypotheses;
        minus infinity for ended ones.
      ended: `[batch, beam_width]`, the scores of ended hypotheses; minus
        infinity for live ones.
      penalty: a log-probability over this number is a score.

    Returns:
      Log-probabilities of the candidates, and their last classes, both
      `[batch, beam_width, k]`. Minus infinity stands for no candidate.
    """
    beam_width = live.shape[1]
    first = tf.argmax(live, 1)
    largest = tf.reduce_max(live, 1)
    log_probs, classes = best(
        tf.gather(hidden, first, batch_dims=1), _bounds(largest, NEVER)
    )
    scores = (largest[:, tf.newaxis] + log_probs) / penalty
    known = tf.math.top_k(tf.concat([ended, scores], 1), beam_width).values
    least = known[:, -1:] * penalty
    slack = _SLACK * (tf.abs(least) + tf.abs(live))
    is_first = tf.one_hot(first, beam_width, True, False)
    rest = tf.where(is_first, NEVER, live)
    others = best(hidden, _bounds(rest, least - live - slack))
    is_first = is_first[..., tf.newaxis]
    log_probs = tf.where(is_first, log_probs[:, tf.newaxis], others[0])
    classes = tf.where(is_first, classes[:, tf.newaxis], others[1])
    return live[..., tf.newaxis] + log_probs, classes


def _bounds(live, bounds):
    """Returns the bounds of live hypotheses; for others, one out of reach."""
    return tf.where(live > NEVER, bounds, -NEVER)
