"""What the variables of a part take: bytes, gradients, slots and updates."""

import collections
import dataclasses
import functools
import itertools
import math
from typing import NamedTuple

import keras
import numpy as np

from tf_hsm import optimizers
from tf_hsm.estimation.part import BYTES, NO_WORK, VARIABLE_BYTES, Work
from tf_hsm.estimation.step import GIVEN_BACK
from tf_hsm.layers.initial_values import BLOCK_BYTES, MOST_AT_ONCE
from tf_hsm.runtime import private_optimizer

# Sizes of a small variable, whose slots tell the slots of a large one.
_SIZES = (11, 13, 17, 19, 23, 29)
# Copies that a random initializer of Keras makes while it fills a variable: the
# numbers of the generator, scaled and shifted, in tensors of their own.
_INITIAL_COPIES = 2


class _Update(NamedTuple):
    """What an update does, in tensors of the size of the variable.

    Attributes:
      temporary: that there are at once, the gradient apart.
      passes: how often numbers of that size are read or written, where no
        memory is new.
      new: that are written in memory of their own.
    """

    temporary: float
    passes: float
    new: float


# Measured (docs/estimate.md has the table): with a dense gradient, and with a
# sparse one, which Keras' optimizers make dense where they do more than add it.
_UPDATES = {
    "SGD": (_Update(0, 3.5, 0.5), _Update(0, 0, 0)),
    "SGD with momentum": (_Update(1, 8.5, 1.5), _Update(2, 9.5, 2)),
    "Adagrad": (_Update(2, 16, 3.5), _Update(1.5, 11, 2.5)),
    "Adam": (_Update(2, 27, 4), _Update(2, 23.5, 5)),
    "AdamW": (_Update(2, 29, 4), _Update(3, 27.5, 5)),
    "RMSprop": (_Update(3, 18.5, 4.5), _Update(2, 15, 4)),
    "Lion": (_Update(4, 19, 3), _Update(4, 17, 4)),
}
_OTHER = _Update(4, 24, 6)
_OPS = 12  # kernels for a variable
_OF_ROWS = tuple(getattr(optimizers, name) for name in optimizers.__all__)
# Optimizers of this package whose updates have the figures of one of Keras.
_ALIKE = {"LazyAdam": "Adam", "RowwiseAdagrad": "Adagrad"}


@dataclasses.dataclass(frozen=True)
class Slots:
    """What an optimizer needs for the variables of a model.

    Without an optimizer, no method may be called.

    Attributes:
      name: of the optimizer, in reports.
      optimizer: a Keras optimizer that is not built, or None: no training.
    """

    name: str
    optimizer: keras.optimizers.Optimizer | None = None

    def slot_bytes(self, shape, dtype):
        """Returns the bytes of the slots of one variable."""
        return sum(
            numbers * size for numbers, size in self._slots(shape, dtype)
        )

    def filling_bytes(self, shape, dtype):
        """Returns what making the slots takes for a moment, beside them."""
        if self._kind != "Adagrad":
            return 0
        # Its tensor of initial values is there beside the slot.
        slots = self._slots(shape, dtype)
        return max((numbers * size for numbers, size in slots), default=0)

    def update_bytes(self, shape, dtype, rows=None):
        """Returns the most that an update has beside gradient and slots.

        Args:
          shape: of the variable.
          dtype: of the variable, a name.
          rows: the rows of a sparse gradient; None for a dense one.
        """
        if rows is not None and self.works_on_rows:
            return 0
        table = math.prod(shape) * max(BYTES[dtype], 4)
        return self._update(rows).temporary * table

    def update(self, shape, dtype, rows=None):
        """Returns the `Work` of an update of one variable."""
        numbers, size = math.prod(shape), BYTES[dtype]
        if rows is not None and self.works_on_rows:
            touched = numbers / shape[0] * min(rows, shape[0])
            slots = sum(of_slot for of_slot, _ in self._slots(shape, dtype))
            passes = 3 + 2 * slots / numbers
            return Work(8 * touched, passes * touched * size, 3)
        update, table = self._update(rows), numbers * size
        new = update.new * table if table >= GIVEN_BACK else 0
        return Work(update.passes * numbers, update.passes * table, _OPS, new)

    @property
    def works_on_rows(self):
        """Whether an update by a sparse gradient reads its rows alone."""
        rule = _inner(self.optimizer)
        is_ours = isinstance(rule, _OF_ROWS)
        return self._kind == "SGD" or (
            is_ours and not getattr(rule, "amsgrad", False)
        )

    @property
    def uncounted(self):
        """Reasons why memory or time of an update are guesses: a tuple."""
        if self._kind in _UPDATES:
            return ()
        if self._kind == "Muon":
            return ("slots of Muon, which depend on the names of variables",)
        return (
            f"temporary memory of {self._kind}, taken as {_OTHER.temporary} "
            "times each variable",
        )

    def _update(self, rows):
        updates = _UPDATES.get(self._kind, (_OTHER, _OTHER))
        return updates[rows is not None]

    @property
    def _kind(self):
        rule = _inner(self.optimizer)
        name = type(rule).__name__
        if name == "SGD" and getattr(rule, "momentum", 0):
            return "SGD with momentum"
        return _ALIKE.get(name, name)

    def _slots(self, shape, dtype):
        """Returns for each slot its numbers, and the bytes of a number."""
        sizes = dict(zip(_SIZES, shape, strict=False))
        return [
            (math.prod(sizes.get(size, size) for size in slot), itemsize)
            for slot, itemsize in _slots_of(self.optimizer, len(shape), dtype)
        ]


def of(optimizer):
    """Returns the `Slots` of the argument `optimizer` of an estimate."""
    if optimizer is None:
        return Slots("no optimizer")
    if isinstance(optimizer, str):
        return Slots(optimizer, _by_name(optimizer))
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            "optimizer must be a name, a Keras optimizer or None, not "
            f"{type(optimizer).__name__}"
        )
    # Another one, which has no variables yet.
    return Slots(type(optimizer).__name__, _copy_of(optimizer))


def _by_name(name):
    try:
        return keras.optimizers.get(name)
    except ValueError:
        pass
    ours = {c.__name__.lower(): c for c in _OF_ROWS}
    found = ours.get(name.replace("_", "").lower())
    if found is None:
        raise ValueError(
            f"optimizer is {name!r}; it must be a name that Keras knows, such "
            "as adam, adagrad, rmsprop or sgd, or rowwise_adagrad or lazy_adam"
        )
    return found()


@functools.lru_cache(maxsize=256)
def _slots_of(optimizer, rank, dtype):
    """Returns the shapes and item sizes of the slots of a small variable."""
    variable = keras.Variable(np.zeros(_SIZES[:rank]), dtype=dtype)
    counted = []
    for variables in ([], [variable]):
        copy = _copy_of(optimizer)
        copy.build(variables)
        counted.append(collections.Counter(map(_size_of, copy.variables)))
    alone, built = counted
    return tuple((built - alone).elements())


def _copy_of(optimizer):
    """Another optimizer of the same arguments, but for the learning rate.

    A schedule may be of a class that cannot be made again.
    """
    with private_optimizer.without_schedule(_inner(optimizer)):
        config = optimizer.get_config()
    return type(optimizer).from_config(config)


def _inner(optimizer):
    """The optimizer within one that scales losses."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _size_of(variable):
    """Returns the shape of a variable, and the bytes of a number."""
    dtype = {"bfloat16": "uint16"}.get(variable.dtype, variable.dtype)
    return tuple(variable.shape), np.dtype(dtype).itemsize


class Variable(NamedTuple):
    """A variable: its shape, the name of its type, whether it is trained."""

    shape: tuple
    dtype: str
    is_trained: bool = True


def of_rows(rows, width, bias, dtype):
    """Returns the variables `[rows, width]` and, with biases, `[rows]`."""
    return [Variable((rows, width), dtype)] + [Variable((rows,), dtype)] * bias


def part_with(
    variables,
    part,
    setting,
    *,
    own=None,
    index_bytes=4,
    by_blocks=False,
    is_random=True,
):
    """Returns a part with its variables.

    Args:
      variables: a list of `Variable`s.
      part: the `Part` without them, which knows the rows that are `touched`.
      setting: the `Setting`.
      own: the optimizer of `tf_hsm.optimizers` with which the backward updates
        the variables; None: the optimizer of the model does.
      index_bytes: bytes of the number of a row in a sparse gradient.
      by_blocks: whether a layer of this package makes the variables, which
        fills a large one a block of rows at a time.
      is_random: whether the numbers begin at random, not at zero.
    """
    slots = setting.slots if own is None else of(own)
    sizes = [math.prod(v.shape) * VARIABLE_BYTES[v.dtype] for v in variables]
    making = max(sizes, default=0)
    if by_blocks and making > MOST_AT_ONCE:
        making = BLOCK_BYTES
    trained = [v[:2] for v in variables if v.is_trained]
    if slots.optimizer is None:
        trained = []
    part = dataclasses.replace(
        part,
        parameters=sum(math.prod(v.shape) for v in variables),
        parameter_bytes=sum(sizes),
        slot_bytes=sum(slots.slot_bytes(*v) for v in trained),
        making_bytes=_INITIAL_COPIES * making * is_random,
        filling_bytes=max(
            (slots.filling_bytes(*v) for v in trained), default=0
        ),
        in_place=own is not None,
    )
    if own is not None or not trained:
        return part
    rows = itertools.chain(part.touched, itertools.repeat(None))
    trained = [(*v, touched) for v, touched in zip(trained, rows, strict=False)]
    gradient_bytes = sum(
        math.prod(shape) * BYTES[dtype]
        if touched is None
        else touched * (math.prod(shape[1:]) * BYTES[dtype] + index_bytes)
        for shape, dtype, touched in trained
    )
    return dataclasses.replace(
        part,
        gradient_bytes=gradient_bytes,
        update_bytes=max(slots.update_bytes(*v) for v in trained),
        update=sum((slots.update(*v) for v in trained), NO_WORK),
        uncounted=part.uncounted + slots.uncounted,
    )
