"""Rules of a beam search: its legal hypotheses, and their scores."""

import dataclasses
import math

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.decoding import _sequences


@dataclasses.dataclass(frozen=True)
class Rules:
    """The arguments of `beam_search` that define a hypothesis."""

    length: int
    ends: tuple[int, ...]
    min_length: int
    length_penalty: float
    exclude: tuple[int, ...]

    @classmethod
    def checked(cls, head, length, end, min_length, length_penalty, exclude):
        """Makes rules of arguments; a ValueError if one is out of range."""
        length = _checks.check_int("length", length, 1)
        min_length = _checks.check_int("min_length", min_length, 1)
        if min_length > length:
            raise ValueError(
                f"min_length is {min_length}, but length is {length}"
            )
        ends = _sequences.check_classes("end", end, head)
        if not ends and min_length > 1:
            raise ValueError(
                f"min_length is {min_length}, but nothing ends a sequence "
                "before it has `length` classes; give `end`"
            )
        if not 0 <= length_penalty < math.inf:
            raise ValueError(
                f"length_penalty is {length_penalty}; it must be at least 0 "
                "and finite"
            )
        exclude = _sequences.check_classes("exclude", exclude, head)
        return cls(length, ends, min_length, float(length_penalty), exclude)

    @property
    def most_out(self):
        """The number of classes that are illegal at some position."""
        ends = self.ends if self.min_length > 1 else ()
        return len({*self.exclude, *ends})

    def is_out(self, classes, length):
        """Returns whether classes are illegal at the end of this length."""
        is_out = _sequences.is_one_of(classes, self.exclude)
        if self.min_length > 1:
            is_out |= self.ends_with(classes) & (length < self.min_length)
        return is_out

    def ends_with(self, classes):
        """Returns whether classes end a hypothesis."""
        return _sequences.is_one_of(classes, self.ends)

    def penalty(self, lengths):
        """Returns the divisors of log-probabilities, float64."""
        return ((5 + tf.cast(lengths, tf.float64)) / 6) ** self.length_penalty
