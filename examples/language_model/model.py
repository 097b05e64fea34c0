"""The next-token model: Embedding, a body, a head."""

import keras
import tensorflow as tf

import tf_hsm
from examples.language_model import (
    heads,
    optimization,
    recurrent,
    transformer,
)
from examples.language_model.trees import TREES

_STACKS = {"recurrent": recurrent.stack, "transformer": transformer.stack}


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


@keras.saving.register_keras_serializable("language_model")
class TextLoss(keras.layers.Layer):
    """Keeps the mean of the losses that it is given, as a metric.

    Where there are penalties, the model's loss has them too.
    """

    METRIC = "nats"

    def __init__(self, **kwargs):
        """Makes the metric."""
        super().__init__(**kwargs)
        self.mean = keras.metrics.Mean(name=self.METRIC)

    def call(self, losses):
        """Returns `losses [...]`."""
        self.mean.update_state(losses)
        return losses

    def compute_output_spec(self, losses):
        """The same."""
        return keras.KerasTensor(losses.shape, dtype=losses.dtype)


def make_head(settings, text, learning_rate, embedding=None):
    """The head that `settings.head` names, for the classes of a `Corpus`.

    Args:
        settings: a `settings.Settings`.
        text: a `corpus.Corpus`.
        learning_rate: of an optimizer of the head's own.
        embedding: the `keras.layers.Embedding` that a flat tree is tied with.
    """
    num_classes = len(text.words)
    counts = text.counts if settings.frequency_biases else None
    if settings.head == "full":
        return heads.FullSoftmax(num_classes, counts, name="head")
    penalty = keras.regularizers.L2(settings.l2) if settings.l2 else None
    if settings.head == "sampled":
        # Log-uniform: class ids are in order of falling frequency.
        return tf_hsm.layers.SampledSoftmax(
            num_classes,
            num_sampled=settings.num_sampled,
            counts=counts,
            seed=settings.seed,
            kernel_regularizer=penalty,
            name="head",
        )
    own = None
    if settings.in_place:
        own = optimization.make(settings, learning_rate)
    if settings.head == "adaptive":
        # Without counts: class ids are in order of falling frequency.
        return tf_hsm.layers.AdaptiveSoftmax(
            num_classes,
            cutoffs="auto"
            if settings.cutoffs is None
            else list(settings.cutoffs),
            counts=counts,
            tail=settings.tail,
            width=settings.head_width if settings.tied else None,
            batch=settings.batch_size * settings.steps,
            optimizer=own,
            kernel_regularizer=penalty,
            name="head",
        )
    tree = TREES[settings.tree](text, settings.branching, settings.seed)
    return tf_hsm.layers.HierarchicalSoftmax(
        tree.with_counts(counts),
        optimizer=own,
        tied_to=embedding,
        kernel_regularizer=penalty,
        name="head",
    )


def build(settings, text, learning_rate):
    """A compiled model of `{"tokens", "labels"}` with per-token loss output.

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
    head = embedding = None
    if settings.tied and settings.head == "adaptive":
        head = make_head(settings, text, learning_rate)
        hidden = head(tokens, embed=True)
    elif settings.tied:
        embedding = keras.layers.Embedding(
            len(text.words),
            settings.embedding_width,
            keras.initializers.RandomNormal(stddev=0.05),
            name="embedding",
        )
        hidden = embedding(tokens)
    else:
        hidden = Embedding(
            len(text.words), settings.embedding_width, name="embedding"
        )(tokens)
    hidden = _STACKS[settings.body](hidden, settings)
    if settings.projection:
        hidden = keras.layers.Dense(
            settings.projection, use_bias=False, name="projection"
        )(hidden)
    hidden = keras.layers.Dropout(
        settings.dropout,
        seed=settings.seed + len(settings.units),
        name="hidden",
    )(hidden)
    head = head or make_head(settings, text, learning_rate, embedding)
    losses = head(hidden, labels)
    if settings.l2:
        losses = TextLoss(name="text_loss")(losses)
    model = keras.Model({"tokens": tokens, "labels": labels}, losses)
    add_penalties(model, settings)
    model.compile(optimization.make(settings, learning_rate), jit_compile=False)
    return model


def add_penalties(model, settings):
    """Adds the L2 penalties that a saved model does not have.

    All matrices between embedding and head get one, and the full softmax. The
    other heads are made with theirs.
    """
    if not settings.l2:
        return
    for layer in model.layers:
        if layer.name == "embedding":
            continue
        if layer.name == "head" and settings.head != "full":
            continue
        for variable in layer.trainable_weights:
            if len(variable.shape) > 1:
                variable.regularizer = keras.regularizers.L2(settings.l2)


def text_loss(logs):
    """The mean loss of a token among the metrics of a model, in nats."""
    return float(logs.get(TextLoss.METRIC, logs["loss"]))


def body(model):
    """The part of `model` from tokens to the head's inputs `[B, T, D]`."""
    return keras.Model(model.input["tokens"], model.get_layer("hidden").output)
