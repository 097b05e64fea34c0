"""A flat softmax whose weights are the rows of a Keras `Embedding`."""

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    WIDTH,
    make_data,
    sequential,
    train,
)
from tests.support.training import assert_same
from tf_hsm.layers import HierarchicalSoftmax

FLAT = tf_hsm.Tree.flat(NUM_CLASSES)


class TiedLogits(keras.layers.Layer):
    """The stock head: a Dense whose kernel is the transposed table."""

    def __init__(self, embedding):
        super().__init__(dtype="float32")
        self.embedding = embedding
        self.supports_masking = True

    def build(self, shape):
        self.bias = self.add_weight(shape=(NUM_CLASSES,), name="bias")
        self.bias.assign(np.linspace(-1, 1, NUM_CLASSES))

    def call(self, inputs):
        table = keras.ops.transpose(self.embedding.embeddings)
        return keras.ops.matmul(inputs, table) + self.bias


def make_embedding(dtype=None):
    """A table in which 0 is padding, the same at every call."""
    initializer = keras.initializers.RandomNormal(seed=1)
    return keras.layers.Embedding(
        NUM_CLASSES, WIDTH, initializer, mask_zero=True, dtype=dtype
    )


def tied_head(embedding, **options):
    def initializer(shape, dtype):
        return tf.cast(tf.linspace(-1.0, 1.0, shape[0]), dtype)

    options.setdefault("bias_initializer", initializer)
    return HierarchicalSoftmax(FLAT, tied_to=embedding, **options)


def body(dtype=None):
    initializer = keras.initializers.GlorotUniform(seed=2)
    return keras.layers.Dense(
        WIDTH, "tanh", kernel_initializer=initializer, dtype=dtype
    )


def make_model(optimizer="sgd", dtype=None, functional=False, **options):
    """Returns a model with a tied head, and its embedding and head."""
    embedding = make_embedding(dtype)
    head = tied_head(embedding, dtype=dtype, **options)
    if functional:
        tokens = keras.Input([STEPS], dtype="int32")
        model = keras.Model(tokens, head(body(dtype)(embedding(tokens))))
    else:
        model = sequential(embedding, body(dtype), head)
    model.compile(optimizer, loss=head.loss)
    return model, embedding, head


def make_stock_model(optimizer):
    embedding = make_embedding()
    model = sequential(embedding, body(), TiedLogits(embedding))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=loss)
    return model


def parts_of(model):
    """Returns the embedding and the head of a model."""
    kinds = keras.layers.Embedding, HierarchicalSoftmax
    return [next(x for x in model.layers if isinstance(x, k)) for k in kinds]


# The optimizer of the model, and the one of the stock model.
OPTIMIZERS = {
    "sgd": 2 * (lambda: keras.optimizers.SGD(0.5),),
    "adam_clipped": 2
    * (lambda: keras.optimizers.Adam(0.03, global_clipnorm=0.1),),
    "adagrad": 2 * (lambda: keras.optimizers.Adagrad(0.1),),
    # Every step has a gradient of all rows; sparse_beta_1 is for biases.
    "lazy_adam": (
        lambda: tf_hsm.optimizers.LazyAdam(0.03, sparse_beta_1=0.9),
        lambda: keras.optimizers.Adam(0.03),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_as_stock(name):
    """Weights go where those of a Dense layer go; Adam squares one sum."""
    tokens, labels = make_data()
    optimizer, stock_optimizer = OPTIMIZERS[name]
    model, *_ = make_model(optimizer())
    stock = make_stock_model(stock_optimizer())
    stock.run_eagerly = True
    losses = train(model, tokens, labels)
    np.testing.assert_allclose(losses, train(stock, tokens, labels), rtol=1e-5)
    pairs = zip(model.variables, stock.variables, strict=True)
    for variable, expected in pairs:
        np.testing.assert_allclose(variable, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("use_bias", [True, False])
def test_calls_in_mixed_precision(use_bias):
    """The rows are read in float32, for answers and for losses."""
    _, embedding, head = make_model(dtype="mixed_bfloat16", use_bias=use_bias)
    rows = np.random.default_rng(0).normal(size=[NUM_CLASSES, WIDTH])
    embedding.embeddings.assign(rows)
    rows = embedding.embeddings.numpy()
    hidden = np.eye(2, WIDTH, dtype="f4")
    labels = np.array([3, 5])
    logits = hidden @ rows.T + (head.bias.numpy() if use_bias else 0)
    want = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    np.testing.assert_allclose(head(hidden, labels), want, rtol=1e-5)
    np.testing.assert_array_equal(head.predict_class(hidden), logits.argmax(-1))
    found = head.log_prob(labels[:, np.newaxis], hidden)[:, 0]
    np.testing.assert_allclose(found, -want, rtol=1e-5)


def test_no_label_counts():
    """The head then has no gradient, and the embedding's is zero."""
    _, embedding, head = make_model(ignore_class=3)
    with tf.GradientTape() as tape:
        hidden = embedding(np.array([[1, 2]]))
        total = tf.reduce_sum(head(hidden, np.array([[3, 3]])))
    (found,) = tape.gradient(total, [embedding.embeddings.value])
    np.testing.assert_array_equal(found, np.zeros([NUM_CLASSES, WIDTH]))


@pytest.mark.parametrize("functional", [False, True])
def test_files(functional, tmp_path):
    """A file has one table; embedding and head of the loaded model share it."""
    tokens, labels = make_data()

    def make():
        # Initializers of a file have names.
        model, *_ = make_model(
            keras.optimizers.Adam(0.03),
            functional=functional,
            bias_initializer="ones",
        )
        return model

    model = make()
    train(model, tokens, labels)
    model.save(tmp_path / "tied.keras")
    model.save_weights(tmp_path / "tied.weights.h5")
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "tied"))
    shapes = dict(tf.train.list_variables(path)).values()
    # Adam has two slots.
    assert [*shapes].count([NUM_CLASSES, WIDTH]) == 3
    shapes = []
    with h5py.File(tmp_path / "tied.weights.h5") as file:
        file["layers"].visititems(
            lambda _, x: shapes.append(getattr(x, "shape", None))
        )
    assert shapes.count((NUM_CLASSES, WIDTH)) == 1
    loaded = [keras.models.load_model(tmp_path / "tied.keras"), make(), make()]
    loaded[1].load_weights(tmp_path / "tied.weights.h5")
    tf.train.Checkpoint(model=loaded[2]).read(path).expect_partial()
    before = model.get_weights()
    losses = train(model, tokens, labels)
    for other in loaded:
        embedding, head = parts_of(other)
        assert head.kernel is embedding.embeddings
        assert len(other.variables) == 4
        assert_same(other.get_weights(), before)
    np.testing.assert_array_equal(train(loaded[0], tokens, labels), losses)


def test_copies_are_refused(tmp_path):
    """Where Keras would make a second table, without a word."""
    model, embedding, head = make_model(bias_initializer="ones")
    message = "would be tied with a copy"
    with pytest.raises(ValueError, match=message):
        keras.models.clone_model(model)
    tokens = keras.Input([STEPS], dtype="int32")
    inner = keras.Model(tokens, body()(embedding(tokens)))
    nested = keras.Model(tokens, head(inner(tokens)))
    nested.save(tmp_path / "nested.keras")
    with pytest.raises(ValueError, match=message):
        keras.models.load_model(tmp_path / "nested.keras")
    copy = keras.models.clone_model(
        model,
        clone_function=lambda x: tied_head(x.tied_to) if x is head else x,
    )
    assert parts_of(copy)[1].kernel is embedding.embeddings
