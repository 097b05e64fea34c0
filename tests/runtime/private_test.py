"""What tf_hsm/runtime/private_*.py expects of Keras, whatever its version."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_hsm.runtime import private_compile, private_keras, private_optimizer


class Stacked(keras.layers.Layer):
    """A layer with layers in a list, a dict and an attribute."""

    def __init__(self):
        super().__init__()
        self.many = [keras.layers.Dense(2), keras.layers.Dropout(0.5)]
        self.named = {"last": keras.layers.Dense(1)}
        self.scale = self.add_weight(shape=(), trainable=False)
        self.offset = self.add_weight(shape=())

    def call(self, inputs, training=None):
        for layer in self.many:
            inputs = layer(inputs)
        return self.named["last"](inputs) * self.scale + self.offset


class WithoutTraining(keras.Model):
    """A subclassed model whose `call` takes inputs alone."""

    def __init__(self):
        super().__init__()
        self.tower = keras.Sequential([Stacked()])

    def call(self, inputs):
        return self.tower(inputs)


def within(model):
    """The kinds of the layers that a model has at any depth, sorted."""
    layers = private_keras.layers_of(model)
    assert layers[0] is model
    return sorted({type(layer).__name__ for layer in layers[1:]})


def test_layers_of_layers_and_models():
    stacked = ["Dense", "Dropout", "Stacked"]
    assert within(Stacked()) == stacked[:2]
    # Not built yet: `tf.train.TrackableView` would find none of them.
    assert within(WithoutTraining()) == [*stacked[:2], "Sequential", "Stacked"]
    inputs = keras.Input((4, 3))
    lstm = keras.layers.Bidirectional(keras.layers.LSTM(2))
    dense = keras.layers.TimeDistributed(keras.layers.Dense(2))
    model = keras.Model(inputs, [lstm(inputs), dense(inputs)])
    found = private_keras.layers_of(model)
    for layer in (lstm, lstm.forward_layer, lstm.backward_layer, dense.layer):
        assert sum(other is layer for other in found) == 1


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Dense(1),
        keras.layers.Dropout(0.5),
        keras.layers.LSTM(1),
        keras.layers.Bidirectional(keras.layers.LSTM(1)),
        keras.layers.TimeDistributed(keras.layers.Dense(1)),
        keras.Sequential([keras.layers.Dense(1)]),
        keras.Model(*[keras.Input((2,))] * 2),
        Stacked(),
        WithoutTraining(),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_whether_a_call_takes_training(layer):
    assert private_keras.takes_training(layer) == layer._call_has_training_arg


def test_functions_are_traced_again():
    """Also while `fit` runs, which has the training function already."""
    traces = []

    class Traced(keras.layers.Dense):
        def call(self, inputs):
            traces.append(1)
            return super().call(inputs)

    class Forget(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                traces.clear()
                private_keras.forget_traces(self.model)

    model = keras.Sequential([keras.Input([2]), Traced(1)])
    model.compile("sgd", "mse")
    x = np.ones([8, 2], "f4")
    for ask in (model.predict, lambda x: model.evaluate(x, x[:, :1])):
        ask(x)
        traces.clear()
        private_keras.forget_traces(model)
        ask(x)
        assert traces
    model.fit(x, x[:, :1], batch_size=2, verbose=0, callbacks=[Forget()])
    assert traces
    traces.clear()
    model.fit(x, x[:, :1], batch_size=2, verbose=0)
    assert not traces


def test_first_argument_of_a_call():
    inputs = [keras.Input([3]), keras.Input([3])]
    add = keras.layers.Add()
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs=add(inputs)))
    by_kind = {
        type(call.operation).__name__: call.first_argument()
        for call in private_keras.calls_of(model)
        if call.inputs
    }
    assert all(x is y for x, y in zip(by_kind["Add"], inputs, strict=True))
    assert by_kind["Dense"] is add.output


def test_own_variables_are_saved_in_their_order():
    layer = Stacked()
    layer(np.ones([1, 3]))
    assert len(layer.weights) == 6
    own = private_keras.own_variables(layer)
    assert [
        v is w for v, w in zip(own, [layer.offset, layer.scale], strict=True)
    ]
    layer.offset.assign(3)
    layer.scale.assign(4)
    store = {}
    layer.save_own_variables(store)
    assert [float(store[key]) for key in sorted(store)] == [3, 4]
    assert [float(v) for v in own] == [3, 4]


def test_masks():
    tensor = tf.constant([[1, 0]])
    assert private_keras.mask_of(tensor) is None
    embedding = keras.layers.Embedding(2, 3, mask_zero=True)
    mask = private_keras.mask_of(embedding(tensor))
    np.testing.assert_array_equal(mask, [[True, False]])
    private_keras.set_mask(tensor, mask)
    assert private_keras.mask_of(tensor) is mask
    masked = keras.layers.GlobalAveragePooling1D()
    values = tf.constant([[[2.0], [4.0]]])
    private_keras.set_mask(values, mask)
    np.testing.assert_array_equal(masked(values), [[2.0]])


def test_what_compile_was_given():
    inputs = keras.Input((2,))
    outputs = [keras.layers.Dense(1, name=name)(inputs) for name in "ab"]
    one, two = keras.losses.MeanSquaredError(), keras.losses.MeanAbsoluteError()
    for loss, weights in (
        ([one, two], [0.25, 0.5]),
        ({"a": one, "b": two}, {"a": 0.25, "b": 0.5}),
    ):
        model = keras.Model(inputs, outputs)
        model.compile("sgd", loss, weights)
        for name, given, weight in (("a", one, 0.25), ("b", two, 0.5)):
            found, metrics = private_compile.compiled_with_loss(model, given)
            assert (found, metrics) == ([weight], [])
            (found,) = private_compile.losses_of_output(model, name)
            assert found is given
        assert not private_compile.is_compiled_with_metrics(model)
        # Keras keeps the losses.
        model.compile("sgd", metrics={"b": "mae"})
        assert private_compile.is_compiled_with_metrics(model)
        assert private_compile.losses_of_output(model, "b") == [two]
        assert private_compile.metrics_of_output(model, "b") == ["mae"]
        assert private_compile.metrics_of_output(model, "a") == []


def test_slots_of_variables():
    variables = [keras.Variable(np.ones([n, 2])) for n in (3, 4)]
    others = keras.Variable(np.ones([3, 2]))
    for amsgrad, kinds in ((False, 2), (True, 3)):
        adam = keras.optimizers.Adam(amsgrad=amsgrad, weight_decay=0.1)
        adam.exclude_from_weight_decay([variables[1]])
        adam.build(variables)
        slots = private_optimizer.adam_slots(adam)
        assert len(slots) == kinds
        for kind in slots:
            assert [tuple(s.shape) for s in kind] == [(3, 2), (4, 2)]
        decays = [private_optimizer.lets_decay(adam, v) for v in variables]
        assert decays == [True, False]
    assert private_optimizer.built_variables(adam) == variables
    # Both a Keras variable and the TensorFlow variable within.
    assert private_optimizer.index_of(adam, variables[1]) == 1
    assert private_optimizer.index_of(adam, variables[1].value) == 1
    with pytest.raises(ValueError, match="Unknown variable"):
        private_optimizer.index_of(adam, others)
    adagrad = keras.optimizers.Adagrad(initial_accumulator_value=0.5)
    adagrad.build(variables)
    (accumulators,) = private_optimizer.adagrad_slots(adagrad)
    for accumulator, variable in zip(accumulators, variables, strict=True):
        np.testing.assert_array_equal(
            accumulator, np.full(variable.shape, 0.5, np.float32)
        )


class Spying(keras.layers.Layer):
    """Notes the steps that call it."""

    def call(self, inputs):
        self.seen = private_keras.trainer_step_of(self.model())
        return inputs


@pytest.mark.parametrize("strategy", [None, "mirrored"])
@pytest.mark.parametrize("eager", [False, True])
def test_trainer_steps(eager, strategy):
    """Found in `fit` and `evaluate` alone, with sample weights."""
    x, weights = np.ones([4, 2]), np.ones(4)
    spying = Spying()
    strategy = strategy and tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = keras.Sequential([keras.layers.Dense(2), spying])
        model.compile("sgd", "mse", run_eagerly=eager)
    other = WithoutTraining()
    spying.model = lambda: other
    model.fit(x, x, verbose=0)
    assert spying.seen is None
    spying.model = lambda: model
    for entry in (model.fit, model.evaluate):
        model.make_train_function(force=True)
        model.make_test_function(force=True)
        entry(x, x, verbose=0)
        assert spying.seen == private_keras.TrainerStep(True, None)
        entry(x, x, sample_weight=weights, verbose=0)
        assert spying.seen.sample_weight is not None
    model.predict(x, verbose=0)
    assert spying.seen is None
    spying.seen = ""
    model(x)
    assert spying.seen is None
