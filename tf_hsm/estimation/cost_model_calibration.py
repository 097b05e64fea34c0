"""Finds the constants of a `CostModel` by timing the loss on this machine."""

import itertools
import math
import time

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.cost.model import CostModel
from tf_hsm.ops.loss import hierarchical_softmax_loss
from tf_hsm.tree import Tree

# Each is timed with each, but for the cases with too many products.
_ROWS = (2, 2048, 16384)
_EXAMPLES = (1, 32, 1024)
_MAX_PRODUCTS = 2**31
_REPETITIONS = 5  # of a case, whose median counts

# How often `fit` finds anew which cases are at the floor, and to what share the
# sum of the relative errors must then fall: else fewer cases are.
_FIT_ROUNDS = 4
_FIT_GAIN = 0.9
_FIT_ROUNDING = 1e-9


def calibrate_cost_model(width):
    """Times the loss and its gradients on this machine; fits a `CostModel`.

    It takes a few seconds, on the threads that TensorFlow uses.

    Args:
      width: the largest D that is timed; the other is an eighth of it.

    Returns:
      A `tf_hsm.CostModel`.

    Raises:
      ValueError: the width is not a positive integer.
    """
    width = _checks.check_int("width", width, 1)
    widths = sorted({max(width // 8, 1), width})
    cases = [
        case
        for case in itertools.product(_ROWS, _EXAMPLES, widths)
        if math.prod(case) <= _MAX_PRODUCTS
    ]
    ms = [_median_milliseconds(*case) for case in cases]
    return fit(*np.array(cases, np.float64).T, np.array(ms))


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
            call, floor, weight, logit, product = _non_negative_solution(
                terms / ms
            )
            model = CostModel(
                call=call,
                floor=floor,
                weight=weight,
                logit=logit,
                product=product,
            )
            predicted = model.milliseconds(rows, examples, width=width)
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


def _median_milliseconds(rows, examples, width):
    """Times the loss and its gradients on one group."""
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
        # Reading all of them would copy them, which takes longer.
        return weight_grads.values[0, 0], input_grads[0, 0]

    seconds = []
    for _ in range(2 + _REPETITIONS):  # one to trace, one to warm up
        start = time.perf_counter()
        for result in step(weights, inputs):
            result.numpy()
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds[2:]))
