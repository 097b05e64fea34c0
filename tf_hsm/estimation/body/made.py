"""Bodies of Keras layers that are never given values, by shape or by a text."""

import re

import keras

from tf_hsm import _checks
from tf_hsm.estimation.body import shapes as shapes_of
from tf_hsm.estimation.body.body import Body

_CELLS = {
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
    "rnn": keras.layers.SimpleRNN,
    "simple_rnn": keras.layers.SimpleRNN,
}
_FORMS = (
    "embedding:WIDTH, lstm:LAYERSxWIDTH, gru:LAYERSxWIDTH, rnn:LAYERSxWIDTH or "
    "transformer:LAYERSxWIDTH:HEADS"
)
_HEAD_WIDTH = 64  # of attention, if the text does not say how many
_TEXT = re.compile(
    r"(?P<kind>embedding(?=:\d+$)|(?:lstm|gru|rnn)(?=:[\dx]+$)|transformer):"
    r"(?:(?P<layers>\d+)x)?(?P<width>\d+)(?::(?P<heads>\d+))?"
)


def match_text(text):
    """Returns the match of a text such as "lstm:2x2048", with its groups.

    Raises:
      ValueError: the text has another form, or a number in it is 0.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"the body {text!r} has another form than {_FORMS}")
    for name in ("layers", "width", "heads"):
        if found[name] is not None and int(found[name]) == 0:
            raise ValueError(f"the body {text!r} has {name} 0; at least 1")
    return found


def width_unit(found):
    """Returns what the width of a text that matched must be a multiple of."""
    if found["kind"] != "transformer":
        return 1
    return int(found["heads"] or _HEAD_WIDTH)


def of_text(text, length, vocabulary):
    """Returns the `Body` of a text, for sequences of `length` words.

    Args:
      text: as `match_text` takes it.
      length: of a sequence.
      vocabulary: rows of an embedding before the layers; None: none.
    """
    kind, *numbers = match_text(text).groups()
    layers, width, heads = (number and int(number) for number in numbers)
    if kind == "transformer":
        return transformer(
            layers=layers or 1,
            d_model=width,
            heads=heads or max(width // _HEAD_WIDTH, 1),
            length=length,
            vocabulary=vocabulary,
        )
    if kind == "embedding":
        if vocabulary is None:
            raise ValueError(f"the body {text!r} needs vocabulary, its rows")
        name = f"embedding {width}"
        return _body(name, lambda x: x, length, vocabulary, width)
    return recurrent(
        "simple_rnn" if kind == "rnn" else kind,
        [width] * (layers or 1),
        vocabulary=vocabulary,
        length=length,
    )


def transformer(
    *,
    layers=6,
    d_model=512,
    heads=8,
    d_ff=None,
    length=None,
    vocabulary=None,
    kv_heads=None,
    causal=True,
    dropout=0.0,
    activation="relu",
):
    """Describes a Transformer of Keras layers, for `tf_hsm.estimate`.

    Each layer normalizes first: x + attention(norm(x)), then
    x + dense(dense(norm(x))); a normalization is last (Vaswani et al., 2017;
    Xiong et al., 2020).

    Args:
      layers: how many.
      d_model: width.
      heads: of the attention; must divide `d_model`.
      d_ff: width between the two dense layers; None: 4 d_model.
      length: T, of a sequence; None: the `length` of `tf_hsm.estimate`.
      vocabulary: rows of an embedding before it; None: none.
      kv_heads: heads of keys and values, which must divide `heads` (grouped
        queries: Ainslie et al., 2023); None: as many as `heads`.
      causal: whether a step sees only those before it. Keras computes all
        scores nevertheless.
      dropout: after attention and dense layers.
      activation: between the two dense layers.

    Returns:
      A body for `tf_hsm.estimate`.

    Raises:
      ValueError: an argument is out of its range.
    """
    layers = _checks.check_int("layers", layers, 1)
    d_model = _checks.check_int("d_model", d_model, 1)
    heads = _checks.check_int("heads", heads, 1)
    d_ff = 4 * d_model if d_ff is None else _checks.check_int("d_ff", d_ff, 1)
    kv_heads = heads if kv_heads is None else kv_heads
    kv_heads = _checks.check_int("kv_heads", kv_heads, 1)
    for name, value, whole in (
        ("heads", heads, d_model),
        ("kv_heads", kv_heads, heads),
    ):
        if whole % value:
            raise ValueError(
                f"{name} is {value}, which does not divide {whole}"
            )

    def attention(x, name):
        options = {"dropout": dropout, "name": name}
        width = d_model // heads
        if kv_heads == heads:
            layer = keras.layers.MultiHeadAttention(heads, width, **options)
        else:
            layer = keras.layers.GroupQueryAttention(
                width, heads, kv_heads, **options
            )
        return layer(x, x, use_causal_mask=causal)

    def feed_forward(x, name):
        wide = keras.layers.Dense(
            d_ff, activation=activation, name=f"{name}_wide"
        )
        return keras.layers.Dense(d_model, name=f"{name}_narrow")(wide(x))

    def stack(x):
        for number in range(1, layers + 1):
            for block in (attention, feed_forward):
                name = f"{block.__name__}_{number}"
                norm = keras.layers.LayerNormalization(name=f"{name}_norm")
                inner = block(norm(x), name)
                if dropout:
                    drop = keras.layers.Dropout(dropout, name=f"{name}_dropout")
                    inner = drop(inner)
                x = keras.layers.Add(name=f"{name}_add")([x, inner])
        return keras.layers.LayerNormalization(name="norm")(x)

    name = f"transformer {layers} x {d_model}"
    return _body(name, stack, length, vocabulary, d_model)


def recurrent(cell, units, *, width=None, vocabulary=None, length=None):
    """Describes recurrent layers of Keras, for `tf_hsm.estimate`.

    Args:
      cell: "lstm", "gru" or "simple_rnn".
      units: of each layer, a list; or one number.
      width: of the inputs; None: as the first layer's units.
      vocabulary: rows of an embedding before it, of that width; None: none.
      length: T, of a sequence; None: the `length` of `tf_hsm.estimate`.

    Returns:
      A body for `tf_hsm.estimate`.

    Raises:
      ValueError: an argument is out of its range.
    """
    if cell not in _CELLS:
        raise ValueError(
            f"cell is {cell!r}; it must be one of {', '.join(_CELLS)}"
        )
    units = list(units) if isinstance(units, list | tuple) else [units]
    if not units:
        raise ValueError("units is empty; it has a number for each layer")
    units = [_checks.check_int("units", size, 1) for size in units]
    width = units[0] if width is None else _checks.check_int("width", width, 1)

    def stack(x):
        for number, size in enumerate(units, 1):
            layer = _CELLS[cell](
                size, return_sequences=True, name=f"{cell}_{number}"
            )
            x = layer(x)
        return x

    name = f"{cell} {' '.join(map(str, units))}"
    return _body(name, stack, length, vocabulary, width)


def _body(name, stack, length, vocabulary, width):
    """Makes the model, whose variables have no values."""
    if length is not None:
        length = _checks.check_int("length", length, 1)
    with shapes_of.without_values():
        if vocabulary is None:
            inputs = keras.Input((length, width))
            outputs = stack(inputs)
        else:
            vocabulary = _checks.check_int("vocabulary", vocabulary, 1)
            inputs = keras.Input((length,), dtype="int32")
            table = keras.layers.Embedding(vocabulary, width, name="embedding")
            outputs = stack(table(inputs))
        model = keras.Model(inputs, outputs)
    return Body(name, model, outputs.shape[-1], (length,), length)
