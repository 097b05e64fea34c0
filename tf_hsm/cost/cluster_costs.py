"""The cost of the clusters of an adaptive softmax."""

import dataclasses
import itertools
import math

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.model import CostModel


@dataclasses.dataclass(frozen=True)
class ClusterCosts:
    """Returns the cost of adaptive clusters, in milliseconds a step.

    Attributes:
      below: `[N + 1]`, the probability of the m most frequent classes.
      batch: B.
      width: D.
      div_value: how much narrower each tail is than the one before.
      tail: "flat", "two_level" or a branching.
      model: the `CostModel`.
    """

    below: np.ndarray
    batch: int
    width: int
    div_value: float
    tail: str | int
    model: CostModel

    @classmethod
    def of(cls, counts, batch, width, div_value, tail, model):
        """Makes the costs from what `cutoffs` is given, having checked it."""
        if not counts.any():
            counts = np.ones_like(counts)
        below = np.append(0.0, np.cumsum(counts / counts.max()))
        _checks.check_real("div_value", div_value, 1)
        if model is not None and not isinstance(model, CostModel):
            raise TypeError(
                f"cost_model must be a CostModel, not {type(model).__name__}"
            )
        return cls(
            below / below[-1],
            _checks.check_int("batch", batch, 1),
            _checks.check_int("width", width, 1),
            float(div_value),
            check_tail(tail),
            CostModel() if model is None else model,
        )

    @property
    def num_classes(self):
        """N."""
        return self.below.size - 1

    @property
    def is_quadrangle(self):
        """Whether `tail_of` satisfies the quadrangle inequality."""
        return self.tail == "flat"

    def tail_width(self, number):
        """Returns the width of tail `number`, where the first is 1."""
        if number * math.log(self.div_value) > math.log(self.width) + 1:
            return 0  # and the power might overflow
        return int(self.width // self.div_value**number)

    def per_class(self, number):
        """Returns what a class costs alone: 0 is the shortlist, else a tail."""
        if number and self.tail != "flat":
            return 0.0  # its weights are among its products
        return self.model.weights(1, width=self.tail_width(number))

    def fixed(self, num_tails):
        """Returns what the cutoffs do not change."""
        ms = self.per_class(0) * num_tails
        ms += self.per_class(num_tails) * self.num_classes
        num_calls = 1
        for number in range(1, num_tails + 1):
            width = self.tail_width(number)
            if width < self.width:
                ms += self.model.weights(width, width=self.width)
                num_calls += 2
        return ms + self.model.call * num_calls

    def shortlist(self, size, num_tails):
        """Returns the cost of a shortlist of `size` classes, beside weights."""
        return self.model.products(
            size + num_tails, self.batch, width=self.width
        )

    def tail_of(self, number, begin, end):
        """Returns the cost of tail `number`, [begin, end), beside weights.

        An empty tail counts as one class without examples. Arguments may be
        arrays that broadcast.
        """
        size = np.maximum(end - begin, 1)
        examples = self.below[end] - self.below[begin]
        examples = self.batch * np.maximum(examples, 0)
        width, ms = self.tail_width(number), 0.0
        if width < self.width:
            ms = self.model.products(width, examples, width=self.width)
        if self.tail != "flat":
            size, touched = _tree_rows(self.tail, size, examples)
            ms = ms + self.model.weights(touched, width=width)
        return ms + self.model.products(size, examples, width=width)

    def milliseconds(self, cutoffs):
        """Returns the cost of a step."""
        ends = [*cutoffs, self.num_classes]
        ms = self.fixed(len(cutoffs)) + self.shortlist(ends[0], len(cutoffs))
        for number, (begin, end) in enumerate(itertools.pairwise([0, *ends])):
            ms += self.per_class(number) * (end - begin)
            if number:
                ms += self.tail_of(number, begin, end)
        return float(ms - self.per_class(len(cutoffs)) * self.num_classes)


def check_tail(tail):
    """Returns what a tail is, or raises a ValueError."""
    if not isinstance(tail, str):
        return _checks.check_int("tail", tail, 2)
    if tail not in ("flat", "two_level"):
        raise ValueError(
            f"tail is {tail!r}; it must be 'flat', 'two_level' or the "
            "branching of a balanced tree"
        )
    return tail


def _tree_rows(tail, size, examples):
    """Counts the rows of a tail that is a tree, as if all divided evenly.

    Returns:
      The rows that one example scores, and those that all of them touch.
    """
    fanouts = [np.sqrt(size)] * 2
    if tail != "two_level":
        fanouts = []
        while np.max(size) > 1:
            fanout = np.minimum(size, tail)
            fanouts.append(np.where(size > 1, fanout, 0))
            size = size / fanout
    scored = touched = 0
    groups = 1
    for fanout in fanouts:
        scored = scored + fanout
        touched = touched + fanout * np.minimum(groups, examples)
        groups = groups * np.maximum(fanout, 1)
    return scored, touched
