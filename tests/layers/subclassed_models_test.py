"""Models of a user's class, whose layers Keras builds on placeholders."""

import contextlib
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.heads_by_name import make
from tests.support.training import assert_same
from tf_hsm import optimizers

X = np.arange(48) % 12
Y = X * 2
KINDS = ["HierarchicalSoftmax", "AdaptiveSoftmax", "LabelTree"]


@keras.saving.register_keras_serializable("tests")
class Model(keras.Model):
    """A head on an embedding."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.body = keras.layers.Embedding(12, 8)
        self.head = make(kind, optimizer=optimizers.RowwiseAdagrad(0.5, 0.1))

    def call(self, x):
        return self.head(self.body(x))

    def get_config(self):
        return {"kind": self.kind}


def labels_of(kind):
    return Y[:, None] if kind == "LabelTree" else Y


def trained(name):
    model = Model(name)
    model.compile("sgd", model.head.loss)
    labels = labels_of(name)
    model.fit(X, labels, epochs=3, verbose=0)
    return model, labels


def check_same(model, other):
    assert_same(
        *([*m.variables, *m.head.optimizer.variables] for m in (model, other))
    )


@pytest.mark.parametrize("name", KINDS)
def test_files(name, tmp_path):
    """They load with all weights, and go on with the head's own optimizer."""
    model, labels = trained(name)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.models.load_model(path)
    assert len(model.weights) > 2
    check_same(model, loaded)
    model.save_weights(tmp_path / "model.weights.h5")
    other = Model(name)
    other.compile("sgd", other.head.loss)
    other(X[:1])
    other.load_weights(tmp_path / "model.weights.h5")
    check_same(model, other)
    for one in (model, loaded, other):
        one.fit(X, labels, shuffle=False, verbose=0)
    check_same(model, loaded)
    check_same(model, other)


class Stop(keras.callbacks.Callback):
    """Interrupts before the third epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


def test_back_up_and_restore(tmp_path):
    """What was interrupted ends as what was not."""
    models = [Model("HierarchicalSoftmax") for _ in range(3)]
    for model in models:
        model.compile("sgd", model.head.loss)
        model(X[:1])
        model.set_weights(models[0].get_weights())
    whole, interrupted, resumed = models
    options = {"epochs": 4, "shuffle": False, "verbose": 0}
    whole.fit(X, Y, **options)
    back_up = keras.callbacks.BackupAndRestore(tmp_path / "states")
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X, Y, callbacks=[back_up, Stop()], **options)
    back_up = keras.callbacks.BackupAndRestore(tmp_path / "states")
    resumed.fit(X, Y, callbacks=[back_up], **options)
    check_same(whole, resumed)


def test_a_step_in_a_layer_of_a_users():
    """Its losses and steps are those of the model without."""

    class Outer(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.head = make("HierarchicalSoftmax", optimizer="sgd")

        def call(self, x):
            return self.head(x)

    outer = Outer()
    model = keras.Sequential(
        [keras.Input([], dtype="int32"), keras.layers.Embedding(12, 8), outer]
    )
    model.compile("sgd", outer.head.loss)
    kernel = outer.head.kernel.numpy()
    model.fit(X, Y, verbose=0)
    assert (outer.head.kernel.numpy() != kernel).any()
    assert outer.head.optimizer.iterations == 2


class OwnStep(Model):
    """Trains by a step of its own."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


@pytest.mark.parametrize("name", KINDS)
def test_a_step_of_a_users(name):
    """It trains as the step of Keras does."""
    model, other = OwnStep(name), Model(name)
    labels = labels_of(name)
    for each in (model, other):
        each.compile("sgd", each.head.loss)
        each(X[:1])
    other.set_weights(model.get_weights())
    for each in (model, other):
        each.fit(X, labels, shuffle=False, verbose=0)
    assert model.head.optimizer.iterations == 2
    check_same(model, other)


CALLS = {
    "endpoint": lambda head, x, y: head(x, y),
    "loss": lambda head, x, y: head.loss(y, x),
    "embed": lambda head, x, y: head.embed(y),
}


@pytest.mark.parametrize(
    "kind, call",
    [
        *itertools.product(KINDS, ["endpoint", "loss"]),
        ("AdaptiveSoftmax", "embed"),
    ],
)
def test_what_no_tape_recorded(kind, call):
    """A function traced outside a tape makes no step: its gradient is refused.

    A frozen head allows the gradient.
    """
    x = tf.constant(np.random.default_rng(0).normal(size=[4, 8]), tf.float32)
    y = labels_of(kind)[:4]
    options = {"width": 8} if call == "embed" else {}
    for trainable in (True, False):
        head = make(kind, optimizer="sgd", trainable=trainable, **options)
        head(x)
        function = tf.function(lambda x, head=head: CALLS[call](head, x, y))
        function(x)
        before = [v.numpy() for v in head.variables]
        refused = pytest.raises(LookupError, match="no tape recorded them")
        # Such a function makes its backward pass where a tape calls it.
        with (
            refused if trainable else contextlib.nullcontext(),
            tf.GradientTape() as tape,
        ):
            tape.watch(x)
            found = function(x)
        if not trainable:
            source = head.projections[0].value if call == "embed" else x
            assert tape.gradient(found, source) is not None
        assert_same(head.variables, before)
