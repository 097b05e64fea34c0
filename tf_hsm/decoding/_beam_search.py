"""The most probable sequences, by beam search."""

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.decoding import _candidates, _hypotheses, _sequences
from tf_hsm.decoding._rules import Rules
from tf_hsm.runtime import private_tensorflow


def beam_search(
    step,
    state,
    head,
    *,
    beam_width: int,
    length: int,
    start=0,
    end: int | None = None,
    min_length: int = 1,
    length_penalty: float = 0.0,
    exclude=(),
) -> _sequences.Sequences:
    """Finds the most probable sequences of classes, by beam search.

    A hypothesis is a sequence of classes that ends with the class `end`, or may
    go on. Its score is the log-probability of its classes, each given those
    before, over a penalty of its length (Wu et al., 2016, Google's Neural
    Machine Translation System, arXiv:1609.08144, equation 14):

        score = log_prob / ((5 + length) / 6) ** length_penalty

    For each entry of the batch the search begins with the empty hypothesis.
    Then, `length` times, the candidates are all hypotheses that have ended, and
    all others with any one class more; the `beam_width` best of them become the
    hypotheses. It stops sooner where all have ended. Of equal scores that of a
    hypothesis that has ended comes first, then that of the better hypothesis
    before, then that of the class that the head has first. So the result is
    exact where nothing is left out: with a `beam_width` of at least the number
    of hypotheses. It is no function of the rest of the batch.

    The candidates come from the head's search for the best classes. The
    search is told what each hypothesis needs to get among the best, and opens
    no group of the tree that has no such class.

    Args:
      step: a function `(classes, state) -> (hidden, state)` of
        `batch * beam_width` hypotheses; see `tf_hsm.decoding`.
      state: the first state, a nest of tensors `[batch, ...]`; `()` for none.
      head: a built softmax of `tf_hsm.layers`, but no `EmbeddingSoftmax`; or
        what has `num_classes` and their `top_k(inputs, k, bounds=bounds)`.
      beam_width: how many hypotheses are kept, at least 1.
      length: how many classes a hypothesis has at most, at least 1.
      start: the class that is read first and is no part of a hypothesis, as the
        last one of a prompt that `state` has read: an integer, or `[batch]`.
      end: the class that ends a hypothesis; None: it has `length` classes.
      min_length: how many classes one that ends has at least, `end` included.
      length_penalty: at least 0; 0 for no penalty, 1 for the mean
        log-probability of a class, nearly.
      exclude: classes that no hypothesis has. What is left is not normalized
        anew; nor is it by `min_length`.

    Returns:
      `Sequences`, best first: classes `[batch, beam_width, length]`, log_probs
      and lengths `[batch, beam_width]`. Where there are fewer hypotheses than
      `beam_width`, the last have the log-probability minus infinity and the
      length 0. NaN counts as a probability of zero.

    Raises:
      TypeError: `head` is none of these, or an argument of classes has no
        integers.
      ValueError: another argument is out of range, or `step` returned something
        else; the message names it.
    """
    _sequences.check_head(head, "top_k")
    _sequences.check_takes_vectors(head)
    beam_width = _checks.check_int("beam_width", beam_width, 1)
    rules = Rules.checked(
        head, length, end, min_length, length_penalty, exclude
    )
    k = min(beam_width + rules.most_out, head.num_classes)

    def extend(length, hypotheses, state):
        def best(hidden, bounds):
            found = head.top_k(hidden, k, bounds=bounds)
            log_probs = tf.cast(found.log_probs, tf.float64)
            is_out = rules.is_out(found.classes, length)
            is_out |= tf.math.is_nan(log_probs)
            return tf.where(is_out, _sequences.NEVER, log_probs), found.classes

        classes = tf.reshape(hypotheses.last, [-1])
        hidden, state = _sequences.read(step, classes, state)
        log_probs, classes = _candidates.find(
            best,
            tf.reshape(hidden, [-1, beam_width, hidden.shape[1]]),
            hypotheses.of_live(),
            hypotheses.of_ended() / rules.penalty(hypotheses.lengths),
            rules.penalty(length),
        )
        hypotheses, before = _hypotheses.best(
            hypotheses, log_probs, classes, length, rules
        )
        return length + 1, hypotheses, _hypotheses.reorder(state, before)

    with private_tensorflow.infinities():
        first = _sequences.first_classes(start, state)
        _, hypotheses, _ = tf.while_loop(
            lambda length, hypotheses, state: tf.reduce_any(hypotheses.is_live),
            extend,
            (
                tf.constant(1),
                _hypotheses.empty(first, beam_width, rules.length),
                tf.nest.map_structure(
                    lambda x: tf.repeat(x, beam_width, 0), state
                ),
            ),
            maximum_iterations=rules.length,
        )
        return hypotheses.sequences(head)
