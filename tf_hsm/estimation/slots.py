"""What an optimizer has beside the variables, and what its step takes."""

import collections
import dataclasses
import functools
import math
from typing import NamedTuple

import keras
import numpy as np

from tf_hsm import optimizers
from tf_hsm.estimation.memory import GIVEN_BACK
from tf_hsm.estimation.part import NO_WORK, Work
from tf_hsm.estimation.setting import BYTES
from tf_hsm.runtime import private_optimizer

# Sizes of a small variable, whose slots tell the slots of a large one.
_SIZES = (11, 13, 17, 19, 23, 29)


class _Step(NamedTuple):
    """What a step does, in tensors of the size of the variable.

    Attributes:
      temporary: that there are at once, the gradient apart.
      passes: how often numbers of that size are read or written, where no
        memory is new.
      new: that are written in memory of their own.
    """

    temporary: float
    passes: float
    new: float


# Measured with `//benchmarks:estimate` of commit a1d0e13d:
# with a dense gradient, and with a sparse one, which Keras' optimizers make
# dense where they do more than add it.
_DENSE = {
    "SGD": _Step(0, 3.5, 0.5),
    "SGD with momentum": _Step(1, 8.5, 1.5),
    "Adagrad": _Step(2, 16, 3.5),
    "Adam": _Step(2, 27, 4),
    "AdamW": _Step(2, 29, 4),
    "RMSprop": _Step(3, 18.5, 4.5),
    "Lion": _Step(4, 19, 3),
}
_SPARSE = {
    "SGD": _Step(0, 0, 0),
    "SGD with momentum": _Step(2, 9.5, 2),
    "Adagrad": _Step(1.5, 11, 2.5),
    "Adam": _Step(2, 23.5, 5),
    "AdamW": _Step(3, 27.5, 5),
    "RMSprop": _Step(2, 15, 4),
    "Lion": _Step(4, 17, 4),
}
_OTHER = _Step(4, 24, 6)
_OPS = 12  # kernels for a variable
# Its tensor of initial values is there beside the slot.
_FILLED = ("Adagrad",)
_OF_ROWS = tuple(getattr(optimizers, name) for name in optimizers.__all__)


@dataclasses.dataclass(frozen=True)
class Slots:
    """What an optimizer needs for the variables of a model.

    Attributes:
      name: of the optimizer, in reports.
      optimizer: a Keras optimizer that is not built, or None: no training.
    """

    name: str
    optimizer: keras.optimizers.Optimizer | None = None

    def slot_bytes(self, shape, dtype):
        """Returns the bytes of the slots of one variable."""
        slots = self._slots(shape, dtype)
        return sum(math.prod(slot) * size for slot, size in slots)

    def filling_bytes(self, shape, dtype):
        """Returns what making the slots takes for a moment, beside them."""
        if self._kind not in _FILLED:
            return 0
        sizes = [math.prod(s) * size for s, size in self._slots(shape, dtype)]
        return max(sizes, default=0)

    def update_bytes(self, shape, dtype, rows=None):
        """Returns the most that a step has beside gradient and slots.

        Args:
          shape: of the variable.
          dtype: of the variable, a name.
          rows: the rows of a sparse gradient; None for a dense one.
        """
        if self.optimizer is None:
            return 0
        if rows is not None and self._works_on_rows:
            return 0
        table = math.prod(shape) * max(BYTES[dtype], 4)
        return self._step(rows).temporary * table

    def update(self, shape, dtype, rows=None):
        """Returns the `Work` of a step on one variable; as `update_bytes`."""
        if self.optimizer is None:
            return NO_WORK
        numbers, size = math.prod(shape), BYTES[dtype]
        if rows is not None and self._works_on_rows:
            touched = numbers / shape[0] * min(rows, shape[0])
            slots = sum(math.prod(s) for s, _ in self._slots(shape, dtype))
            passes = 3 + 2 * slots / numbers
            return Work(8 * touched, passes * touched * size, 3)
        step = self._step(rows)
        table = numbers * size
        new = step.new * table if table >= GIVEN_BACK else 0
        return Work(step.passes * numbers, step.passes * table, _OPS, new)

    @property
    def works_on_rows(self):
        """Whether a step with a sparse gradient reads its rows alone."""
        return self.optimizer is None or self._works_on_rows

    def _step(self, rows):
        steps = _DENSE if rows is None else _SPARSE
        return steps.get(self._kind, _OTHER)

    @property
    def uncounted(self):
        """Reasons why memory or time of a step are guesses: a tuple."""
        if self.optimizer is None or self._kind in _DENSE:
            return ()
        if self._kind == "Muon":
            return ("slots of Muon, which depend on the names of variables",)
        return (
            f"temporary memory of {self._kind}, taken as {_OTHER.temporary} "
            "times each variable",
        )

    @property
    def _rule(self):
        """The optimizer, within one that scales losses."""
        return getattr(self.optimizer, "inner_optimizer", self.optimizer)

    @property
    def _kind(self):
        if self.optimizer is None:
            return None
        kind = _base(self._rule)
        if kind == "SGD" and getattr(self._rule, "momentum", 0):
            return "SGD with momentum"
        return kind

    @property
    def _works_on_rows(self):
        if self._kind == "SGD":
            return True
        return isinstance(self._rule, _OF_ROWS) and not getattr(
            self._rule, "amsgrad", False
        )

    def _slots(self, shape, dtype):
        """Returns the shapes of the slots of one variable, and their bytes."""
        if self.optimizer is None:
            return ()
        sizes = dict(zip(_SIZES, shape, strict=False))
        return [
            ([sizes.get(size, size) for size in slot], itemsize)
            for slot, itemsize in _slots_of(self.optimizer, len(shape), dtype)
        ]


def of(optimizer):
    """Returns the `Slots` of an optimizer.

    Args:
      optimizer: None for no training; a name that Keras knows, or one of
        `tf_hsm.optimizers`, as "lazy_adam"; or an optimizer.

    Raises:
      ValueError: a name is unknown.
      TypeError: it is something else.
    """
    if optimizer is None:
        return Slots("no optimizer")
    if isinstance(optimizer, Slots):
        return optimizer
    if isinstance(optimizer, str):
        return Slots(optimizer, _by_name(optimizer))
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            "optimizer must be a name, a Keras optimizer or None, not "
            f"{type(optimizer).__name__}"
        )
    # Another one, which has no variables yet.
    copy = _copy_of(optimizer)
    return Slots(type(optimizer).__name__, copy)


def _by_name(name):
    ours = {c.__name__.lower(): c for c in _OF_ROWS}
    try:
        return keras.optimizers.get(name)
    except ValueError:
        pass
    found = ours.get(name.replace("_", "").lower())
    if found is None:
        raise ValueError(
            f"optimizer is {name!r}; it must be a name that Keras knows, such "
            "as adam, adagrad, rmsprop or sgd, or rowwise_adagrad or lazy_adam"
        )
    return found()


def _base(optimizer):
    """Whose step an optimizer's is, by name; ours have those of Keras'."""
    name = type(optimizer).__name__
    return {"LazyAdam": "Adam", "RowwiseAdagrad": "Adagrad"}.get(name, name)


@functools.lru_cache(maxsize=256)
def _slots_of(optimizer, rank, dtype):
    """Returns the shapes and item sizes of the slots of a small variable."""
    alone = map(_size_of, _built(optimizer, None, None))
    built = map(_size_of, _built(optimizer, _SIZES[:rank], dtype))
    return tuple(
        (collections.Counter(built) - collections.Counter(alone)).elements()
    )


def _built(optimizer, shape, dtype):
    """Returns the variables of a copy, built on one variable or on none."""
    copy = _copy_of(optimizer)
    variables = []
    if shape is not None:
        variables = [keras.Variable(np.zeros(shape), dtype=dtype)]
    copy.build(variables)
    return copy.variables


def _copy_of(optimizer):
    """Another optimizer of the same arguments, but for the learning rate.

    A schedule may be of a class that cannot be made again.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    with private_optimizer.without_schedule(inner):
        config = optimizer.get_config()
    return type(optimizer).from_config(config)


def _size_of(variable):
    """Returns the shape of a variable, and the bytes of a number."""
    dtype = {"bfloat16": "uint16"}.get(variable.dtype, variable.dtype)
    return tuple(variable.shape), np.dtype(dtype).itemsize
