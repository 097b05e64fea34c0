"""The next-token model: Embedding, a body, a head."""

import keras
import tensorflow as tf

import tf_hsm
from examples.language_model import heads, recurrent, transformer

_STACKS = {"recurrent": recurrent.stack, "transformer": transformer.stack}
_CHUNK = 1 << 20  # tokens that are read at once


@keras.saving.register_keras_serializable("language_model")
class Embedding(keras.layers.Layer):
    """Rows of a table, gathered without reading the table.

    `keras.layers.Embedding` reads the whole variable first, which TensorFlow
    makes a copy once the variable has had a sparse update.
    """

    def __init__(self, num_classes, units, **kwargs):
        """Makes a table of `num_classes` rows of `units`."""
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.units = units

    def build(self, input_shape):
        """Makes `table [num_classes, units]`."""
        self.table = self.add_weight(
            shape=(self.num_classes, self.units),
            initializer=keras.initializers.RandomNormal(stddev=0.05),
            name="table",
        )

    def call(self, tokens):
        """Returns the rows `[..., units]` of `tokens [...]`."""
        return tf.gather(self.table.value, tokens)

    def compute_output_spec(self, tokens):
        """One row per token."""
        return keras.KerasTensor((*tokens.shape, self.units))

    def get_config(self):
        """The arguments of the constructor."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "units": self.units,
        }


def make_tree(settings, text):
    """Returns the tree that `settings.tree` names.

    Args:
        settings: a `settings.Settings`.
        text: a `corpus.Corpus`, whose class ids are in order of falling
            frequency.
    """
    num_classes = len(text.words)
    if settings.tree == "huffman":
        return tf_hsm.Tree.huffman(text.counts, branching=settings.branching)
    if settings.tree == "balanced":
        return tf_hsm.Tree.balanced(num_classes, settings.branching)
    if settings.tree in ("two_level", "flat"):
        return getattr(tf_hsm.Tree, settings.tree)(num_classes)

    def batches():
        for begin in range(0, len(text.train) - 1, _CHUNK):
            tokens = text.train[begin : begin + _CHUNK + 1]
            yield tokens[None, :-1], tokens[None, 1:]

    return tf_hsm.Tree.from_data(
        batches(), num_classes=num_classes, seed=settings.seed
    )


def make_head(settings, text, embedding=None):
    """Returns the head that `settings.head` names.

    Its biases begin at the log-frequencies of the classes.

    Args:
        settings: a `settings.Settings`.
        text: a `corpus.Corpus`.
        embedding: the `keras.layers.Embedding` whose rows are the rows of a
            flat tree too.
    """
    num_classes, counts = len(text.words), text.counts
    if settings.head == "full":
        tree = tf_hsm.Tree.flat(num_classes).with_counts(counts)
        return heads.FullSoftmax(tree, name="head")
    if settings.head == "sampled":
        # Log-uniform: class ids are in order of falling frequency.
        return tf_hsm.layers.SampledSoftmax(
            num_classes,
            num_sampled=settings.num_sampled,
            counts=counts,
            seed=settings.seed,
            name="head",
        )
    if settings.head == "adaptive":
        return tf_hsm.layers.AdaptiveSoftmax(
            num_classes,
            counts=counts,
            batch=settings.batch_size * settings.steps,
            name="head",
        )
    tree = make_tree(settings, text)
    return tf_hsm.layers.HierarchicalSoftmax(
        tree.with_counts(counts), tied_to=embedding, name="head"
    )


def rate(settings, num_steps):
    """Returns the learning rate, which falls along a cosine."""
    return keras.optimizers.schedules.CosineDecay(
        settings.learning_rate, num_steps, alpha=0.05
    )


def build(settings, text, learning_rate):
    """Returns a compiled model of `{"tokens", "labels"}`: a loss per token.

    The labels are an input because the hierarchical loss needs them to choose
    the path; the mean loss comes from the head by `add_loss`. Recurrent states
    last from batch to batch until `recurrent.reset_states`.

    Args:
        settings: a `settings.Settings`.
        text: a `corpus.Corpus`.
        learning_rate: a number or a schedule.
    """
    shape = (settings.batch_size, settings.steps)
    tokens = keras.Input(batch_shape=shape, dtype="int32", name="tokens")
    labels = keras.Input(batch_shape=shape, dtype="int32", name="labels")
    # A head shares its rows with an embedding of Keras.
    kind = keras.layers.Embedding if settings.tied else Embedding
    embedding = kind(
        len(text.words), settings.embedding_width, name="embedding"
    )
    hidden = _STACKS[settings.body](embedding(tokens), settings)
    hidden = keras.layers.Dropout(
        settings.dropout,
        seed=settings.seed + len(settings.units),
        name="hidden",
    )(hidden)
    head = make_head(settings, text, embedding if settings.tied else None)
    model = keras.Model(
        {"tokens": tokens, "labels": labels}, head(hidden, labels)
    )
    model.compile(tf_hsm.optimizers.LazyAdam(learning_rate), jit_compile=False)
    return model


def body(model):
    """Returns the part of `model` from tokens to the head's inputs."""
    return keras.Model(model.input["tokens"], model.get_layer("hidden").output)
