"""How long a training step takes for the groups that a batch touches.

Grave et al. (2016: Efficient softmax approximation for GPUs) model the product
of k rows and B examples as `g(k, B) = max(c + lambda k0 B0, c + lambda k B)`.
Here it also depends on the width D of the rows, and reading the weights and
writing their gradient, which does not grow with the examples, is apart:

    ms = call + weight k D + max(floor, k B (logit + product D))
"""

import dataclasses
import itertools
import math
import numbers
import time

import numpy as np

from tf_hsm import _tree_checks

# Far beyond any machine, and no product of it overflows.
_MAX_CONSTANT = 1e9

# `calibrate` times each with each, but for the cases with too many products.
_ROWS = (2, 2048, 16384)
_EXAMPLES = (1, 32, 1024)
_MAX_PRODUCTS = 2**31

# How often `fit` finds anew which cases are at the floor, and to what share the
# sum of the relative errors must then fall: else fewer cases are.
_FIT_ROUNDS = 4
_FIT_GAIN = 0.9
_FIT_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class CostModel:
    """Predicts the time of the loss and its gradients, forward and backward.

    The defaults are rounded from two cores with AVX-512 and float32 weights.
    Nothing is timed unless `calibrate` is called.

    Attributes:
      call: ms of a call of the op, whatever its arguments; the paper's c.
      floor: ms that the products of a group take at least; lambda k0 B0.
      weight: ms for each weight of a touched row.
      logit: ms for each logit beside its products.
      product: ms for each product in the logits; lambda / D.

    Raises:
      ValueError: a constant is negative, not finite or above 1e9.
    """

    call: float = 0.5
    floor: float = 0.0
    weight: float = 9e-7
    logit: float = 1.5e-6
    product: float = 5.5e-8

    def __post_init__(self):
        """Checks the constants."""
        for name, value in dataclasses.asdict(self).items():
            is_real = isinstance(value, numbers.Real)
            if not is_real or not 0 <= value <= _MAX_CONSTANT:
                raise ValueError(
                    f"{name} of the cost model is {value!r}; it must be a "
                    f"number from 0 to {_MAX_CONSTANT:g}"
                )

    def weights(self, rows, width):
        """Returns the milliseconds to read and write touched rows.

        All arguments may be numbers, or arrays that broadcast.

        Args:
          rows: how many there are.
          width: D.
        """
        return self.weight * width * rows

    def products(self, rows, examples, width):
        """Returns the milliseconds to score rows, beside those of `weights`.

        Args:
          rows: how many each example scores.
          examples: B.
          width: D.
        """
        logit = self.logit + self.product * width
        return np.maximum(self.floor, logit * rows * examples)

    def milliseconds(self, rows, examples, width):
        """Returns the milliseconds of a call on one group.

        Args:
          rows: k, the group's fanout.
          examples: B.
          width: D.
        """
        return (
            self.call
            + self.weights(rows, width)
            + self.products(rows, examples, width)
        )

    @classmethod
    def calibrate(cls, width=512, repetitions=5):
        """Times the loss and its gradients here, and fits the constants.

        It takes a few seconds, on the threads that TensorFlow uses.

        Args:
          width: the largest D that is timed; the other is an eighth of it.
          repetitions: each case counts with the median of so many calls.

        Raises:
          ValueError: an argument is not a positive integer.
        """
        width = _tree_checks.check_int("width", width, 1)
        repetitions = _tree_checks.check_int("repetitions", repetitions, 1)
        widths = sorted({max(width // 8, 1), width})
        cases = [
            case
            for case in itertools.product(_ROWS, _EXAMPLES, widths)
            if math.prod(case) <= _MAX_PRODUCTS
        ]
        ms = [_median_milliseconds(*case, repetitions) for case in cases]
        return fit(*np.array(cases, np.float64).T, np.array(ms))


@dataclasses.dataclass(frozen=True)
class ClusterCosts:
    """What the clusters of an adaptive softmax cost, in milliseconds a step.

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
        is_real = isinstance(div_value, numbers.Real)
        if not is_real or not 1 <= div_value < math.inf:
            raise ValueError(
                f"div_value is {div_value!r}; it must be a number of at least 1"
            )
        if model is not None and not isinstance(model, CostModel):
            raise TypeError(
                f"cost_model must be a CostModel, not {type(model).__name__}"
            )
        return cls(
            below / below[-1],
            _tree_checks.check_int("batch", batch, 1),
            _tree_checks.check_int("width", width, 1),
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
        """Returns what a class in the head (0) or a flat tail costs alone."""
        if number and self.tail != "flat":
            return 0.0  # its weights are among its products
        return self.model.weights(1, self.tail_width(number))

    def fixed(self, num_tails):
        """Returns what the cutoffs do not change."""
        ms = self.per_class(0) * num_tails
        ms += self.per_class(num_tails) * self.num_classes
        num_calls = 1
        for number in range(1, num_tails + 1):
            width = self.tail_width(number)
            if width < self.width:
                ms += self.model.weights(width, self.width)
                num_calls += 2
        return ms + self.model.call * num_calls

    def head(self, size, num_tails):
        """Returns the cost of a head of `size` classes, beside weights."""
        return self.model.products(size + num_tails, self.batch, self.width)

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
            ms = self.model.products(width, examples, self.width)
        if self.tail != "flat":
            size, touched = _tree_rows(self.tail, size, examples)
            ms = ms + self.model.weights(touched, width)
        return ms + self.model.products(size, examples, width)

    def milliseconds(self, cutoffs):
        """Returns the cost of a step."""
        ends = [*cutoffs, self.num_classes]
        ms = self.fixed(len(cutoffs)) + self.head(ends[0], len(cutoffs))
        for number, (begin, end) in enumerate(itertools.pairwise([0, *ends])):
            ms += self.per_class(number) * (end - begin)
            if number:
                ms += self.tail_of(number, begin, end)
        return float(ms - self.per_class(len(cutoffs)) * self.num_classes)


def check_tail(tail):
    """Returns what a tail is, or raises a ValueError."""
    if not isinstance(tail, str):
        return _tree_checks.check_int("tail", tail, 2)
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


def fit(rows, examples, width, ms):
    """Returns the `CostModel` that is closest to measured times, relatively.

    Which cases are at the floor is found in turn with the constants, from each
    number of those with the fewest products. The rest is linear.

    Args:
      rows: `[n]`, k of each case.
      examples: `[n]`, B.
      width: `[n]`, D.
      ms: `[n]`, milliseconds, all positive.
    """
    logits = rows * examples
    products = logits * width
    rank = np.argsort(np.argsort(products, kind="stable"))
    best, least = None, np.inf
    for num_at_floor in range(rows.size):
        at_floor = rank < num_at_floor
        for _ in range(_FIT_ROUNDS):
            terms = np.stack(
                [
                    np.ones(rows.size),
                    at_floor,
                    rows * width,
                    np.where(at_floor, 0, logits),
                    np.where(at_floor, 0, products),
                ]
            )
            # Relative errors of cases that were disturbed, and slow, are small.
            model = CostModel(*_non_negative_solution(terms / ms))
            predicted = model.milliseconds(rows, examples, width)
            error = np.abs(predicted / ms - 1).sum()
            if error + _FIT_ROUNDING < _FIT_GAIN * least:
                best, least = model, error
            at_floor = model.floor > (
                model.logit * logits + model.product * products
            )
    return best


def _non_negative_solution(terms):
    """Returns the x >= 0 that has `x @ terms` closest to 1, as floats.

    Exact, as it tries each choice of the x that are not 0.
    """
    best, least = None, np.inf
    for chosen in itertools.product([False, True], repeat=len(terms)):
        chosen = np.array(chosen)
        x = np.zeros(chosen.size)
        x[chosen] = np.linalg.lstsq(
            terms[chosen].T, np.ones(terms.shape[1]), rcond=None
        )[0]
        error = np.square(x @ terms - 1).sum()
        if x.min() >= 0 and error < least:
            best, least = x, error
    return best.tolist()


def _median_milliseconds(rows, examples, width, repetitions):
    """Times the loss and its gradients on one group."""
    # Here, as the builders of trees import this module.
    import tensorflow as tf

    from tf_hsm.loss import hierarchical_softmax_loss
    from tf_hsm.tree import Tree

    tree = Tree.balanced(rows, [rows])
    rng = np.random.default_rng(0)
    labels = tf.constant(rng.integers(rows, size=examples))
    weights, inputs = (
        tf.constant(rng.standard_normal([n, width], np.float32) / width)
        for n in (rows, examples)
    )

    @tf.function
    def step(weights, inputs):
        with tf.GradientTape() as tape:
            tape.watch([weights, inputs])
            loss = hierarchical_softmax_loss(
                weights, None, labels, inputs, tree
            )
        weight_grads, input_grads = tape.gradient(loss, [weights, inputs])
        return weight_grads.values, input_grads

    seconds = []
    for _ in range(2 + repetitions):  # one to trace, one to warm up
        start = time.perf_counter()
        for result in step(weights, inputs):
            result.numpy()
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds[2:]))
