"""Finds the class of a recurrent cell of one's own, and tries it."""

import functools
import importlib
import importlib.util

import keras

_UNITS = 10


def find(name):
    """Returns the class that `name` says: module:Class or path/file.py:Class.

    Raises:
        ValueError: there is no such class, it is no cell, or Keras cannot save
            it.
    """
    place, _, class_name = name.rpartition(":")
    try:
        module = _module(place)
    except (ImportError, OSError, SyntaxError) as error:
        raise ValueError(f"--cell={name}: {error}") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise ValueError(f"--cell={name}: {place} has no class {class_name}.")
    try:
        cell = found(_UNITS)
        keras.layers.RNN(cell)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"--cell={name}: {class_name}(units) must be a cell for "
            f"keras.layers.RNN: {_first_line(error)}"
        ) from error
    width = getattr(cell, "output_size", keras.tree.flatten(cell.state_size)[0])
    if width != _UNITS:
        raise ValueError(
            f"--cell={name}: the outputs of {class_name}({_UNITS}) must be "
            f"{_UNITS} wide, but are {width}."
        )
    try:
        saved = keras.saving.serialize_keras_object(cell)
        keras.saving.deserialize_keras_object(saved)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ValueError(
            f"--cell={name}: could not be saved. Make {class_name} a "
            "keras.layers.Layer that passes **kwargs on, and put @keras.saving."
            "register_keras_serializable() before it."
        ) from error
    return found


@functools.cache
def _module(place):
    """Imports the module with a name, or runs a file, once."""
    if not place.endswith(".py"):
        return importlib.import_module(place)
    spec = importlib.util.spec_from_file_location("own_cell_file", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _first_line(error):
    return str(error).strip().partition("\n")[0]
