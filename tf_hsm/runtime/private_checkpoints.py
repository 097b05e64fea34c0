"""Checkpoints of one matrix whose slices are variables on several devices.

A `tf.train.Checkpoint` has one name for all slices, and can be restored into
other slices of the matrix. TensorFlow's own class for that, `ShardedVariable`,
wants all slices in one process.
"""

import contextlib

import tensorflow as tf
from tensorflow.python.checkpoint import checkpoint_management, graph_view
from tensorflow.python.trackable import base, trackable_utils
from tensorflow.python.training.saving import (
    saveable_object,
    saveable_object_util,
)


class Slices(base.Trackable):
    """Variables that are slices of one matrix, as a checkpoint holds them.

    Args:
      variables: the slices `[n, ...]` that this process has, in order.
      name: of the matrix.
      first_rows: the first row of each slice.
      num_rows: how many rows the matrix has.
    """

    def __init__(self, variables, name, first_rows, num_rows):
        """See the class."""
        self._variables = variables
        self._name = name
        self._first_rows = first_rows
        self._num_rows = num_rows
        self._is_written = None

    @property
    def is_whole(self):
        """Whether the slices make the whole matrix."""
        rows = sum(int(v.shape[0]) for v in self._variables)
        return rows == self._num_rows

    @property
    def is_empty(self):
        """Whether this process has no slice."""
        return not self._variables

    @contextlib.contextmanager
    def written(self, is_written):
        """A scope in which checkpoints include these slices, or omit them."""
        self._is_written = is_written
        try:
            yield
        finally:
            self._is_written = None

    def pieces(self):
        """Returns for each slice the text that `SaveV2` takes, and a tensor."""
        return [
            (self._spec(variable, first), variable.read_value_no_copy())
            for variable, first in zip(
                self._variables, self._first_rows, strict=True
            )
        ]

    def check_written(self):
        """Returns whether a checkpoint includes these slices.

        Raises:
          ValueError: other processes have the other slices, and nothing says
            that they write them.
        """
        if self._is_written is None and not self.is_whole:
            raise ValueError(
                f"{self._name}: other workers have the other rows, which this "
                "checkpoint would not hold; call tf_hsm.distribute.save on all "
                "workers"
            )
        return self._is_written is not False

    def _gather_saveables_for_checkpoint(self):
        if self.is_empty and self._is_written is None:
            # A restore, which finds no such name, does not call this.
            return {"rows": lambda name: self.check_written()}

        def make(name=self._name):
            if self.is_empty:
                return [_NoSaveable(name)]
            return [
                _SliceSaveable(
                    self, variable, self._spec(variable, first), name
                )
                for variable, first in zip(
                    self._variables, self._first_rows, strict=True
                )
            ]

        return {base.VARIABLE_VALUE_KEY: make}

    def _spec(self, variable, first_row):
        shape = variable.shape.as_list()
        return tf.compat.v1.Variable.SaveSliceInfo(
            full_name=self._name,
            full_shape=[self._num_rows, *shape[1:]],
            var_offset=[first_row, *[0 for _ in shape[1:]]],
            var_shape=shape,
        ).spec


class _SliceSaveable(saveable_object_util.ResourceVariableSaveable):
    """A slice that its matrix may leave out of a checkpoint."""

    def __init__(self, slices, variable, spec, name):
        super().__init__(variable, spec, name)
        (only,) = self.specs
        read = only._tensor
        only._tensor = lambda: read() if slices.check_written() else None


class _NoSaveable(saveable_object.SaveableObject):
    """The name of a matrix whose rows other processes write."""

    def __init__(self, name):
        # TensorFlow writes what is on one device together, and this is nothing.
        with tf.init_scope(), tf.device("CPU:0"):
            device = tf.constant(0.0).device
        spec = saveable_object.SaveSpec(
            lambda: None, "", name, dtype=tf.float32, device=device
        )
        super().__init__(None, [spec], name)


def slices_in(checkpoint):
    """Returns a dict from the names in a checkpoint to its `Slices`."""
    view = graph_view.ObjectGraphView(checkpoint)
    found, paths = view.breadth_first_traversal()
    return {
        trackable_utils.checkpoint_key(
            trackable_utils.object_path_to_string(paths[item]),
            base.VARIABLE_VALUE_KEY,
        ): item
        for item in found
        if isinstance(item, Slices)
    }


def note_latest(folder, path, paths):
    """Writes the file of a folder that `tf.train.latest_checkpoint` reads.

    Args:
      folder: the folder.
      path: the path of the latest checkpoint.
      paths: the paths of all checkpoints.
    """
    checkpoint_management.update_checkpoint_state_internal(
        folder, path, all_model_checkpoint_paths=paths, save_relative_paths=True
    )
