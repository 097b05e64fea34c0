"""Tokens that may follow a hypothesis: any class, or a child in a trie.

Both kinds have one interface. A hypothesis is a sequence of *tokens*: classes
of the head, or nodes of the trie. The step reads the classes of tokens.
"""

import tensorflow as tf

from tf_hsm.decoding import _candidates, _sequences


class AnyClass:
    """Every class of the head may follow; the tokens are the classes."""

    def __init__(self, head, rules, beam_width, first):
        """Takes the classes that are read first, `[batch]`."""
        self._head = head
        self._rules = rules
        self._k = min(beam_width + rules.most_out, head.num_classes)
        self.first = first

    def classes(self, tokens):
        """Returns the classes of tokens."""
        return tokens

    def to_read(self, tokens):
        """Returns the classes that the step reads for tokens."""
        return tokens

    def ends_with(self, tokens):
        """Returns which tokens end a hypothesis."""
        return self._rules.ends_with(tokens)

    def candidates(self, hypotheses, hidden, length):
        """Returns log-probabilities and tokens that may be among the best.

        Args:
          hypotheses: the `Hypotheses` so far.
          hidden: `[batch, beam_width, D]`.
          length: how many tokens a hypothesis with one more has.

        Returns:
          `[batch, beam_width, k]` each; minus infinity for no candidate.
        """
        rules = self._rules

        def best(hidden, bounds):
            found = self._head.top_k(hidden, self._k, bounds=bounds)
            log_probs = tf.cast(found.log_probs, tf.float64)
            is_out = rules.is_out(found.classes, length)
            is_out |= tf.math.is_nan(log_probs)
            return tf.where(is_out, _sequences.NEVER, log_probs), found.classes

        return _candidates.find(
            best,
            hidden,
            hypotheses.of_live(),
            hypotheses.of_ended() / rules.penalty(hypotheses.lengths),
            rules.penalty(length),
        )


class ChildrenOnly:
    """Only children of a node of a trie may follow; the tokens are nodes."""

    def __init__(self, head, rules, trie, mask, start):
        """Takes the `Trie`, its `NodeMask` or None, and `[batch]` classes."""
        self._head = head
        self._rules = rules
        self._trie = trie
        self._mask = mask
        self._start = start
        self.first = tf.zeros_like(start)  # the root

    def classes(self, tokens):
        """See `AnyClass`."""
        return self._trie.codes(tokens)

    def to_read(self, tokens):
        """See `AnyClass`; the root stands for the class that is read first."""
        start = self._start[:, tf.newaxis]
        return tf.where(tf.equal(tokens, 0), start, self.classes(tokens))

    def ends_with(self, tokens):
        """See `AnyClass`: the leaves."""
        return self._trie.is_leaf(tf.maximum(tokens, 0))

    def candidates(self, hypotheses, hidden, length):
        """See `AnyClass`; the candidates are all children."""
        nodes = children(self._trie, self._mask, hypotheses.last)
        codes = self._trie.codes(nodes)
        log_probs = self._head.log_probs(hidden)
        log_probs = tf.gather(log_probs, tf.maximum(codes, 0), batch_dims=2)
        log_probs = tf.cast(log_probs, tf.float64)
        is_out = self._rules.is_out(codes, length) | (nodes < 0)
        is_out |= tf.math.is_nan(log_probs)
        log_probs = tf.where(is_out, _sequences.NEVER, log_probs)
        live = hypotheses.of_live()[..., tf.newaxis]
        return live + log_probs, tf.cast(nodes, tf.int64)


def children(trie, mask, nodes):
    """Returns the children `[..., F]` of nodes that a mask allows, else -1."""
    found = trie.children(nodes)
    return found if mask is None else mask.keep(found)


def check_constraint(constraint, allowed, head, length, end):
    """Checks the arguments of a decoder that restrict its classes.

    Returns the `NodeMask`, or None where all items are allowed.

    Raises:
      TypeError: the constraint is no `Trie`.
      ValueError: an argument does not go with another.
    """
    if constraint is None:
        if allowed is not None:
            raise ValueError("allowed needs a constraint, whose items it masks")
        return None
    for name in ("children", "codes", "mask"):
        if not hasattr(constraint, name):
            raise TypeError(
                "constraint must be a tf_hsm.decoding.Trie of the items' "
                f"codes, not a {type(constraint).__name__}"
            )
    if end is not None:
        raise ValueError(
            "end does not go with a constraint, whose paths say where a "
            "sequence ends; leave it out"
        )
    if length < constraint.depth:
        raise ValueError(
            f"length is {length}, but a path of the constraint has "
            f"{constraint.depth} codes"
        )
    if constraint.num_codes > head.num_classes:
        raise ValueError(
            f"the constraint has the code {constraint.num_codes - 1}, but the "
            f"classes of the head are 0 to {head.num_classes - 1}"
        )
    if allowed is None or hasattr(allowed, "keep"):
        return allowed
    return constraint.mask(allowed)
