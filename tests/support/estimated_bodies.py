"""Keras models whose parts are estimated, and what they are for."""

import math

import keras
import numpy as np

from tf_hsm.estimation import slots
from tf_hsm.estimation.setting import Setting

layers = keras.layers
BATCH, STEPS = 3, 5
SETTING = Setting(BATCH, STEPS, "float32", "float32", slots.of("adam"))


def to_itself(layer):
    """Returns a layer of attention as a function of one tensor."""
    return lambda x: layer(x, x, use_causal_mask=True)


# name: (layer, shape of one input without the batch)
LAYERS = {
    "dense": (lambda: layers.Dense(7), (STEPS, 6)),
    "dense relu": (lambda: layers.Dense(7, "relu", use_bias=False), (6,)),
    "lstm": (lambda: layers.LSTM(4, return_sequences=True), (STEPS, 6)),
    "lstm, the last": (lambda: layers.LSTM(4), (STEPS, 6)),
    "lstm without bias": (lambda: layers.LSTM(4, use_bias=False), (STEPS, 6)),
    "gru": (lambda: layers.GRU(4, return_sequences=True), (STEPS, 6)),
    "gru before": (lambda: layers.GRU(4, reset_after=False), (STEPS, 6)),
    "rnn": (lambda: layers.SimpleRNN(4, return_sequences=True), (STEPS, 6)),
    "norm": (layers.LayerNormalization, (STEPS, 6)),
    "rms norm": (layers.RMSNormalization, (STEPS, 6)),
    "batch norm": (layers.BatchNormalization, (6,)),
    "dropout": (lambda: layers.Dropout(0.1), (STEPS, 6)),
    "conv1": (lambda: layers.Conv1D(4, 3, padding="same"), (STEPS, 6)),
    "conv2": (lambda: layers.Conv2D(4, (3, 2), strides=2), (9, 8, 2)),
    "conv3": (lambda: layers.Conv3D(4, 2), (5, 4, 4, 2)),
    "groups": (lambda: layers.Conv1D(4, 3, groups=2), (STEPS, 6)),
    "pool": (lambda: layers.MaxPooling1D(2), (6, 4)),
    "both": (
        lambda: layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
        (STEPS, 6),
    ),
    "summed": (
        lambda: layers.Bidirectional(layers.GRU(4), merge_mode="sum"),
        (STEPS, 6),
    ),
    "each": (lambda: layers.TimeDistributed(layers.Dense(7)), (STEPS, 6)),
    "cell": (lambda: layers.RNN(layers.LSTMCell(4)), (STEPS, 6)),
    "flat": (layers.Flatten, (STEPS, 6)),
    "mha": (lambda: to_itself(layers.MultiHeadAttention(2, 3)), (STEPS, 6)),
    "mha, wider values": (
        lambda: to_itself(
            layers.MultiHeadAttention(2, 3, value_dim=5, output_shape=7)
        ),
        (STEPS, 6),
    ),
    "gqa": (lambda: to_itself(layers.GroupQueryAttention(3, 4, 2)), (STEPS, 6)),
}


def model_of(make, shape):
    inputs = keras.Input(shape)
    return keras.Model(inputs, make()(inputs))


def check_variables(parts, model, setting=SETTING):
    weights = model.weights
    numbers = sum(math.prod(v.shape) for v in weights)
    assert sum(p.parameters for p in parts) == numbers
    sizes = [math.prod(v.shape) * np.dtype(v.dtype).itemsize for v in weights]
    assert sum(p.parameter_bytes for p in parts) == sum(sizes)
    model.optimizer = keras.optimizers.Adam()
    model.optimizer.build(model.trainable_variables)
    slot_bytes = sum(
        4 * math.prod(v.shape) for v in model.optimizer.variables[2:]
    )
    assert sum(p.slot_bytes for p in parts) == slot_bytes
