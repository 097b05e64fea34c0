"""What copies of layers take over besides the values of variables."""

import tempfile

import keras


def copy_state(source, target):
    """Copies what a layer of Keras has that a file saves by its own methods.

    Such as the vocabulary of a `TextVectorization`, or what `Normalization`
    makes of its variables.

    Args:
      source: a built layer.
      target: a copy of it, whose variables have the same values.
    """
    if _overrides(source, "load_own_variables"):
        store = {}
        source.save_own_variables(store)
        target.load_own_variables(store)
    if _overrides(source, "load_assets"):
        with tempfile.TemporaryDirectory() as folder:
            source.save_assets(folder)
            target.load_assets(folder)


def _overrides(layer, name):
    method = getattr(type(layer), name, None)
    return method not in (
        None,
        getattr(keras.layers.Layer, name, None),
        getattr(keras.Model, name, None),
    )
