"""What a beam search is asked for: which hypotheses, and how they score."""

import dataclasses
import math

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.decoding import _sequences


@dataclasses.dataclass(frozen=True)
class Rules:
    """The arguments of `beam_search` that say what a hypothesis is."""

    length: int
    end: int | None
    min_length: int
    length_penalty: float
    exclude: tuple[int, ...]

    @classmethod
    def checked(cls, head, length, end, min_length, length_penalty, exclude):
        """Takes what users pass; a ValueError where it is out of range."""
        length = _checks.check_int("length", length, 1)
        min_length = _checks.check_int("min_length", min_length, 1)
        if min_length > length:
            raise ValueError(
                f"min_length is {min_length}, but length is {length}"
            )
        if end is not None:
            end = _sequences.check_class("end", end, head)
        elif min_length > 1:
            raise ValueError(
                f"min_length is {min_length}, but nothing ends a sequence "
                "before it has `length` classes; give `end`"
            )
        if not 0 <= length_penalty < math.inf:
            raise ValueError(
                f"length_penalty is {length_penalty}; it must be at least 0 "
                "and finite"
            )
        exclude = tuple(
            _sequences.check_class("exclude", c, head) for c in exclude
        )
        return cls(length, end, min_length, float(length_penalty), exclude)

    @property
    def most_out(self):
        """How many classes may be none at some position."""
        return len(self.exclude) + (self.min_length > 1)

    def is_out(self, classes, length):
        """Which classes may not be the last of hypotheses of this length."""
        is_out = tf.zeros_like(classes, tf.bool)
        for c in self.exclude:
            is_out |= classes == c
        if self.min_length > 1:
            is_out |= (classes == self.end) & (length < self.min_length)
        return is_out

    def ends(self, classes):
        """Which classes are the end."""
        if self.end is None:
            return tf.zeros_like(classes, tf.bool)
        return classes == self.end

    def penalty(self, lengths):
        """What a log-probability is divided by, float64."""
        return ((5 + tf.cast(lengths, tf.float64)) / 6) ** self.length_penalty
