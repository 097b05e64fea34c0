"""The recurrent body: layers of cells, one above the other."""

import keras

from examples.language_model import own_cell

_LAYERS = {
    "rnn": keras.layers.SimpleRNN,
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
}


def stack(hidden, settings):
    """Applies the recurrent layers of a `settings.Settings`.

    Args:
        hidden: `[B, T, embedding width]`, symbolic; a dropout stands before
            each layer.
        settings: the widths, the cell, and whether states last.

    Returns:
        `[B, T, units of the last layer]`.
    """
    name, make = _maker(settings.cell)
    for i, units in enumerate(settings.units):
        hidden = keras.layers.Dropout(
            settings.dropout, seed=settings.seed + i, name=f"dropout_{i}"
        )(hidden)
        hidden = make(
            units,
            return_sequences=True,
            stateful=settings.stateful,
            name=f"{name}_{i}",
        )(hidden)
    return hidden


def check(settings):
    """Raises `ValueError` if there is no such cell; see `own_cell.find`."""
    if settings.body == "recurrent":
        _maker(settings.cell)


def _maker(cell):
    """Returns a name for layers of a cell, and a function that makes them."""
    if cell in _LAYERS:
        return cell, _LAYERS[cell]
    found = own_cell.find(cell)

    def make(units, **options):
        return keras.layers.RNN(found(units), **options)

    return found.__name__.lower(), make


def layers(model):
    """The recurrent layers of a model."""
    return [x for x in model.layers if isinstance(x, keras.layers.RNN)]


def states(model):
    """The variables in which states last from batch to batch."""
    return keras.tree.flatten([layer.states or [] for layer in layers(model)])


def path(model):
    """Says in a line how the steps are computed; "" without such layers.

    Keras turns XLA off for a layer of which it knows, once it is made, that it
    will call cuDNN.
    """
    found = layers(model)
    if not found:
        return ""
    if not found[0].supports_jit:
        return "Recurrent layers: cuDNN, all steps of a window in one call."
    has_path = isinstance(found[0], (keras.layers.LSTM, keras.layers.GRU))
    return (
        "Recurrent layers: one step after the other, in a loop (Keras calls "
        f"cuDNN {'on a GPU' if has_path else 'for LSTM and GRU'} only)."
    )
