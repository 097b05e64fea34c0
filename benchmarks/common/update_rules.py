"""The update rules that are compared, of tf_hsm and of Keras."""

import keras

from tf_hsm import optimizers

_RATE = 0.01

PLAIN_SGD = "SGD"
# Rule -> a function that makes ours, and one that makes Keras' nearest.
RULES = {
    PLAIN_SGD: (
        lambda: optimizers.SGD(_RATE),
        lambda: keras.optimizers.SGD(_RATE),
    ),
    "SGD, momentum": (
        lambda: optimizers.SGD(_RATE, momentum=0.9),
        lambda: keras.optimizers.SGD(_RATE, momentum=0.9),
    ),
    "Adagrad": (
        lambda: optimizers.Adagrad(_RATE),
        lambda: keras.optimizers.Adagrad(_RATE),
    ),
    "RowwiseAdagrad": (
        lambda: optimizers.RowwiseAdagrad(_RATE),
        lambda: keras.optimizers.Adagrad(_RATE),
    ),
    "RMSprop": (
        lambda: optimizers.RMSprop(_RATE),
        lambda: keras.optimizers.RMSprop(_RATE),
    ),
    "LazyAdam": (
        lambda: optimizers.LazyAdam(_RATE),
        lambda: keras.optimizers.Adam(_RATE),
    ),
    "LazyAdam, decay": (
        lambda: optimizers.LazyAdam(_RATE, weight_decay=0.004),
        lambda: keras.optimizers.AdamW(_RATE, weight_decay=0.004),
    ),
    "Lion": (
        lambda: optimizers.Lion(_RATE),
        lambda: keras.optimizers.Lion(_RATE),
    ),
}
