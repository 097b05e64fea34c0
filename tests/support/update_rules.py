"""The update rules of the optimizers in float64 NumPy, one line each.

Beside each result a bound on the error of an implementation, as in `oracle`.
"""

import ml_dtypes
import numpy as np

from tests.support import oracle
from tf_hsm import optimizers

# Each with an epsilon that is felt, and with numbers that are not binary.
OPTIMIZERS = {
    "sgd": lambda rate=0.3: optimizers.SGD(rate),
    "adagrad": lambda rate=0.3: optimizers.Adagrad(
        rate, initial_accumulator_value=0.05, epsilon=0.01
    ),
    "rowwise_adagrad": lambda rate=0.3: optimizers.RowwiseAdagrad(
        rate, initial_accumulator_value=0.05, epsilon=0.01
    ),
    "lazy_adam": lambda rate=0.03: optimizers.LazyAdam(
        rate, sparse_beta_1=0.8, beta_2=0.95, epsilon=0.01
    ),
    "rmsprop": lambda rate=0.03: optimizers.RMSprop(
        rate, rho=0.8, momentum=0.3, centered=True, epsilon=0.01
    ),
    "lion": lambda rate=0.003: optimizers.Lion(rate, beta_1=0.8, beta_2=0.95),
}
# Those whose step in place GPUs have too.
ON_GPUS = ["sgd", "adagrad", "rowwise_adagrad", "lazy_adam"]


def built(rule, variables, **options):
    """Returns an optimizer of OPTIMIZERS, built with variables or None."""
    optimizer = OPTIMIZERS[rule](**options)
    optimizer.build([v for v in variables if v is not None])
    return optimizer


def stepped(optimizer, step, value, slots, gradient, error, dtype):
    """Computes the next step of an optimizer on rows that are all touched.

    Args:
        optimizer: One of `tf_hsm.optimizers`.
        step: 1 for its first.
        value: `[U, ...]`, some rows of a variable.
        slots: The same rows of each slot.
        gradient: `[U, ...]`.
        error: `[U, ...]`, a bound on the error of an implementation's gradient.
        dtype: The type to which an implementation rounds the value.

    Returns:
        The new value and slots, as a list, and bounds on the errors of each:
        of the first order, doubled.
    """
    u = oracle.unit_roundoff(oracle.accumulator(dtype))
    if dtype == np.float64:
        u *= 2  # What is written here rounds like the implementation.
    rate, epsilon = float(optimizer.learning_rate), 0.0
    g, square = gradient, gradient**2
    square_error = 2 * abs(g) * error + error**2
    if isinstance(optimizer, optimizers.LazyAdam):
        epsilon = optimizer.epsilon
        beta_1, beta_2 = optimizer.sparse_beta_1, optimizer.beta_2
        rate *= np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        m = beta_1 * slots[0] + (1 - beta_1) * g
        v = beta_2 * slots[1] + (1 - beta_2) * square
        m_error = (1 - beta_1) * error + 4 * u * (abs(slots[0]) + abs(g))
        v_error = (1 - beta_2) * square_error + 4 * u * (slots[1] + square)
        divisor = np.sqrt(v) + epsilon
        divisor_error = np.sqrt(v + v_error)
        divisor_error -= np.sqrt(np.maximum(v - v_error, 0))
        slots, errors = [m, v], [m_error, v_error]
        change, change_error = rate * m / divisor, rate * m_error / divisor
    elif isinstance(optimizer, optimizers.RMSprop):
        rho, momentum = optimizer.rho, optimizer.momentum
        v, p, a = slots
        v_error = (1 - rho) * square_error + 4 * u * (v + square)
        a_error = (1 - rho) * error + 4 * u * (abs(a) + abs(g))
        v, a = rho * v + (1 - rho) * square, rho * a + (1 - rho) * g
        variance = v - a**2
        variance_error = v_error + 2 * abs(a) * a_error + a_error**2
        variance_error += 4 * u * v
        divisor = np.sqrt(variance + optimizer.epsilon)
        step, divisor_error = rate * g / divisor, variance_error / divisor / 2
        change = momentum * p + step
        change_error = rate * error / divisor + 4 * u * abs(p)
        change_error += abs(step) * (divisor_error / divisor + 8 * u)
        slots, errors = [v, change, a], [v_error, change_error, a_error]
        divisor, divisor_error = 1.0, 0.0
    elif isinstance(optimizer, optimizers.Lion):
        beta_1, beta_2, m = optimizer.beta_1, optimizer.beta_2, slots[0]
        c = beta_1 * m + (1 - beta_1) * g
        c_error = (1 - beta_1) * error + 4 * u * (abs(m) + abs(g))
        m_error = (1 - beta_2) * error + 4 * u * (abs(m) + abs(g))
        slots, errors = [beta_2 * m + (1 - beta_2) * g], [m_error]
        change = rate * np.sign(c)
        # A sign of no certain number is any.
        change_error = np.where(abs(c) <= c_error, 2 * rate, 0.0)
        divisor, divisor_error = 1.0, 0.0
    elif isinstance(optimizer, optimizers.Adagrad):
        if isinstance(optimizer, optimizers.RowwiseAdagrad) and g.ndim > 1:
            square = square.mean(axis=1)
            square_error = square_error.mean(axis=1) + g.shape[1] * u * square
        total = slots[0] + square
        total_error = square_error + 4 * u * total
        divisor = np.sqrt(total + optimizer.epsilon)
        divisor_error = total_error / divisor / 2
        slots, errors = [total], [total_error]
        if divisor.ndim < g.ndim:
            divisor, divisor_error = divisor[:, None], divisor_error[:, None]
        change, change_error = rate * g / divisor, rate * error / divisor
    else:
        divisor, divisor_error, errors = 1.0, 0.0, []
        change, change_error = rate * g, rate * error
    change_error += abs(change) * (divisor_error / divisor + 8 * u)
    new = value - change
    value_error = 2 * change_error + u * (abs(value) + abs(change))
    if dtype != oracle.accumulator(dtype):
        value_error += oracle.unit_roundoff(dtype) * (abs(new) + value_error)
        # A number below the smallest normal one keeps an absolute precision.
        value_error += float(ml_dtypes.finfo(dtype).smallest_normal)
    return [new, *slots], [value_error, *(2 * e for e in errors)]
