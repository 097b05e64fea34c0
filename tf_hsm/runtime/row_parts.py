"""Variables that are parts of the rows of one matrix, on several devices.

A file of Keras has the matrix as a whole, whatever the parts are: what some
devices have saved, one or others load.
"""

import contextlib
import typing

import keras
import numpy as np
import tensorflow as tf

from tf_hsm.runtime import private_keras, private_tensorflow
from tf_hsm.runtime.replicas import copies_of

# Numbers that are read or written at a time.
_BLOCK = 1 << 24


class RowPart(typing.NamedTuple):
    """The matrix that a variable is a part of.

    Attributes:
      whole: the same for the parts of one matrix `[num_rows, ...]`.
      rows: `[n]`, the rows of the matrix that it has.
      num_rows: how many rows the matrix has.
    """

    whole: typing.Hashable
    rows: np.ndarray
    num_rows: int


class Placement(typing.NamedTuple):
    """The place of a Keras variable that holds rows of a head.

    Attributes:
      device: the name of the device that it is made on, or None.
      part: the `RowPart` that it is, or None for a whole matrix.
    """

    device: str | None = None
    part: RowPart | None = None


def whole_of(variable):
    """Returns the `RowPart` of a variable that has all rows of its matrix."""
    num_rows = variable.shape[0]
    return RowPart(id(variable), np.arange(num_rows), num_rows)


def place(variable, device, part=None):
    """Notes the `Placement` of a Keras variable, which is made on `device`."""
    variable._tf_hsm_placement = Placement(device, part)
    if device is not None:
        private_keras.initialize_within(variable, lambda: beside(variable))


def placement_of(variable):
    """Returns the `Placement` of a Keras variable."""
    return getattr(variable, "_tf_hsm_placement", Placement())


def part_of(variable):
    """Returns the `RowPart` that a Keras variable is, or None."""
    return placement_of(variable).part


def beside(variable):
    """Returns a scope of the device of a variable, where one is noted.

    A part on a device has no copies on the replicas of a strategy, and neither
    has a variable that is made in the scope.
    """
    device, part = placement_of(variable)
    return on(device) if part is None else part_on(device)


def on(device):
    """A scope of a device; None: the scope that there is, which stays."""
    # tf.device(None) would leave the scopes around it.
    return contextlib.nullcontext() if device is None else tf.device(device)


@contextlib.contextmanager
def part_on(device):
    """A scope of a device for the variables of a part; None: as `on`."""
    with on(device):
        if device is None:
            yield
            return
        with private_tensorflow.unmirrored():
            yield


def wholes(variables):
    """Lists of the variables that are parts of one matrix each, or alone."""
    lists = {}
    for variable in variables:
        part = part_of(variable)
        key = part.whole if part else id(variable)
        lists.setdefault(key, []).append(variable)
    return list(lists.values())


def save(variables, store):
    """Writes variables to Keras' `store`, parts as the matrices they make."""
    for i, parts in enumerate(wholes(variables)):
        store[str(i)] = _read(parts)


def load(variables, store):
    """Reads what `save` wrote, perhaps of other parts.

    Raises:
      ValueError: the store has other matrices.
    """
    lists = wholes(variables)
    if len(store.keys()) != len(lists):
        names = ", ".join(parts[0].path for parts in lists)
        raise ValueError(
            f"the file has {len(store.keys())} variables, but there are "
            f"{len(lists)}: {names or 'none'}"
        )
    for i, parts in enumerate(lists):
        _write(parts, np.asarray(store[str(i)]))


def blocks(num_rows, width):
    """Slices of rows that are not too many numbers at a time."""
    size = max(1, _BLOCK // max(1, width))
    return [
        slice(begin, min(begin + size, num_rows))
        for begin in range(0, num_rows, size)
    ]


def copy(sources, targets):
    """Copies the matrix that some variables make into others, in blocks.

    Either list may be one variable that has the whole matrix.
    """
    shape = targets[0].shape[1:]
    owners, local = _owners(sources)
    for target in targets:
        rows = _rows(target)
        for block in blocks(rows.size, int(np.prod(shape))):
            wanted = rows[block]
            values = np.empty([wanted.size, *shape], _numpy_dtype(target))
            _gather(sources, owners[wanted], local[wanted], values)
            _assign(target, block, values)


def read_rows(variables, rows, like):
    """Returns the values `[n, ...]` of rows of the matrix of some variables.

    Args:
      variables: the variables.
      rows: `[n]`, rows of the matrix.
      like: variables whose parts are the parts of `variables`.
    """
    shape = variables[0].shape[1:]
    owners, local = _owners(like)
    values = np.empty([rows.size, *shape], _numpy_dtype(variables[0]))
    for block in blocks(rows.size, int(np.prod(shape))):
        wanted = rows[block]
        _gather(variables, owners[wanted], local[wanted], values[block])
    return values


def write_rows(variables, rows, values, like):
    """Assigns values `[n, ...]` to rows of a matrix; see `read_rows`."""
    owners, local = _owners(like)
    for block in blocks(rows.size, int(np.prod(values.shape[1:]))):
        wanted = rows[block]
        for i, variable in enumerate(variables):
            mine = owners[wanted] == i
            if not mine.any():
                continue
            with beside(like[i]):
                slices = tf.IndexedSlices(
                    tf.constant(values[block][mine], variable.dtype),
                    local[wanted[mine]],
                )
                variable.value.scatter_update(slices)


def joined(parts):
    """Returns a new variable with the matrix that some variables make."""
    part = part_of(parts[0])
    whole = keras.Variable(
        "zeros",
        shape=(part.num_rows, *parts[0].shape[1:]),
        dtype=parts[0].dtype,
        trainable=False,
        autocast=False,
    )
    copy(parts, [whole])
    return whole


def _gather(variables, owners, local, values):
    """Reads rows of variables into `values`: of which variable, which row."""
    for i, variable in enumerate(variables):
        mine = owners == i
        if mine.any():
            with beside(variable):
                found = tf.gather(variable.value, local[mine])
            values[mine] = found.numpy()


def _rows(variable):
    part = part_of(variable)
    return np.arange(variable.shape[0]) if part is None else part.rows


def _owners(variables):
    """For each row of a matrix: the variable that has it, and where there.

    Raises:
      ValueError: other processes have some of the rows.
    """
    part = part_of(variables[0])
    num_rows = part.num_rows if part else variables[0].shape[0]
    num_here = sum(_rows(variable).size for variable in variables)
    if num_here < num_rows:
        raise ValueError(
            f"{variables[0].path}: this worker has {num_here:,} of the "
            f"{num_rows:,} rows; save them by tf_hsm.distribute.save, "
            "which restores on one device too"
        )
    owners, local = np.empty([2, num_rows], np.int64)
    for i, variable in enumerate(variables):
        rows = _rows(variable)
        owners[rows], local[rows] = i, np.arange(rows.size)
    return owners, local


def _numpy_dtype(variable):
    return tf.as_dtype(variable.dtype).as_numpy_dtype


def _assign(variable, block, values):
    # An op on a variable runs where the variable is.
    for copy in copies_of(variable):
        copy[block].assign(values)


def _read(variables):
    part = part_of(variables[0])
    if part is None:
        (variable,) = variables
        return variable.numpy()
    return read_rows(variables, np.arange(part.num_rows), variables)


def _write(variables, values):
    part = part_of(variables[0])
    shape = tuple(variables[0].shape)
    if part is not None:
        shape = (part.num_rows, *shape[1:])
    if values.shape != shape:
        raise ValueError(
            f"{variables[0].path} is of a matrix of the shape {shape}, but the "
            f"file has one of {values.shape}"
        )
    if part is None:
        (variable,) = variables
        variable.assign(values)
        return
    for variable in variables:
        rows = _rows(variable)
        for block in blocks(rows.size, int(np.prod(shape[1:]))):
            _assign(variable, block, values[rows[block]])
