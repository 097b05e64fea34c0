"""Sequences that are drawn."""

import functools
import math

import keras
import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.decoding import _sequences, _vocabulary
from tf_hsm.decoding._rules import Rules
from tf_hsm.ops import sample
from tf_hsm.ops.top_k import TopK
from tf_hsm.runtime import private_tensorflow


@keras.saving.register_keras_serializable("tf_hsm")
class Sampler:
    """Draws sequences of classes, each class by the probabilities of the head.

    In the style of KerasHub's samplers, but on a head that never makes the
    probabilities of all classes:

    >>> sampler = tf_hsm.decoding.Sampler(temperature=0.8, top_p=0.9, seed=1)
    >>> sequences = sampler(step, state, head, length=50, start=2, end=3)

    For another rule, override `next_classes`.

    Args:
      temperature: see `tf_hsm.hierarchical_softmax_sample`. 0: the most
        probable class is taken each time, as by a `beam_search` with
        `beam_width=1`.
      top_k: draw among the k most probable classes; None: among all.
      top_p: draw among the fewest most probable classes that, after the
        temperature, reach this share of the probability, in (0, 1]; None: among
        all.
      repetition_penalty: p(class) becomes p ** repetition_penalty for the
        classes that a sequence already has (Keskar et al., 2019, CTRL,
        arXiv:1909.05858, with log-probabilities for the logits), before all
        else; a number of at least 1.
      seed: an integer: each call gives the same classes for the same
        arguments. None: other ones, from TensorFlow's global generator.

    Raises:
      TypeError: seed is no integer.
      ValueError: another argument is out of range.
    """

    def __init__(
        self,
        *,
        temperature=1.0,
        top_k=None,
        top_p=None,
        repetition_penalty=1.0,
        seed=None,
    ):
        if not 0 <= temperature < math.inf:
            raise ValueError(
                f"temperature is {temperature}; it must be at least 0 and "
                "finite"
            )
        if top_p is not None and not 0 < top_p <= 1:
            raise ValueError(
                f"top_p is {top_p}; it must be above 0 and at most 1"
            )
        if not 1 <= repetition_penalty < math.inf:
            raise ValueError(
                f"repetition_penalty is {repetition_penalty}; it must be at "
                "least 1 and finite"
            )
        self.repetition_penalty = repetition_penalty
        self.temperature = temperature
        if top_k is not None:
            top_k = _checks.check_int("top_k", top_k, 1)
        self.top_k = top_k
        self.top_p = top_p
        self.seed = None if seed is None else _checks.as_integer("seed", seed)

    def __call__(
        self,
        step,
        state,
        head,
        *,
        length,
        start=0,
        end=None,
        min_length=1,
        exclude=(),
        constraint=None,
        allowed=None,
    ):
        """Draws a sequence for each entry of the batch.

        With `exclude`, `min_length` or a repetition penalty, each class is
        drawn among the `top_k` most probable ones that these leave, by default
        about 1,024: as many as are sure to be left of the 1,024 most probable
        classes. Their probabilities count relative to their sum.

        Args:
          step: a function `(classes, state) -> (hidden, state)`; see
            `tf_hsm.decoding`.
          state: the first state, a nest of tensors `[batch, ...]`; `()` for
            none.
          head: a built layer of `tf_hsm.layers`; or what has their
            `num_classes`, `sample` and `log_prob`, and `top_k` for rules.
          length: how many classes a sequence has at most.
          start: the class that is read first and is no part of a sequence: an
            integer, or `[batch]`.
          end: the class that ends a sequence, or a list of classes, each of
            which ends it; None: none.
          min_length: how many classes a sequence that ends has at least, the
            end class included.
          exclude: a class or a list of classes that are never drawn.
          constraint: a `Trie`, the items that may be drawn. Each code is drawn
            among the children of the codes before; `end` must be None, and
            `length` at least the depth of the trie.
          allowed: the items of the constraint that may be drawn; as for
            `beam_search`.

        Returns:
          `Sequences` of classes `[batch, length]`, log_probs and lengths
          `[batch]`. The log-probabilities are the model's, whatever the
          temperature. A sequence also ends where the probabilities are NaN, or
          no class is left; its log-probability is then NaN.

        Raises:
          TypeError: `head` is none, `start` no integers, or `constraint` no
            `Trie`.
          tf.errors.InvalidArgumentError: `allowed` has another size, or an item
            that the constraint does not have.
          ValueError: another argument is out of range, or `step` returned
            something else; the message names it.
        """
        _sequences.check_head(head, "sample", "log_prob")
        rules = Rules.checked(head, length, end, min_length, 0.0, exclude)
        length = rules.length
        mask = _vocabulary.check_constraint(
            constraint, allowed, head, length, end
        )
        is_ruled = rules.most_out > 0 or self.repetition_penalty != 1
        if is_ruled:
            _sequences.check_head(head, "top_k")
        first = _sequences.first_classes(start, state)
        state = tf.nest.map_structure(tf.convert_to_tensor, state)

        def draw(is_live, position, last, node, sequences, state):
            hidden, state = _sequences.read(step, last, state)
            options = {}
            if constraint is not None:
                nodes = _vocabulary.children(constraint, mask, node)
                options["allowed"] = constraint.codes(nodes)
            if is_ruled:
                options["best"] = functools.partial(
                    self._best, rules, position, sequences.classes, {**options}
                )
            drawn = self.next_classes(head, hidden, position, **options)
            last = tf.maximum(drawn, 0)
            log_probs = head.log_prob(last[:, tf.newaxis], hidden)[:, 0]
            log_probs = tf.where(
                drawn < 0, np.float64("nan"), tf.cast(log_probs, tf.float64)
            )
            is_drawn = is_live & ~tf.math.is_nan(log_probs)
            sequences = _sequences.Sequences(
                _sequences.put(
                    sequences.classes,
                    position,
                    tf.where(is_drawn, drawn, _sequences.NONE),
                ),
                sequences.log_probs + tf.where(is_live, log_probs, 0),
                sequences.lengths + tf.cast(is_drawn, tf.int32),
            )
            is_drawn &= ~rules.ends_with(drawn)
            if constraint is not None:
                node = tf.maximum(constraint.child(node, drawn), 0)
                is_drawn &= ~constraint.is_leaf(node)
            return is_drawn, position + 1, last, node, sequences, state

        nothing = _sequences.Sequences(
            _sequences.empty([tf.size(first)], length),
            tf.zeros_like(first, tf.float64),
            tf.zeros_like(first, tf.int32),
        )
        all_live = tf.ones_like(first, tf.bool)
        root = tf.zeros_like(first, tf.int32)
        with private_tensorflow.infinities():
            *_, drawn, _ = tf.while_loop(
                lambda is_live, *_: tf.reduce_any(is_live),
                draw,
                (all_live, tf.constant(0), first, root, nothing, state),
                maximum_iterations=length,
            )
        log_probs = _sequences.in_type_of(head, drawn.log_probs)
        return drawn._replace(log_probs=log_probs)

    def next_classes(self, head, hidden, position, allowed=None, best=None):
        """Draws the next class of each sequence.

        Args:
          head: see above.
          hidden: `[B, width]`.
          position: how many classes the sequences have, a scalar: with a seed,
            the same ones are drawn for the same position.
          allowed: with a constraint, `[B, F]`, the codes that may follow each
            sequence, and -1; else it is not passed.
          best: with `exclude`, `min_length` or a repetition penalty, a function
            `(head, hidden, k)` that returns the `TopK` of the k best classes
            that these leave, by default about 1,024; else it is not passed.

        Returns:
          `[B]`, int64; -1 where the probabilities are NaN, or nothing is left.
        """
        options = {} if allowed is None else {"allowed": allowed}
        seed = self.seed
        if seed is not None:
            seed = tf.stack(
                [tf.constant(seed, tf.int64), tf.cast(position, tf.int64)]
            )
        if best is None:
            drawn = head.sample(
                hidden,
                1,
                seed=seed,
                temperature=self.temperature,
                top_k=self.top_k,
                top_p=self.top_p,
                **options,
            )
        else:
            k = 1 if self.temperature == 0 else self.top_k
            drawn = sample.draw_of_best(
                best(head, hidden, k),
                1,
                sample.seed_pair(seed),
                self.temperature,
                self.top_p,
            )
        return drawn[:, 0]

    def _best(self, rules, position, sequences, options, head, hidden, k):
        """Returns the `TopK` of the k best classes that the rules leave."""
        more = rules.most_out
        if self.repetition_penalty != 1:
            more += rules.length
        if k is None:
            # A GPU finds no more classes at once.
            k = max(1, sample.MAX_TEMPERED - more)
        k = min(k, head.num_classes)
        found = head.top_k(hidden, min(k + more, head.num_classes), **options)
        classes = found.classes
        log_probs = tf.cast(found.log_probs, tf.float64)
        if self.repetition_penalty != 1:
            is_seen = classes[..., tf.newaxis] == sequences[:, tf.newaxis]
            penalized = self.repetition_penalty * log_probs
            log_probs = tf.where(
                tf.reduce_any(is_seen, -1), penalized, log_probs
            )
        is_out = rules.is_out(classes, position + 1)
        is_out |= tf.math.is_nan(log_probs)
        log_probs = tf.where(is_out, _sequences.NEVER, log_probs)
        best = tf.math.top_k(log_probs, k)
        return TopK(best.values, tf.gather(classes, best.indices, batch_dims=1))

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "repetition_penalty": self.repetition_penalty,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        """Makes the sampler that `get_config` described."""
        return cls(**config)
