"""The state that copies of layers take over besides their variables."""

import tempfile

import keras

# Their own methods are for adapters and quantization, which are variables.
_IN_VARIABLES = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Embedding,
)


def copy_state(source, target):
    """Copies what a layer of Keras has that a file saves by its own methods.

    Such as the vocabulary of a `TextVectorization`, or what `Normalization`
    makes of its variables.

    Args:
      source: a built layer.
      target: a copy of it, whose variables are to be assigned afterwards.

    Raises:
      ValueError: a vocabulary has tokens that Keras' files cannot hold.
    """
    if _overrides(source, "load_own_variables") and not isinstance(
        source, _IN_VARIABLES
    ):
        store = {}
        source.save_own_variables(store)
        target.load_own_variables(store)
    if not _overrides(source, "load_assets"):
        return
    with tempfile.TemporaryDirectory() as folder:
        source.save_assets(folder)
        target.load_assets(folder)
    if hasattr(source, "get_vocabulary"):
        found, expected = target.get_vocabulary(), source.get_vocabulary()
        if list(found) != list(expected):
            raise ValueError(
                f"{source.name} has tokens that Keras does not save, empty "
                "ones or line breaks; give the layer its vocabulary when it "
                "is made"
            )


def _overrides(layer, name):
    method = getattr(type(layer), name, None)
    return method not in (
        None,
        getattr(keras.layers.Layer, name, None),
        getattr(keras.Model, name, None),
    )
