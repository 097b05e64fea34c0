"""Matrices whose slices are variables on several devices, in checkpoints.

A `tf.train.Checkpoint` has one name for all slices, and can be restored into
other slices of the matrix.
"""

import contextlib
import contextvars

import tensorflow as tf

from tf_hsm.runtime import private_saving

# Whether checkpoints include slices; None where no scope of `written` says so.
_is_written = contextvars.ContextVar("_is_written", default=None)


@contextlib.contextmanager
def written(is_written):
    """A scope in which checkpoints include the slices here, or omit them."""
    token = _is_written.set(is_written)
    try:
        yield
    finally:
        _is_written.reset(token)


class Slices(private_saving.SlicedMatrix):
    """Variables that are slices of one matrix, as a checkpoint holds them.

    Args:
      variables: the slices `[n, ...]` that this process has, in order.
      name: of the matrix.
      first_rows: the first row of each slice.
      num_rows: how many rows the matrix has.
    """

    def __init__(self, variables, name, first_rows, num_rows):
        self._variables = variables
        self._name = name
        self._first_rows = first_rows
        self._num_rows = num_rows

    def slices(self):
        """Returns each variable, with the text that `SaveV2` takes for it."""
        pairs = []
        for variable, first in zip(
            self._variables, self._first_rows, strict=True
        ):
            shape = variable.shape.as_list()
            info = tf.compat.v1.Variable.SaveSliceInfo(
                full_name=self._name,
                full_shape=[self._num_rows, *shape[1:]],
                var_offset=[first, *(0 for _ in shape[1:])],
                var_shape=shape,
            )
            pairs.append((variable, info.spec))
        return pairs

    def is_known(self):
        """Returns whether checkpoints name the matrix for this process."""
        return bool(self._variables) or _is_written.get() is not None

    def is_written(self):
        """Returns whether a checkpoint includes these slices.

        Raises:
          ValueError: other processes have the other slices, and nothing says
            that they write them.
        """
        rows = sum(int(v.shape[0]) for v in self._variables)
        if _is_written.get() is None and rows != self._num_rows:
            raise ValueError(
                f"{self._name}: other workers have the other rows, which this "
                "checkpoint would not hold; call tf_hsm.distribute.save on all "
                "workers"
            )
        return _is_written.get() is not False
