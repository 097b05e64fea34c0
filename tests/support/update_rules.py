"""The update rules of the optimizers in float64 NumPy.

Beside each result a bound on the error of an implementation, as in `oracle`.
"""

import functools

import keras
import numpy as np
import tensorflow as tf

from tests.support import oracle
from tests.support.places import HERE
from tf_hsm import optimizers

RATE = 0.1
# One that is felt, so that its place in a formula matters.
EPSILON = 0.01

_ADAGRAD = {"initial_accumulator_value": 0.1, "epsilon": EPSILON}
_ADAM = {"sparse_beta_1": 0.9, "epsilon": EPSILON}
_RMSPROP = {"epsilon": EPSILON}
_CENTERED = {"epsilon": EPSILON, "centered": True}
# Makes an optimizer of every rule, with each of the options that change it.
OURS = {
    rule: functools.partial(getattr(optimizers, name), RATE, **options)
    for rule, name, options in (
        ("sgd", "SGD", {}),
        ("momentum", "SGD", {"momentum": 0.9}),
        ("nesterov", "SGD", {"momentum": 0.9, "nesterov": True}),
        ("adagrad", "Adagrad", _ADAGRAD),
        ("rowwise_adagrad", "RowwiseAdagrad", _ADAGRAD),
        ("adam", "LazyAdam", _ADAM),
        ("amsgrad", "LazyAdam", {**_ADAM, "amsgrad": True}),
        ("rmsprop", "RMSprop", _RMSPROP),
        ("rmsprop_momentum", "RMSprop", {**_RMSPROP, "momentum": 0.8}),
        ("rmsprop_centered", "RMSprop", _CENTERED),
        (
            "rmsprop_centered_momentum",
            "RMSprop",
            {**_CENTERED, "momentum": 0.8},
        ),
        ("lion", "Lion", {}),
    )
}
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
# Those whose step in place GPUs have too: of RMSprop, without its options.
_PLAIN = {
    "plain_rmsprop": lambda rate=0.03: optimizers.RMSprop(
        rate, rho=0.8, epsilon=0.01
    )
}
ON_GPUS = [
    *("sgd", "adagrad", "rowwise_adagrad", "lazy_adam", "lion"),
    *_PLAIN,
]


def built(rule, variables, **options):
    """Returns an optimizer of OPTIMIZERS, built with variables or None."""
    optimizer = (OPTIMIZERS | _PLAIN)[rule](**options)
    optimizer.build([v for v in variables if v is not None])
    return optimizer


class Reference:
    """A table in float64 that follows an optimizer on the rows it touches.

    Attributes:
        table: `[N, ...]`.
        slots: A list, as the optimizer has them.
        rate: The learning rate.
    """

    def __init__(self, table, optimizer, store=np.float64):
        """Begins with a table; `store` rounds a row when it is written."""
        self.table = np.array(table, np.float64)
        self.slots = _first_slots(optimizer, self.table.shape)
        self.rate = RATE
        self._optimizer, self._store, self._steps = optimizer, store, 0

    def apply(self, rows, values):
        """Makes a step for values `[U, ...]` of rows `[U]`, any repeated."""
        self._steps += 1
        touched, places = np.unique(rows, return_inverse=True)
        sums = np.zeros([len(touched), *self.table.shape[1:]])
        np.add.at(sums, places, values)
        (new, *slots), _ = stepped(
            self._optimizer,
            self._steps,
            self.table[touched],
            [slot[touched] for slot in self.slots],
            sums,
            0 * sums,
            np.dtype(np.float64),
            rate=self.rate,
        )
        self.table[touched] = new.astype(self._store)
        for slot, value in zip(self.slots, slots, strict=True):
            slot[touched] = value


# float32 keeps four digits of the 1 - 0.999^t in Adam's rate.
def assert_close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(
        tf.cast(actual, tf.float64), expected, tolerance, tolerance
    )


def check_steps(
    rule,
    table,
    gradients,
    *,
    optimizer=None,
    rates=None,  # one for each step
    graph=False,
    place=HERE,
    tolerance=1e-5,
    of_slots=1e-5,
):
    """Asserts that steps on a table equal the steps of the reference.

    A gradient is rows and values; rows are None for all. Returns the variable,
    its slots, and their first values.
    """
    optimizer = optimizer or OURS[rule]()
    with tf.device(place.device):
        variable = keras.Variable(table, dtype=table.dtype.name)
        optimizer.build([variable])
    slots = optimizer.slots(variable)
    first = [slot.numpy() for slot in slots]
    reference = Reference(table, optimizer, table.dtype)

    def apply(gradient):
        place.run(lambda: optimizer.apply([gradient], [variable]))

    if graph:
        apply = tf.function(apply)
    for step, (rows, values) in enumerate(gradients):
        if rows is None:
            apply(tf.constant(values))
            rows = np.arange(len(table))
        else:
            parts = map(tf.constant, (values, rows, table.shape))
            apply(tf.IndexedSlices(*parts))
        if rates is not None:
            reference.rate = rates[step]
        reference.apply(rows, values.astype(np.float64))
    assert_close(variable, reference.table, tolerance)
    for slot, expected in zip(slots, reference.slots, strict=True):
        assert_close(slot, expected, of_slots)
    return variable, slots, first


def _first_slots(optimizer, shape):
    """What the slots of a variable are before the first step."""
    if isinstance(optimizer, optimizers.Adagrad):
        if isinstance(optimizer, optimizers.RowwiseAdagrad):
            shape = shape[:1]
        return [np.full(shape, optimizer.initial_accumulator_value)]
    if isinstance(optimizer, optimizers.LazyAdam):
        count = 2 + optimizer.amsgrad
    elif isinstance(optimizer, optimizers.RMSprop):
        count = 1 + (optimizer.momentum > 0) + optimizer.centered
    else:
        count = isinstance(optimizer, optimizers.Lion) or optimizer.momentum > 0
    return [np.zeros(shape) for _ in range(count)]


def stepped(
    optimizer,
    step,
    value,
    slots,
    gradient,
    error,
    dtype,
    decays=True,
    rate=None,
):
    """Computes the next step of an optimizer on rows that are all touched.

    Args:
        optimizer: One of `tf_hsm.optimizers`.
        step: 1 for its first.
        value: `[U, ...]`, some rows of a variable.
        slots: The same rows of each slot.
        gradient: `[U, ...]`.
        error: `[U, ...]`, a bound on the error of an implementation's gradient.
        dtype: The type to which an implementation rounds the value.
        decays: Whether the optimizer's weight decay applies to the rows.
        rate: The learning rate; None: the optimizer's.

    Returns:
        The new value and slots, as a list, and bounds on the errors of each:
        of the first order, doubled.
    """
    u = oracle.sum_roundoff(dtype)
    rate = float(optimizer.learning_rate) if rate is None else rate
    kinds = (k for k in _RULES if isinstance(optimizer, k))
    rule = _RULES[next(kinds)]
    change, change_error, slots, errors = rule(
        optimizer, step, slots, gradient, error, u, rate
    )
    change_error = change_error + 8 * u * abs(change)
    if decays and optimizer.weight_decay:
        shrinks = rate * optimizer.weight_decay * value
        change = change + shrinks
        change_error = change_error + 8 * u * abs(shrinks)
        # Two numbers may be subtracted, one after the other.
        change_error = change_error + u * abs(value) / 2
    new = value - change
    value_error = 2 * change_error + u * (abs(value) + abs(change))
    oracle.add_rounding(value_error, new, dtype, oracle.accumulator(dtype))
    return [new, *slots], [value_error, *(2 * e for e in errors)]


# A rule returns the change, which is subtracted, a bound on its error, the new
# slots and bounds on theirs.


def _mean(old, beta, new, error, u):
    """The moving average of numbers, and a bound on its error."""
    bound = (1 - beta) * error + 4 * u * (abs(old) + abs(new))
    return beta * old + (1 - beta) * new, bound


def _square(g, error):
    return g**2, 2 * abs(g) * error + error**2


def _sgd(optimizer, step, slots, g, error, u, rate):
    if not slots:
        return rate * g, rate * error, [], []
    velocity = optimizer.momentum * slots[0] - rate * g
    bound = rate * error + 4 * u * (abs(slots[0]) + abs(rate * g))
    if optimizer.nesterov:
        move = optimizer.momentum * velocity - rate * g
        return -move, bound + rate * error, [velocity], [bound]
    return -velocity, bound, [velocity], [bound]


def _adagrad(optimizer, step, slots, g, error, u, rate):
    square, square_error = _square(g, error)
    is_rowwise = isinstance(optimizer, optimizers.RowwiseAdagrad)
    if is_rowwise and g.ndim > 1:
        axes = tuple(range(1, g.ndim))
        square = square.mean(axes)
        square_error = square_error.mean(axes) + g[0].size * u * square
    total = slots[0] + square
    total_error = square_error + 4 * u * total
    divisor = np.sqrt(total + optimizer.epsilon)
    relative = total_error / divisor**2 / 2
    if is_rowwise:
        shape = [-1] + [1] * (g.ndim - 1)
        divisor, relative = divisor.reshape(shape), relative.reshape(shape)
    change = rate * g / divisor
    bound = rate * error / divisor + abs(change) * relative
    return change, bound, [total], [total_error]


def _adam(optimizer, step, slots, g, error, u, rate):
    beta_1, beta_2 = optimizer.sparse_beta_1, optimizer.beta_2
    rate = rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
    m, m_error = _mean(slots[0], beta_1, g, error, u)
    v, v_error = _mean(slots[1], beta_2, *_square(g, error), u)
    slots, errors, largest = [m, v, *slots[2:]], [m_error, v_error], v
    if optimizer.amsgrad:
        largest = slots[2] = np.maximum(v, slots[2])
        errors.append(v_error)
    divisor = np.sqrt(largest) + optimizer.epsilon
    divisor_error = np.sqrt(largest + v_error)
    divisor_error -= np.sqrt(np.maximum(largest - v_error, 0))
    change = rate * m / divisor
    bound = rate * m_error / divisor + abs(change) * divisor_error / divisor
    return change, bound, slots, errors


def _rmsprop(optimizer, step, slots, g, error, u, rate):
    rho = optimizer.rho
    v, v_error = _mean(slots[0], rho, *_square(g, error), u)
    slots, errors = [v, *slots[1:]], [v_error] * len(slots)
    variance, variance_error = v, v_error
    if optimizer.centered:
        a, a_error = _mean(slots[-1], rho, g, error, u)
        slots[-1], errors[-1] = a, a_error
        variance = v - a**2
        variance_error = v_error + 2 * abs(a) * a_error + a_error**2
        variance_error = variance_error + 4 * u * v
    divisor = np.sqrt(variance + optimizer.epsilon)
    change = rate * g / divisor
    bound = rate * error / divisor
    bound += abs(change) * (variance_error / divisor**2 / 2 + 8 * u)
    if optimizer.momentum:
        bound += 4 * u * abs(slots[1])
        change = slots[1] = optimizer.momentum * slots[1] + change
        errors[1] = bound
    return change, bound, slots, errors


def _lion(optimizer, step, slots, g, error, u, rate):
    c, c_error = _mean(slots[0], optimizer.beta_1, g, error, u)
    m, m_error = _mean(slots[0], optimizer.beta_2, g, error, u)
    # A sign of no certain number is any.
    bound = np.where(abs(c) <= c_error, 2 * rate, 0.0)
    return rate * np.sign(c), bound, [m], [m_error]


_RULES = {
    optimizers.LazyAdam: _adam,
    optimizers.RMSprop: _rmsprop,
    optimizers.Lion: _lion,
    optimizers.Adagrad: _adagrad,
    optimizers.SGD: _sgd,
}
