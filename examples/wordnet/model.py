"""A model that finds a noun by words of its definition."""

import keras
import numpy as np

import tf_hsm
from examples.wordnet import taxonomy

_K = 10


def shuffled_two_level(num_classes, seed):
    """About sqrt(N) groups of about sqrt(N) classes that nothing joins."""
    tree = tf_hsm.Tree.two_level(num_classes)
    order = np.random.default_rng(seed).permutation(num_classes)
    return tf_hsm.Tree(
        tree.group_offsets, tree.group_parents, tree.class_rows[order]
    )


def build(tree, num_words, width, dropout):
    """A model from numbers of words `[B, T]`, 0 past the last, to a class.

    The head's input is the mean of the words' embeddings.
    """
    words = keras.Input([None], dtype="int32", name="words")
    hidden = keras.layers.Embedding(num_words, width, mask_zero=True)(words)
    # Whole words are left out.
    hidden = keras.layers.Dropout(dropout, noise_shape=(None, None, 1))(hidden)
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    head = tf_hsm.layers.HierarchicalSoftmax(
        tree, kernel_initializer="zeros", name="head"
    )
    return keras.Model(words, head(hidden))


def train(model, examples, batch_size, epochs, learning_rate):
    """Fits `model`; the rate falls along a cosine to a twentieth."""
    num_steps = epochs * -(-len(examples.labels) // batch_size)
    schedule = keras.optimizers.schedules.CosineDecay(
        learning_rate, num_steps, alpha=0.05
    )
    model.compile(
        tf_hsm.optimizers.LazyAdam(schedule),
        loss=model.get_layer("head").loss,
    )
    model.fit(
        *examples,
        batch_size=batch_size,
        epochs=epochs,
        verbose=2,
    )


def evaluate(model, examples, class_paths, batch_size):
    """Returns a line of measures on held-out examples."""
    head = model.get_layer("head")
    model.compile(
        loss=head.loss,
        metrics=[
            tf_hsm.metrics.Perplexity(head),
            tf_hsm.metrics.TopKAccuracy(head, 1, name="top_1"),
            tf_hsm.metrics.TopKAccuracy(head, _K, name="top_k"),
        ],
    )
    found = model.evaluate(
        *examples, batch_size=batch_size, verbose=0, return_dict=True
    )
    classes = best_classes(model, examples.words, batch_size)
    depths = taxonomy.common_depths(class_paths, classes, examples.labels)
    return (
        f"perplexity {found['perplexity']:,.0f}, "
        f"top 1 {found['top_1']:.2%}, top {_K} {found['top_k']:.2%}, "
        f"common ancestor at depth {depths.mean():.2f}"
    )


def best_classes(model, words, batch_size=32):
    """Returns the most probable class `[n]` for each row of words `[n, T]`."""
    hidden = model.predict(words, batch_size=batch_size, verbose=0)
    return model.get_layer("head").predict_class(hidden).numpy()


def predictions(model, tree, data, num_rows):
    """Returns what the model finds for some held-out words, as text."""
    chosen = np.linspace(0, len(data.held_out.labels) - 1, num_rows).astype(int)
    words, labels = (array[chosen] for array in data.held_out)
    lines = []
    for bag, label, found in zip(
        words, labels, best_classes(model, words), strict=True
    ):
        lines += [
            "  " + " ".join(data.vocabulary[word] for word in bag if word),
            f"    is    {path_text(tree, label)}",
            f"    found {path_text(tree, found)}",
        ]
    return "\n".join(lines)


def path_text(tree, c):
    """The path of class `c`, from the most general name on."""
    return " > ".join(name.replace("_", " ") for name in tree.path_names(c))
