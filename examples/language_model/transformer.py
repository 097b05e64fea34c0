"""The Transformer body: causal blocks, which see one window of tokens."""

import itertools

import keras
import tensorflow as tf

_LONGEST_WAVE = 10_000  # tokens, times 2 pi


@keras.saving.register_keras_serializable("language_model")
class Positions(keras.layers.Layer):
    """Adds sines and cosines of the position to scaled inputs.

    Vaswani et al., "Attention is all you need", arXiv:1706.03762, 2017.
    """

    def call(self, inputs):
        """Returns `inputs * sqrt(D) + waves`, for `[B, T, D]`."""
        length, width = tf.shape(inputs)[1], inputs.shape[-1]
        waves = _LONGEST_WAVE ** (tf.range(0.0, width, 2) / width)
        position = tf.range(tf.cast(length, tf.float32))[:, tf.newaxis]
        angles = position / waves
        table = tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)[:, :width]
        return inputs * width**0.5 + tf.cast(table, inputs.dtype)

    def compute_output_spec(self, inputs):
        """The shape of the inputs."""
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)


def stack(hidden, settings):
    """Applies positions and the blocks of a `settings.Settings`.

    Each half of a block takes normalized inputs and is added to what it took,
    and a norm ends the stack: Radford et al., "Language models are unsupervised
    multitask learners", 2019.

    Args:
        hidden: `[B, T, units]`, symbolic.
        settings: the width, the number of blocks, the attention heads, and the
            dropout: of what the first block takes, of attention, and of what is
            added.

    Returns:
        `[B, T, units]`.
    """
    layers, width = keras.layers, settings.units[0]
    # Other seeds than that of the dropout before the head.
    seeds = itertools.count(settings.seed + len(settings.units) + 1)

    def dropout(name, inputs):
        return layers.Dropout(
            settings.dropout, seed=next(seeds), name=f"{name}_dropout"
        )(inputs)

    hidden = dropout("positions", Positions(name="positions")(hidden))
    for i in range(len(settings.units)):
        name = f"attention_{i}"
        normal = layers.LayerNormalization(name=f"{name}_norm")(hidden)
        change = layers.MultiHeadAttention(
            settings.attention_heads,
            width // settings.attention_heads,
            dropout=settings.dropout,
            seed=next(seeds),
            name=name,
        )(normal, normal, use_causal_mask=True)
        hidden = layers.Add(name=f"{name}_sum")([hidden, dropout(name, change)])
        name = f"feed_forward_{i}"
        normal = layers.LayerNormalization(name=f"{name}_norm")(hidden)
        inner = layers.Dense(4 * width, "gelu", name=f"{name}_inner")(normal)
        change = layers.Dense(width, name=name)(inner)
        hidden = layers.Add(name=f"{name}_sum")([hidden, dropout(name, change)])
    return layers.LayerNormalization(name="norm")(hidden)
