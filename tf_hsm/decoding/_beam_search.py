"""The most probable sequences, by beam search."""

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.decoding import _hypotheses, _sequences, _vocabulary
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
    end=None,
    min_length: int = 1,
    length_penalty: float = 0.0,
    exclude=(),
    constraint=None,
    allowed=None,
) -> _sequences.Sequences:
    """Finds the most probable sequences of classes, by beam search.

    A hypothesis is a sequence of classes that ends with an `end` class, or may
    go on. Its score is the log-probability of its classes, each given those
    before, over a penalty of its length (Wu et al., 2016, Google's Neural
    Machine Translation System, arXiv:1609.08144, equation 14):

        score = log_prob / ((5 + length) / 6) ** length_penalty

    For each entry of the batch the search begins with the empty hypothesis.
    Then, `length` times, the candidates are all hypotheses that have ended, and
    all others with any one class more; the `beam_width` best of them become the
    hypotheses. It stops sooner where all have ended. Ties go to
    hypotheses that have ended, then to the better parent, then to the class
    that `top_k` lists first. So the result is exact where nothing is left out:
    with a `beam_width` of at least the number of hypotheses. It is no function
    of the rest of the batch.

    With a `constraint`, the classes are codes, and each hypothesis is the
    beginning of an item's path until it ends as an item. The probabilities of
    codes stay what they are. Ties go to the lower code.

    The candidates come from the head's search for the best classes. The
    search gets a bound for each hypothesis, and opens no group of the tree in
    which every class misses the bound.

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
      end: the class that ends a hypothesis, or a list of classes, each of which
        ends it; None: it has `length` classes.
      min_length: how many classes a hypothesis that ends has at least, the end
        class included.
      length_penalty: at least 0; 0 for no penalty, 1 for the mean
        log-probability of a class, nearly.
      exclude: a class or a list of classes that no hypothesis has. The
        probabilities of the other classes stay what they are, as they do with
        `min_length`.
      constraint: a `Trie`, the items that may be found; `end` must be None, and
        `length` at least the depth of the trie. The head then needs
        `log_probs(inputs)` in place of `top_k`, because it scores all codes.
      allowed: `[num_items]` booleans, or a list of items: the items of the
        constraint that may be found, such as the items in stock; None: all.
        `[batch, num_items]` booleans, or `[batch, M]` items with -1 for none,
        are the items of each entry, such as the items that a user has not
        seen. What `constraint.mask(allowed)` returns saves the work for each
        search.

    Returns:
      `Sequences`, best first: classes `[batch, beam_width, length]`, log_probs
      and lengths `[batch, beam_width]`. Where there are fewer hypotheses than
      `beam_width`, the last have the log-probability minus infinity and the
      length 0. NaN counts as a probability of zero.

    Raises:
      TypeError: `head` is none of these, `constraint` is no `Trie`, or an
        argument of classes has no integers.
      tf.errors.InvalidArgumentError: `allowed` has another size, or an item
        that the constraint does not have.
      ValueError: another argument is out of range, or `step` returned something
        else; the message names it.
    """
    needed = "top_k" if constraint is None else "log_probs"
    _sequences.check_head(head, needed)
    _sequences.check_takes_vectors(head)
    beam_width = _checks.check_int("beam_width", beam_width, 1)
    rules = Rules.checked(
        head, length, end, min_length, length_penalty, exclude
    )
    mask = _vocabulary.check_constraint(
        constraint, allowed, head, rules.length, end
    )

    def extend(length, hypotheses, state):
        classes = tf.reshape(vocabulary.to_read(hypotheses.last), [-1])
        hidden, state = _sequences.read(step, classes, state)
        hidden = tf.reshape(hidden, [-1, beam_width, hidden.shape[1]])
        log_probs, tokens = vocabulary.candidates(hypotheses, hidden, length)
        hypotheses, before = _hypotheses.best(
            hypotheses, log_probs, tokens, length, rules, vocabulary.ends_with
        )
        return length + 1, hypotheses, _hypotheses.reorder(state, before)

    with private_tensorflow.infinities():
        first = _sequences.first_classes(start, state)
        if constraint is None:
            vocabulary = _vocabulary.AnyClass(head, rules, beam_width, first)
        else:
            vocabulary = _vocabulary.ChildrenOnly(
                head, rules, constraint, mask, first
            )
        _, hypotheses, _ = tf.while_loop(
            lambda length, hypotheses, state: tf.reduce_any(hypotheses.is_live),
            extend,
            (
                tf.constant(1),
                _hypotheses.empty(vocabulary.first, beam_width, rules.length),
                tf.nest.map_structure(
                    lambda x: tf.repeat(x, beam_width, 0), state
                ),
            ),
            maximum_iterations=rules.length,
        )
        classes = vocabulary.classes(hypotheses.classes)
        return hypotheses._replace(classes=classes).sequences(head)
