"""The private interfaces of checkpoints, and of Keras' legacy files."""

import tensorflow as tf
from keras.src.legacy.saving import legacy_h5_format
from tensorflow.python.checkpoint import checkpoint_management
from tensorflow.python.trackable import base
from tensorflow.python.training.saving import (
    saveable_object,
    saveable_object_util,
)


class SlicedMatrix(base.Trackable):
    """A matrix of which a checkpoint holds slices under one name.

    TensorFlow's `ShardedVariable` wants all slices in one process. A subclass
    has three methods. `slices()` returns pairs of a variable and its text for
    `tf.raw_ops.SaveV2`. `is_known()` tells whether checkpoints have the name
    for this process. A save asks `is_written()`, which may raise an error.

    Attributes:
      key: the name in the checkpoint that was written last.
    """

    key = None

    def _gather_saveables_for_checkpoint(self):
        if self.is_known():
            return {base.VARIABLE_VALUE_KEY: self._saveables}
        # A save calls this function. A restore, which lacks the name, does not.
        return {"rows": lambda name: self.is_written()}

    def _saveables(self, name):
        self.key = name
        slices = [_Slice(self, *pair, name) for pair in self.slices()]
        return slices or [_nothing(name)]


class _Slice(saveable_object_util.ResourceVariableSaveable):
    """A slice that its matrix may leave out of a checkpoint."""

    def __init__(self, matrix, variable, text, name):
        super().__init__(variable, text, name)
        (spec,) = self.specs
        read = spec._tensor
        spec._tensor = lambda: read() if matrix.is_written() else None


def _nothing(name):
    """The name of a matrix whose rows other processes write."""
    # TensorFlow refuses to write a device that has no values: name another's.
    with tf.init_scope(), tf.device("CPU:0"):
        device = tf.constant(0.0).device
    spec = saveable_object.SaveSpec(
        lambda: None, "", name, dtype=tf.float32, device=device
    )
    return saveable_object.SaveableObject(None, [spec], name)


class PartlyInSavedModels:
    """A base of a Keras layer that keeps attributes out of SavedModels.

    TensorFlow warns of a `PythonState` in a SavedModel, which cannot restore
    it. Checkpoints have it all the same.

    Attributes:
      _not_in_saved_models: the names of the attributes.
    """

    _not_in_saved_models = ()

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        children = super()._trackable_children(save_type, **kwargs)
        if save_type == "savedmodel":
            for name in self._not_in_saved_models:
                children.pop(name, None)
        return children


def note_latest(folder, path, paths):
    """Writes what `tf.train.latest_checkpoint` reads, with relative paths."""
    checkpoint_management.update_checkpoint_state_internal(
        folder, path, all_model_checkpoint_paths=paths, save_relative_paths=True
    )


def extend_legacy_files(find):
    """Lets `.h5` files of whole models have more of a layer than its variables.

    Args:
      find: takes a layer or model to a list of objects that stand before its
        variables. Each has a `path`, which names it, and a `shape`; it is an
        array to NumPy, and its method `assign` gets the array that was saved.
    """
    variables = legacy_h5_format._legacy_weights
    # The package may be imported a second time.
    variables = getattr(variables, "_tf_hsm_variables", variables)

    def extended(layer):
        return [*find(layer), *variables(layer)]

    extended._tf_hsm_variables = variables
    legacy_h5_format._legacy_weights = extended
