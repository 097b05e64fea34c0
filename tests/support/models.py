"""Small Keras models with a head, in both its forms.

Tokens [B, T], 0 for padding -> Embedding -> Dense -> head. The variables are
those of the embedding, of the Dense layer, the head's kernel and its bias.
"""

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from tf_hsm import Tree
from tf_hsm.layers import HierarchicalSoftmax, SampledSoftmax
from tf_hsm.layers.head_layer import HeadLayer

NUM_CLASSES, WIDTH, STEPS = 30, 6, 5
NUM_SAMPLED = 9
TREE = Tree.huffman(1 + np.arange(NUM_CLASSES) ** 2, branching=3)


def make_head(tree=TREE, **options):
    options.setdefault("kernel_initializer", "random_normal")
    return HierarchicalSoftmax(tree, **options)


def sampled_head(**options):
    options = {"kernel_initializer": "random_normal", "seed": 3, **options}
    return SampledSoftmax(NUM_CLASSES, num_sampled=NUM_SAMPLED, **options)


def sampled_losses(head, inputs, labels):
    """The losses of a step, which are sampled because a tape records."""
    with tf.GradientTape():
        return head(inputs, labels)


def hidden_layers(mask_zero=True, dtype=None):
    """Returns the layers below the head."""
    return [
        keras.layers.Embedding(
            NUM_CLASSES, WIDTH, mask_zero=mask_zero, dtype=dtype
        ),
        keras.layers.Dense(WIDTH, activation="tanh", dtype=dtype),
    ]


def sequential(*layers):
    return keras.Sequential([keras.Input([STEPS], dtype="int32"), *layers])


def compile_form(
    optimizer=None, compiling=None, mask_zero=True, make=make_head, **options
):
    """A model for `fit(x, y)`.

    `compiling` has keywords of `compile`, or returns them for the head, and
    `options` are keywords of the head.
    """
    head = make(**options)
    below = hidden_layers(mask_zero, options.get("dtype"))
    model = sequential(*below, head)
    if callable(compiling):
        compiling = compiling(head)
    metrics = [tf_hsm.metrics.Perplexity(head)]
    compiling = {"metrics": metrics, **(compiling or {})}
    model.compile(optimizer or sgd(), loss=head.loss, **compiling)
    return model


def endpoint_form(
    optimizer=None,
    weighted=False,
    compiling=None,
    mask_zero=True,
    make=make_head,
    **options,
):
    """A model for `fit([x, y])`, or `fit([x, y, sample_weight])`."""
    tokens = keras.Input([STEPS], dtype="int32", name="tokens")
    inputs = [tokens, keras.Input([STEPS], dtype="int64", name="labels")]
    if weighted:
        inputs.append(keras.Input([STEPS], name="weights"))
    below = sequential(*hidden_layers(mask_zero, options.get("dtype")))
    losses = make(**options)(below(tokens), *inputs[1:])
    model = keras.Model(inputs, losses)
    model.compile(optimizer or sgd(), **(compiling or {}))
    return model


def sgd(**options):
    return keras.optimizers.SGD(1.0, **options)


def make_data(examples=22, seed=0):
    """Tokens with padding at the end, and labels that follow from them."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, NUM_CLASSES, size=[examples, STEPS])
    labels = tokens * 7 % NUM_CLASSES
    tokens[np.arange(STEPS) >= rng.integers(1, STEPS + 1, [examples, 1])] = 0
    return tokens, labels


def head_of(model):
    (head,) = (x for x in model.layers if isinstance(x, HeadLayer))
    return head


def hidden_model(model):
    """The part of a model from its inputs to those of its head."""
    return keras.Model(model.inputs, head_of(model).input)


def train(model, x, y=None, **options):
    """Fits in batches of 8 and a rest; returns the losses of the epochs."""
    options = {"epochs": 2, "batch_size": 8, **options}
    history = model.fit(x, y, shuffle=False, verbose=0, **options)
    return np.array(history.history["loss"])


def train_graph(model, x, y):
    """The graph of one training step."""
    specs = tf.nest.map_structure(
        lambda a: tf.TensorSpec([None, *a.shape[1:]], a.dtype), (x, y)
    )
    return tf.function(model.train_step).get_concrete_function(specs).graph
