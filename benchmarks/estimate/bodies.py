"""Bodies of Keras layers, as functions of a KerasTensor."""

import keras


class Positions(keras.layers.Layer):
    """Adds a vector for each place of a sequence."""

    def build(self, shape):
        """Makes them, `[length, width]`."""
        self.vectors = self.add_weight(name="vectors", shape=shape[1:])

    def call(self, inputs):
        """Adds them to `[batch, length, width]`."""
        return inputs + self.vectors


def nothing(inputs):
    """The inputs themselves."""
    return inputs


def embedding(vocabulary, width):
    """A vector for each token."""
    return lambda ids: keras.layers.Embedding(vocabulary, width)(ids)


def recurrent(vocabulary, width, cell, units):
    """An embedding, and layers of one kind of cell."""
    layers = cells(cell, units)
    return lambda ids: layers(embedding(vocabulary, width)(ids))


def cells(cell, units):
    """Layers of one kind of cell, on vectors."""

    def body(x):
        for size in units:
            x = getattr(keras.layers, cell)(size, return_sequences=True)(x)
        return x

    return body


def transformer(vocabulary, *, width, **sizes):
    """An embedding with positions, and `attention_blocks`."""
    layers = attention_blocks(width=width, **sizes)
    return lambda ids: layers(Positions()(embedding(vocabulary, width)(ids)))


def attention_blocks(*, layers, width, heads, kv_heads=None):
    """A causal Transformer that normalizes first (Xiong et al., 2020).

    Args:
      layers: how many.
      width: of each; the layer between is four times as wide.
      heads: of the attention.
      kv_heads: of keys and values; None: as many.
    """

    def attention(x):
        if kv_heads is None:
            layer = keras.layers.MultiHeadAttention(heads, width // heads)
        else:
            layer = keras.layers.GroupQueryAttention(
                width // heads, heads, kv_heads
            )
        return layer(x, x, use_causal_mask=True)

    def feed_forward(x):
        x = keras.layers.Dense(4 * width, activation="relu")(x)
        return keras.layers.Dense(width)(x)

    def body(x):
        for _ in range(layers):
            inner = attention(keras.layers.LayerNormalization()(x))
            x = keras.layers.Add()([x, inner])
            inner = feed_forward(keras.layers.LayerNormalization()(x))
            x = keras.layers.Add()([x, inner])
        return keras.layers.LayerNormalization()(x)

    return body
