"""The next-token model: Embedding, a body, a head."""

import keras
import tensorflow as tf

import tf_hsm
from examples.language_model import recurrent, transformer

_STACKS = {"recurrent": recurrent.stack, "transformer": transformer.stack}
_CHUNK = 1 << 20  # tokens that are read at once


@keras.saving.register_keras_serializable("language_model")
class Embedding(keras.layers.Embedding):
    """Rows of a table, gathered without reading the table.

    `keras.layers.Embedding` reads the whole variable first, which TensorFlow
    makes a copy once the variable has had a sparse update.
    """

    def call(self, tokens):
        """Returns the rows `[..., units]` of `tokens [...]`."""
        return tf.gather(self.embeddings.value, tokens)


@keras.saving.register_keras_serializable("language_model")
class FullSoftmax(tf_hsm.layers.HierarchicalSoftmax):
    """The full softmax of stock TensorFlow, to compare other heads with.

    It costs O(N D) per token and stores the logits.

    The tree is `Tree.flat(N)`. Only the loss is another: `log_probs`, `top_k`
    and `sample` of the layer answer as they do for any tree.
    """

    def call(self, inputs, labels):
        """Returns the loss `[...]` and adds its mean to the model's."""
        logits = tf.matmul(inputs, self.kernel.value, transpose_b=True)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits + self.bias.value
        )
        self.add_loss(tf.reduce_mean(loss))
        return loss

    def compute_output_spec(self, inputs, labels):
        """One loss per label."""
        return keras.KerasTensor(labels.shape, dtype=inputs.dtype)


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
        return FullSoftmax(tree, name="head")
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
    embedding = Embedding(
        len(text.words),
        settings.units[-1 if settings.tied else 0],
        keras.initializers.RandomNormal(stddev=0.05),
        name="embedding",
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
