"""Variables to files and back, some rows at a time: no table is copied."""

import math

import numpy as np
import tensorflow as tf

_BLOCK = 1 << 24  # bytes


def blocks(variable, num_rows=None, bags=None):
    """Yields the rows of a variable in order, as arrays of some rows each.

    Args:
        variable: a `tf.Variable` `[N, ...]`.
        num_rows: how many of the first rows; all by default.
        bags: a `tf.RaggedTensor` of rows, or None. The means of these bags are
            what is yielded then.
    """
    step = _rows_of_block(variable)
    if bags is None:
        num_rows = variable.shape[0] if num_rows is None else num_rows
    else:
        num_bags = int(bags.nrows())
        num_rows = num_bags if num_rows is None else num_rows
        step = max(1, step * num_bags // len(bags.flat_values))
    for begin in range(0, num_rows, step):
        end = min(begin + step, num_rows)
        if bags is None:
            yield tf.gather(variable, tf.range(begin, end)).numpy()
        else:
            yield _means(variable, bags[begin:end]).numpy()


def _means(variable, bags):
    members = tf.gather(variable, bags.flat_values)
    return tf.reduce_mean(bags.with_flat_values(members), axis=1)


def first_rows(variable, num_rows, bags=None):
    """Returns the first rows of a variable, or means, see `blocks`."""
    rows = np.empty([num_rows, *variable.shape[1:]], np.float32)
    begin = 0
    for block in blocks(variable, num_rows, bags):
        rows[begin : begin + len(block)] = block
        begin += len(block)
    return rows


def write(file, variable):
    """Writes a variable as an array of NumPy, to an open file."""
    dtype = np.dtype(variable.dtype.as_numpy_dtype).newbyteorder("<")
    np.lib.format.write_array_header_2_0(
        file,
        {
            "descr": dtype.str,
            "fortran_order": False,
            "shape": tuple(variable.shape),
        },
    )
    if not variable.shape.rank:
        file.write(variable.numpy().astype(dtype).tobytes())
        return
    for block in blocks(variable):
        file.write(block.astype(dtype, copy=False).tobytes())


def read(file, variable):
    """Reads a variable from what `write` has written.

    Raises:
        ValueError: it is of another shape or type, or damaged.
    """
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    if (shape, dtype) != (tuple(variable.shape), variable.dtype.as_numpy_dtype):
        raise ValueError(f"a table is {dtype.name} {list(shape)}")
    if shape:
        _read_rows(file, variable, dtype)
    else:
        variable.assign(np.frombuffer(file.read(dtype.itemsize), dtype)[0])
    # Only at its end does a file of an archive check its sum.
    if file.read(1):
        raise ValueError("there is more than a table")


def _read_rows(file, variable, dtype):
    step, num_rows = _rows_of_block(variable), variable.shape[0]
    for begin in range(0, num_rows, step):
        rows = np.arange(begin, min(begin + step, num_rows))
        block = np.frombuffer(
            file.read(len(rows) * _row_bytes(variable)), dtype
        )
        values = block.reshape(len(rows), *variable.shape[1:])
        variable.scatter_update(tf.IndexedSlices(values, rows))


def _row_bytes(variable):
    return variable.dtype.size * math.prod(variable.shape[1:])


def _rows_of_block(variable):
    return max(1, _BLOCK // _row_bytes(variable))
