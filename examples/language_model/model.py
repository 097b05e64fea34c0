"""The next-token model: Embedding, recurrent layers, a head."""

import keras
import tensorflow as tf

import tf_hsm
from examples.language_model import heads
from examples.language_model.trees import TREES

_CELLS = {
    "rnn": keras.layers.SimpleRNN,
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
}


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


def make_head(settings, text):
    """The head that `settings.head` names, for the classes of a `Corpus`."""
    num_classes = len(text.words)
    counts = text.counts if settings.frequency_biases else None
    if settings.head == "full":
        return heads.FullSoftmax(num_classes, counts, name="head")
    if settings.head == "sampled":
        return heads.SampledSoftmax(
            num_classes,
            settings.num_sampled,
            settings.seed,
            counts,
            name="head",
        )
    if settings.head == "adaptive":
        # Without counts: class ids are in order of falling frequency.
        return tf_hsm.layers.AdaptiveSoftmax(
            num_classes,
            counts=counts,
            tail=settings.tail,
            batch=settings.batch_size * settings.steps,
            name="head",
        )
    tree = TREES[settings.tree](text, settings.branching, settings.seed)
    return tf_hsm.layers.HierarchicalSoftmax(tree, counts=counts, name="head")


def build(settings, text, learning_rate):
    """A compiled model of `{"tokens", "labels"}` with per-token loss output.

    The labels are an input because the hierarchical loss needs them to choose
    the path; the mean loss comes from the head by `add_loss`. Recurrent states
    last from batch to batch until `reset_states`.

    Args:
        settings: a `settings.Settings`.
        text: a `corpus.Corpus`.
        learning_rate: of the optimizer, a schedule.
    """
    shape = (settings.batch_size, settings.steps)
    tokens = keras.Input(batch_shape=shape, dtype="int32", name="tokens")
    labels = keras.Input(batch_shape=shape, dtype="int32", name="labels")
    hidden = Embedding(len(text.words), settings.units, name="embedding")(
        tokens
    )
    for i in range(settings.layers):
        hidden = keras.layers.Dropout(
            settings.dropout, seed=settings.seed + i, name=f"dropout_{i}"
        )(hidden)
        hidden = _CELLS[settings.cell](
            settings.units,
            return_sequences=True,
            stateful=True,
            name=f"{settings.cell}_{i}",
        )(hidden)
    hidden = keras.layers.Dropout(
        settings.dropout, seed=settings.seed + settings.layers, name="hidden"
    )(hidden)
    loss = make_head(settings, text)(hidden, labels)
    model = keras.Model({"tokens": tokens, "labels": labels}, loss)
    optimizer = tf_hsm.optimizers.LazyAdam(learning_rate)
    model.compile(optimizer, jit_compile=False)
    return model


def schedule(settings, num_steps):
    """The learning rate: it falls to a twentieth over so many steps."""
    return keras.optimizers.schedules.CosineDecay(
        settings.learning_rate, num_steps, alpha=0.05
    )


def body(model):
    """The part of `model` from tokens to the head's inputs `[B, T, D]`."""
    return keras.Model(model.input["tokens"], model.get_layer("hidden").output)


def writer(model, num_texts):
    """A copy of `body(model)` that takes the next token of so many texts.

    It takes `[num_texts, 1]` class ids and has recurrent states of its own: at
    first zero, as at the start of a text.
    """
    original = body(model)
    copy = keras.models.clone_model(
        original,
        input_tensors=keras.Input(batch_shape=(num_texts, 1), dtype="int32"),
    )
    copy.set_weights(original.get_weights())
    return copy


def states(model):
    """The recurrent states, which last from batch to batch: variables."""
    return [
        state
        for layer in model.layers
        if isinstance(layer, keras.layers.RNN)
        for state in layer.states
    ]


def reset_states(model):
    """Sets every recurrent state to zero, as at the start of a text."""
    for state in states(model):
        state.assign(keras.ops.zeros_like(state))
