"""What `compile` has wrong is refused in every entry that uses it."""

import contextlib
import math
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import heads_by_name
from tests.support.heads_by_name import BATCH, WIDTH
from tests.support.models import make_head, sgd
from tests.support.training import assert_same
from tf_hsm import _compiled_model, metrics
from tf_hsm.optimizers import SGD, LazyAdam, LossScaleOptimizer

ENTRIES = ("fit", "evaluate", "train_on_batch", "test_on_batch")
TRAINING = ("fit", "train_on_batch")
# One for each kind of head.
LOSSES = [
    "mse",
    "categorical_crossentropy",
    "sparse_categorical_crossentropy",
    keras.losses.MeanSquaredError(),
    keras.losses.mean_squared_error,
]
X, Y = heads_by_name.inputs("LabelTree").numpy(), np.arange(BATCH)


def sequential(head):
    return keras.Sequential([keras.layers.Dense(WIDTH), head])


def functional(head):
    inputs = keras.Input([WIDTH])
    other = keras.layers.Dense(1, name="other")(inputs)
    return keras.Model(inputs, [head(inputs), other])


def run(model, entry, x, y, **options):
    if entry in ("fit", "evaluate"):
        options["verbose"] = 0
    return getattr(model, entry)(x, y, **options)


def check_all(model, *data, words=None, error=ValueError, first=0):
    """Every entry, from one of them on, runs; or it raises an error."""
    for entry in ENTRIES[first:] + ENTRIES[:first]:
        raised = pytest.raises(error, match=words)
        with raised if words else contextlib.nullcontext():
            run(model, entry, *data)


@pytest.mark.parametrize("number, name", [*enumerate(heads_by_name.NAMES)])
def test_losses_of_keras(number, name):
    """They would compare labels with hidden vectors."""
    head, x = heads_by_name.built(name), heads_by_name.inputs(name).numpy()
    model = keras.Sequential([keras.Input(x.shape[1:], dtype=x.dtype), head])
    model.compile("sgd", LOSSES[number], run_eagerly=number % 2 == 1)
    before, y = model.get_weights(), heads_by_name.labels(name)
    words = r"compile has .*=head\.loss"
    check_all(model, x, y, words=words, first=number % 4)
    assert_same(model.get_weights(), before)
    model.compile("sgd", head.loss, run_eagerly=True)
    check_all(model, x, y)


def test_a_layer_after_the_head():
    """The loss of a subclassed model may be for another layer's output."""

    class Decoded(keras.Model):
        def __init__(self, head):
            super().__init__()
            self.head, self.decoder = head, keras.layers.Dense(1)

        def call(self, inputs):
            self.head(inputs, tf.zeros([BATCH], tf.int64))
            return self.decoder(inputs)

    model = Decoded(heads_by_name.make("HierarchicalSoftmax"))
    model.compile("sgd", "mse", run_eagerly=True)
    check_all(model, X, np.zeros([BATCH, 1]))


def test_several_outputs():
    """The head's loss and metrics are checked, and no other output's."""
    head = heads_by_name.make("HierarchicalSoftmax")
    model, y = functional(head), [Y, np.zeros([BATCH, 1])]
    for losses in (["mse", "mse"], {head.name: "mse", "other": "mse"}):
        model.compile("sgd", losses)
        check_all(model, X, y, words="compile has mse,")
    own = metrics.TopKAccuracy(head, 1)
    model.compile("sgd", [head.loss, "mse"], metrics=[[own], ["mae"]])
    check_all(model, X, y)
    model.compile("sgd", [head.loss, "mse"], metrics=[[own, "accuracy"], []])
    check_all(model, X, y, words="has accuracy, which")


def test_a_loss_and_a_metric_of_the_users():
    """They take the hidden vectors; a metric of Keras beside them does not."""

    def squares(y_true, y_pred):
        return tf.reduce_mean(tf.square(y_pred))

    head = heads_by_name.make("HierarchicalSoftmax")
    model = sequential(head)
    model.compile("sgd", squares, metrics=[squares])
    check_all(model, X, Y)
    model.compile("sgd", squares, metrics=[keras.metrics.Accuracy()])
    check_all(model, X, Y, words="compile has accuracy,")


def test_a_loss_of_the_users_by_label_losses():
    class Squared(keras.losses.Loss):
        def __init__(self, head):
            super().__init__()
            self.head = head

        def __call__(self, y_true, y_pred, sample_weight=None):
            losses = self.head.label_losses(y_true, y_pred)
            return tf.reduce_mean(tf.square(losses))

    head = heads_by_name.built("HierarchicalSoftmax")
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile("sgd", Squared(head))
    for entry in ENTRIES:
        wanted = np.mean(np.square(head(X, Y)))
        found = run(model, entry, X, Y)
        found = found.history["loss"][0] if entry == "fit" else found
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        has_moved = wanted != np.mean(np.square(head(X, Y)))
        assert has_moved == (entry in TRAINING)
        model.reset_metrics()


@pytest.mark.parametrize("eager", [False, True])
def test_head_loss_within_a_function(eager):
    """Keras converts what such a function gets: say that, and what to do."""
    head = heads_by_name.make("HierarchicalSoftmax")
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile("sgd", lambda y, x: 0.5 * head.loss(y, x), run_eagerly=eager)
    check_all(model, X, Y, words="labels must be integers", error=TypeError)
    model.compile("sgd", head.loss, loss_weights=[0.5], run_eagerly=eager)
    check_all(model, X, Y)


WRONG = {
    "loss": lambda head: {"loss": "mse"},
    "metric": lambda head: {"metrics": ["accuracy"]},
    "our metric": lambda head: {"metrics": [metrics.PrecisionAtK(head, 1000)]},
    "optimizer": lambda head: {"optimizer": SGD(0.1, use_ema=True)},
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("built", [False, True])
def test_what_is_lost(name, built):
    """Variables that are made in the step have no values after it."""
    head = make_head()
    model = sequential(head)
    compiling = {"optimizer": sgd(), "loss": head.loss, **WRONG[name](head)}
    model.compile(**compiling)
    if built:
        model.build([None, 5])
    with pytest.raises((TypeError, ValueError)) as error:
        model.fit(np.ones([4, 5]), np.arange(4), verbose=0)
    lost = not model.layers[0].kernel.value.is_initialized()
    assert lost != built
    told = str(error.value).count("The model must be made anew too")
    assert told == lost


@pytest.fixture
def many(monkeypatch):
    """Lets small tables count as large ones."""
    monkeypatch.setattr(_compiled_model, "MANY_NUMBERS", 100)


def made(name, of_model, endpoint=False, **options):
    """Returns a model with a head of a kind, and arguments of `fit`."""
    head = heads_by_name.make(name, **options)
    x = heads_by_name.inputs(name).numpy()
    inputs = keras.Input(x.shape[1:], dtype=x.dtype)
    labels = heads_by_name.labels(name)
    data = {"x": x, "y": labels}
    if endpoint:
        y = keras.Input(labels.shape[1:], dtype="int64")
        model = keras.Model([inputs, y], head(inputs, y))
        model.compile(of_model, run_eagerly=True)
        data = {"x": [x, labels]}
    else:
        model = keras.Model(inputs, head(inputs))
        model.compile(of_model, head.loss, run_eagerly=True)
    return model, {**data, "batch_size": len(x), "verbose": 0}


def told(model, data, **options):
    """Returns the warnings of `fit` about the head."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(**data, **options)
    texts = [str(w.message) for w in found if w.category is UserWarning]
    return [t for t in texts if t.startswith(f"{model.layers[-1].name}: ")]


@pytest.mark.parametrize("endpoint", [False, True])
@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_dense_work(name, endpoint, many):
    """Once, by name, with both remedies."""
    model, data = made(name, "adam", endpoint)
    head = model.layers[-1]
    (text,) = told(model, data)
    numbers = sum(math.prod(v.shape) for v in head.row_variables())
    assert text.startswith(
        f"{head.name}: Keras' Adam reads and writes all {numbers:,} numbers of "
        "this layer's tables at every step; compile with tf_hsm.optimizers."
        "LazyAdam"
    )
    has_own = name != "SampledSoftmax"
    assert ('own, optimizer="rowwise_adagrad"' in text) == has_own
    assert not told(model, data)
    model.evaluate(**data)


def test_small_tables_are_no_matter():
    assert not told(*made("HierarchicalSoftmax", "adam"))


OPTIMIZERS = [
    (lambda: keras.optimizers.SGD(0.1), None),
    (lambda: keras.optimizers.SGD(0.1, clipnorm=1.0), None),
    (lambda: keras.optimizers.SGD(0.1, momentum=0.9), "SGD"),
    (lambda: keras.optimizers.SGD(0.1, weight_decay=0.1), "SGD"),
    (lambda: keras.optimizers.Adagrad(0.1), "Adagrad"),
    (lambda: LazyAdam(0.1), None),
    (lambda: SGD(0.1, global_clipnorm=1.0), None),
    (
        lambda: keras.optimizers.LossScaleOptimizer(SGD(0.1)),
        "LossScaleOptimizer(optimizer)",
    ),
    (lambda: LossScaleOptimizer(SGD(0.1)), None),
    (
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)),
        "LossScaleOptimizer(tf_hsm.optimizers.LazyAdam(...))",
    ),
    (
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
        "LossScaleOptimizer(tf_hsm.optimizers.SGD(...))",
    ),
]


@pytest.mark.parametrize(
    "make, word, options",
    [
        *((*case, {}) for case in OPTIMIZERS),
        # The head's own optimizer trains it, or none does.
        (keras.optimizers.Adam, None, {"optimizer": "sgd"}),
        (keras.optimizers.Adam, None, {"trainable": False}),
    ],
)
def test_which_optimizers(make, word, options, many):
    texts = told(*made("HierarchicalSoftmax", make(), **options))
    assert len(texts) == (word is not None)
    assert all(f"tf_hsm.optimizers.{word}" in text for text in texts)


@pytest.mark.parametrize("name", ["HierarchicalSoftmax", "AdaptiveSoftmax"])
def test_tables_on_devices(name, many):
    """What would be fetched from them."""
    (text,) = told(*made(name, "adam", devices=["CPU:0"]))
    assert "and fetches these tables from their devices; compile with" in text
    clipped = LazyAdam(0.1, global_clipnorm=1.0)
    (text,) = told(*made(name, clipped, devices=["CPU:0"]))
    assert "global_clipnorm fetches the gradients of all touched rows" in text
    lazy = LazyAdam(0.1)
    assert not told(*made(name, lazy, devices=["CPU:0"]))
