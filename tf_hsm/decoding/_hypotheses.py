"""The hypotheses of a beam, from step to step."""

import typing

import tensorflow as tf

from tf_hsm.decoding import _sequences


class Hypotheses(typing.NamedTuple):
    """The hypotheses of each entry of the batch, best first.

    Attributes:
      classes: `[batch, beam_width, length]`.
      last: `[batch, beam_width]`, the class to read next; any where it has
        ended.
      log_probs: `[batch, beam_width]`, float64; minus infinity for no
        hypothesis.
      lengths: `[batch, beam_width]`.
      is_live: `[batch, beam_width]`, whether it is one that has not ended.
    """

    classes: tf.Tensor
    last: tf.Tensor
    log_probs: tf.Tensor
    lengths: tf.Tensor
    is_live: tf.Tensor

    def of_live(self):
        """Returns log-probabilities; minus infinity for ended hypotheses."""
        return tf.where(self.is_live, self.log_probs, _sequences.NEVER)

    def of_ended(self):
        """Returns log-probabilities; minus infinity for live hypotheses."""
        return tf.where(self.is_live, _sequences.NEVER, self.log_probs)

    def sequences(self, head):
        """Returns the hypotheses as `Sequences`."""
        exists = self.log_probs > _sequences.NEVER
        return _sequences.Sequences(
            tf.where(exists[..., tf.newaxis], self.classes, _sequences.NONE),
            _sequences.in_type_of(head, self.log_probs),
            tf.where(exists, self.lengths, 0),
        )


def empty(first, beam_width, length):
    """Returns an empty hypothesis for each of the first classes `[batch]`."""
    is_first = tf.repeat(
        tf.range(beam_width)[tf.newaxis] == 0, tf.size(first), 0
    )
    is_first = tf.ensure_shape(is_first, [first.shape[0], beam_width])
    return Hypotheses(
        classes=_sequences.empty([tf.size(first), beam_width], length),
        last=tf.repeat(first[:, tf.newaxis], beam_width, 1),
        log_probs=tf.where(
            is_first, tf.constant(0, tf.float64), _sequences.NEVER
        ),
        lengths=tf.zeros_like(is_first, tf.int32),
        is_live=is_first,
    )


def best(hypotheses, log_probs, classes, length, rules, ends_with):
    """Chooses among ended hypotheses and live ones with one class more.

    `classes` and `log_probs`, `[batch, beam_width, k]`, are k classes more for
    each of the `hypotheses`, which then have `length` classes. `ends_with` is a
    function from classes to whether they end a hypothesis.

    Returns the new `Hypotheses`, and the old hypothesis that each one extends
    or repeats, `[batch, beam_width]`.
    """
    ended = hypotheses.of_ended()
    beam_width = ended.shape[1]
    # `tf.math.top_k` takes the first of equal scores.
    scores = _joined(
        ended / rules.penalty(hypotheses.lengths),
        log_probs / rules.penalty(length),
    )
    chosen = tf.math.top_k(scores, beam_width).indices
    is_longer = chosen >= beam_width
    before = tf.where(
        is_longer, (chosen - beam_width) // tf.shape(classes)[2], chosen
    )
    none = tf.fill(tf.shape(ended), _sequences.NONE)
    last = _take(_joined(none, classes), chosen)
    log_probs = _take(_joined(ended, log_probs), chosen)
    classes = _take(hypotheses.classes, before)
    lengths = _take(hypotheses.lengths, before)
    chosen_ones = Hypotheses(
        classes=_sequences.put(classes, length - 1, last),
        last=tf.maximum(last, 0),
        log_probs=log_probs,
        lengths=lengths + tf.cast(is_longer, tf.int32),
        is_live=is_longer & (log_probs > _sequences.NEVER) & ~ends_with(last),
    )
    return chosen_ones, before


def reorder(state, before):
    """Returns a state `[batch * beam_width, ...]` in the order of `before`."""
    batch, beam_width = tf.shape(before)[0], before.shape[1]
    entries = tf.range(batch)[:, tf.newaxis] * beam_width
    rows = tf.reshape(entries + before, [-1])
    return tf.nest.map_structure(
        lambda x: tf.ensure_shape(tf.gather(x, rows), x.shape), state
    )


def _joined(ended, longer):
    """Joins `[batch, beam_width]` and `[batch, beam_width, k]` along axis 1."""
    size = ended.shape[1] * tf.shape(longer)[2]
    return tf.concat([ended, tf.reshape(longer, [-1, size])], 1)


def _take(values, places):
    return tf.gather(values, places, batch_dims=1)
