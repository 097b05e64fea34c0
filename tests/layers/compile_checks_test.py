"""What `compile` has wrong is refused in every entry that uses it."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import heads_by_name
from tests.support.heads_by_name import BATCH, WIDTH
from tf_hsm import metrics
from tf_hsm.losses import HeadLoss

ENTRIES = ("fit", "evaluate", "train_on_batch", "test_on_batch")
TRAINING = ("fit", "train_on_batch")
LOSSES = {
    "name": "mse",
    "categorical": "categorical_crossentropy",
    "sparse": "sparse_categorical_crossentropy",
    "object": keras.losses.MeanSquaredError(),
    "function": keras.losses.mean_squared_error,
}
X, Y = heads_by_name.inputs("LabelTree").numpy(), np.arange(BATCH)


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """A model that does not name its outputs."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def call(self, x, training=False):
        return self.head(x, training=training)


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


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_of_keras(loss, entry, eager):
    """They compare labels with classes or hidden vectors; predict is free."""
    head = heads_by_name.make("HierarchicalSoftmax")
    model = sequential(head)
    model.build([None, WIDTH])
    model.compile("sgd", LOSSES[loss], run_eagerly=eager)
    before = model.get_weights()
    with pytest.raises(ValueError, match=r"compile has the loss .*=head\.loss"):
        run(model, entry, X, Y)
    for now, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, old)
    assert model.predict(X, verbose=0).shape == (BATCH,)
    assert model(X).shape == (BATCH,)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_every_head(name, entry):
    head, x = heads_by_name.built(name), heads_by_name.inputs(name).numpy()
    model = keras.Sequential([keras.Input(x.shape[1:], dtype=x.dtype), head])
    model.compile("sgd", "mse", run_eagerly=True)
    y = heads_by_name.labels(name)
    with pytest.raises(ValueError, match=r"compile has the loss mse"):
        run(model, entry, x, y)
    model.compile("sgd", head.loss, run_eagerly=True)
    run(model, entry, x, y)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_layer_after_the_head(entry):
    """The loss of a subclassed model may be for another layer's output."""

    class Decoded(keras.Model):
        def __init__(self, head):
            super().__init__()
            self.head, self.decoder = head, keras.layers.Dense(1)

        def call(self, inputs, training=False):
            if training:
                self.head(inputs, tf.zeros([BATCH], tf.int64))
            else:
                self.head(inputs)
            return self.decoder(inputs)

    model = Decoded(heads_by_name.make("HierarchicalSoftmax"))
    model.compile("sgd", "mse", run_eagerly=True)
    run(model, entry, X, np.zeros([BATCH, 1]))


@pytest.mark.parametrize("entry", ENTRIES)
def test_several_outputs(entry):
    """The head's loss is checked, and no other output's."""
    head = heads_by_name.make("HierarchicalSoftmax")
    model, y = functional(head), [Y, np.zeros([BATCH, 1])]
    for losses in (["mse", "mse"], {head.name: "mse", "other": "mse"}):
        model.compile("sgd", losses)
        with pytest.raises(ValueError, match="compile has the loss mse"):
            run(model, entry, X, y)
    model.compile("sgd", [head.loss, "mse"])
    run(model, entry, X, y)


@pytest.mark.parametrize("entry", TRAINING)
def test_metrics_of_keras_beside_a_loss_of_the_users(entry):
    """In training the output is the layer's inputs."""

    class Loss(HeadLoss):
        """Takes the head's output as it is."""

        def __call__(self, y_true, y_pred, sample_weight=None):
            return tf.reduce_mean(tf.square(y_pred))

    model = sequential(heads_by_name.make("HierarchicalSoftmax"))
    model.compile("sgd", Loss(), metrics=[keras.metrics.Accuracy()])
    with pytest.raises(ValueError, match=r"compile has the metrics \['acc"):
        run(model, entry, X, Y)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("entry", ENTRIES)
def test_head_loss_within_a_function(entry, eager):
    """Keras converts what such a function gets: say that, and what to do."""
    head = heads_by_name.make("HierarchicalSoftmax")
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile("sgd", lambda y, x: 0.5 * head.loss(y, x), run_eagerly=eager)
    error = TypeError if entry in TRAINING else ValueError
    with pytest.raises(error, match="a loss that is a function: give compile"):
        run(model, entry, X, Y)
    model.compile("sgd", head.loss, loss_weights=[0.5], run_eagerly=eager)
    run(model, entry, X, Y)


def endpoint(name="HierarchicalSoftmax", weighted=False):
    shape = [3] if name == "LabelTree" else []
    inputs = [keras.Input([WIDTH]), keras.Input(shape, dtype="int64")]
    inputs += [keras.Input([])] if weighted else []
    model = keras.Model(inputs, heads_by_name.make(name)(*inputs))
    model.compile("sgd")
    return model


@pytest.mark.parametrize("from_data_set", [False, True])
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("name", ["HierarchicalSoftmax", "LabelTree"])
def test_sample_weights_of_an_endpoint(name, entry, from_data_set):
    """Keras drops them: a warning, and none where they are an input."""
    labels, weights = heads_by_name.labels(name), np.linspace(0, 1, BATCH)
    x, options = [X, labels], {"sample_weight": weights}
    y = None
    if from_data_set:
        if entry not in ("fit", "evaluate"):
            pytest.skip("a batch is no data set")
        data = ((X, labels), labels, weights)
        x, options = tf.data.Dataset.from_tensors(data), {}
    with pytest.warns(UserWarning, match="sample_weight and class_weight of"):
        run(endpoint(name), entry, x, y, **options)
    model = endpoint(name, weighted=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(endpoint(name), entry, [X, labels], None)
        run(model, entry, [X, labels, weights], None)


def test_sample_weights_that_count():
    """Those of a loss in `compile`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        head = heads_by_name.make("HierarchicalSoftmax")
        model = keras.Sequential([keras.Input([WIDTH]), head])
        model.compile("sgd", head.loss, metrics=[metrics.Perplexity()])
        weights = np.arange(BATCH) / 8
        found = model.evaluate(X, Y, sample_weight=weights, verbose=0)
        losses = head(X, Y).numpy()
        np.testing.assert_allclose(
            found[0], (weights * losses).mean(), rtol=1e-5
        )
