"""The rules of the optimizers in NumPy and float64, row by row."""

import functools

import keras
import numpy as np

from tf_hsm import optimizers

RATE = 0.1
# One that is felt, so that its place in a formula matters.
EPSILON = 0.01

_OF_ADAGRAD = {"initial_accumulator_value": 0.1, "epsilon": EPSILON}
_LAZY_ADAM = functools.partial(
    optimizers.LazyAdam, RATE, sparse_beta_1=0.9, epsilon=EPSILON
)
_RMSPROP = functools.partial(optimizers.RMSprop, RATE, epsilon=EPSILON)
# Makes the optimizer of each rule.
OURS = {
    "sgd": functools.partial(optimizers.SGD, RATE),
    "momentum": functools.partial(optimizers.SGD, RATE, momentum=0.9),
    "nesterov": functools.partial(
        optimizers.SGD, RATE, momentum=0.9, nesterov=True
    ),
    "adagrad": functools.partial(optimizers.Adagrad, RATE, **_OF_ADAGRAD),
    "rowwise_adagrad": functools.partial(
        optimizers.RowwiseAdagrad, RATE, **_OF_ADAGRAD
    ),
    "adam": _LAZY_ADAM,
    "amsgrad": functools.partial(_LAZY_ADAM, amsgrad=True),
    "rmsprop": _RMSPROP,
    "rmsprop_momentum": functools.partial(_RMSPROP, momentum=0.8),
    "rmsprop_centered": functools.partial(_RMSPROP, centered=True),
    "rmsprop_centered_momentum": functools.partial(
        _RMSPROP, momentum=0.8, centered=True
    ),
    "lion": functools.partial(optimizers.Lion, RATE),
}


class Reference:
    """A table in float64 that repeats a rule on the rows that are touched.

    Args:
      table: `[N, ...]`.
      rule: a key of `RULES`.
      store: what a row is rounded by when it is written; float64 by default.
      rate, decay: of learning, and of the weights.
    """

    def __init__(self, table, rule, store=np.float64, rate=RATE, decay=0.0):
        self.table = np.array(table, np.float64)
        # Keras' optimizers have the same ones at the start.
        variable, optimizer = keras.Variable(self.table), OURS[rule]()
        optimizer.build([variable])
        self.slots = [np.float64(s) for s in optimizer.slots(variable)]
        self.rate = rate
        self._rule = RULES[rule]
        self._store = store
        self._decay = decay
        self._steps = 0

    def apply(self, rows, values):
        """One step for values `[U, ...]` of rows `[U]`, any repeated."""
        self._steps += 1
        sums = {}
        for row, value in zip(rows, np.asarray(values, float), strict=True):
            sums[row] = sums.get(row, 0) + value
        for row, gradient in sums.items():
            state = [slot[row] for slot in self.slots]
            change, state = self._rule(gradient, state, self.rate, self._steps)
            weights = self.table[row] * (1 - self.rate * self._decay)
            self.table[row] = (weights - change).astype(self._store)
            for slot, value in zip(self.slots, state, strict=True):
                slot[row] = value


def _sgd(g, state, rate, _):
    return rate * g, state


def _momentum(g, state, rate, _, nesterov=False):
    velocity = 0.9 * state[0] - rate * g
    move = 0.9 * velocity - rate * g if nesterov else velocity
    return -move, [velocity]


def _adagrad(g, state, rate, _):
    accumulator = state[0] + g**2
    return rate * g / np.sqrt(accumulator + EPSILON), [accumulator]


def _rowwise_adagrad(g, state, rate, _):
    accumulator = state[0] + np.mean(g**2)
    return rate * g / np.sqrt(accumulator + EPSILON), [accumulator]


def _adam(g, state, rate, t, amsgrad=False):
    m = 0.9 * state[0] + 0.1 * g
    v = 0.999 * state[1] + 0.001 * g**2
    largest = np.maximum(v, state[2]) if amsgrad else v
    rate = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    state = [m, v, largest] if amsgrad else [m, v]
    return rate * m / (np.sqrt(largest) + EPSILON), state


def _rmsprop(g, state, rate, _, momentum=False, centered=False):
    v = 0.9 * state[0] + 0.1 * g**2
    state, variance = [v, *state[1:]], v
    if centered:
        state[-1] = 0.9 * state[-1] + 0.1 * g
        variance = v - state[-1] ** 2
    change = rate * g / np.sqrt(variance + EPSILON)
    if momentum:
        change = state[1] = 0.8 * state[1] + change
    return change, state


def _lion(g, state, rate, _):
    change = rate * np.sign(0.9 * state[0] + 0.1 * g)
    return change, [0.99 * state[0] + 0.01 * g]


RULES = {
    "sgd": _sgd,
    "momentum": _momentum,
    "nesterov": functools.partial(_momentum, nesterov=True),
    "adagrad": _adagrad,
    "rowwise_adagrad": _rowwise_adagrad,
    "adam": _adam,
    "amsgrad": functools.partial(_adam, amsgrad=True),
    "rmsprop": _rmsprop,
    "rmsprop_momentum": functools.partial(_rmsprop, momentum=True),
    "rmsprop_centered": functools.partial(_rmsprop, centered=True),
    "rmsprop_centered_momentum": functools.partial(
        _rmsprop, momentum=True, centered=True
    ),
    "lion": _lion,
}
