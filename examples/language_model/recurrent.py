"""The recurrent body: layers of cells, one above the other."""

import keras

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
        settings: The widths and the cell.

    Returns:
        `[B, T, units of the last layer]`.
    """
    for i, units in enumerate(settings.units):
        hidden = keras.layers.Dropout(
            settings.dropout, seed=settings.seed + i, name=f"dropout_{i}"
        )(hidden)
        hidden = _LAYERS[settings.cell](
            units,
            return_sequences=True,
            stateful=True,
            name=f"{settings.cell}_{i}",
        )(hidden)
    return hidden


def states(model):
    """Returns the variables in which states last from batch to batch."""
    layers = [x for x in model.layers if isinstance(x, keras.layers.RNN)]
    return keras.tree.flatten([layer.states for layer in layers])


def reset_states(model):
    """Sets every recurrent state to zero, as at the start of a text."""
    for state in states(model):
        state.assign(keras.ops.zeros_like(state))
