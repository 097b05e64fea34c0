"""What tf_hsm/runtime/private_*.py expects of Keras and TensorFlow."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import private
from tf_hsm.runtime import (
    model_calls,
    private_keras,
    private_optimizer,
    private_tensorflow,
)


class Stacked(keras.layers.Layer):
    """A layer with layers in a list, a dict and an attribute."""

    def __init__(self):
        super().__init__()
        self.many = [keras.layers.Dense(2), keras.layers.Dropout(0.5)]
        self.named = {"last": keras.layers.Dense(1)}
        self.scale = self.add_weight(shape=(), trainable=False)
        self.offset = self.add_weight(shape=())

    def call(self, inputs):
        for layer in self.many:
            inputs = layer(inputs)
        return self.named["last"](inputs) * self.scale + self.offset


class Subclassed(keras.Model):
    """A model that is neither Sequential nor functional."""

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
    assert within(Subclassed()) == [*stacked[:2], "Sequential", "Stacked"]
    inputs = keras.Input((4, 3))
    lstm = keras.layers.Bidirectional(keras.layers.LSTM(2))
    dense = keras.layers.TimeDistributed(keras.layers.Dense(2))
    model = keras.Model(inputs, [lstm(inputs), dense(inputs)])
    found = private_keras.layers_of(model)
    for layer in (lstm, lstm.forward_layer, lstm.backward_layer, dense.layer):
        assert sum(other is layer for other in found) == 1


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
        for call in model_calls.calls_of(model)
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


def test_what_compile_was_given():
    inputs = keras.Input((2,))
    outputs = [keras.layers.Dense(1, name=name)(inputs) for name in "ab"]
    one, two = keras.losses.MeanSquaredError(), keras.losses.MeanAbsoluteError()
    for loss in ([one, two], {"a": one, "b": two}):
        model = keras.Model(inputs, outputs)
        model.compile("sgd", loss)
        assert private_keras.compiled_with(model) == [loss, None, None]
        # Keras keeps the losses.
        metrics, weighted = {"b": "mae"}, [[], "mse"]
        model.compile("sgd", metrics=metrics, weighted_metrics=weighted)
        found = private_keras.compiled_with(model)
        assert found == [loss, metrics, weighted]
    model = Subclassed()
    model.compile("sgd", one)
    assert private_keras.compiled_with(model) == [one, None, None]


def test_the_model_that_is_called():
    """A layer finds the model that `fit` calls, or itself."""
    found = []

    class Noting(keras.layers.Layer):
        def call(self, inputs):
            found.append(private_keras.called())
            return inputs

    layer = Noting()
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1), layer])
    model.compile("sgd", "mse")
    outer = keras.Model(inputs := keras.Input([1]), model(inputs))
    x = np.zeros([4, 1])
    for call, wanted in (
        (lambda: layer(x), layer),
        (lambda: model(x), model),
        (lambda: model.fit(x, x, verbose=0), model),
        (lambda: outer(x), outer),
    ):
        call()
        assert found[-1] is wanted
    assert private_keras.called() is None


def test_variables_of_optimizers():
    variables = [keras.Variable(np.ones([n, 2])) for n in (3, 4)]
    adam = keras.optimizers.Adam(weight_decay=0.1)
    adam.build(variables)
    assert private_optimizer.built_variables(adam) == variables
    for variable in variables:
        for given in (variable, variable.value):
            found = private_optimizer.built_variable(adam, given)
            assert found is variable
    with pytest.raises(ValueError, match="Unknown variable"):
        private_optimizer.built_variable(adam, keras.Variable(1.0))


def test_variables_that_do_not_decay():
    """More of them, after `build`, where names are excluded already."""
    variables = [keras.Variable(1.0, name=name) for name in ("a", "b", "c")]
    adam = keras.optimizers.Adam(weight_decay=0.1)
    assert private_optimizer.names_not_decayed(adam) is None
    adam.exclude_from_weight_decay(var_names=["b"])
    adam.build(variables)
    for excluded, decays in (([], [1, 0, 1]), (variables[2:], [1, 0, 0])):
        private_optimizer.exclude_from_decay(adam, excluded)
        assert decays == [
            private_optimizer.has_decay(adam, v) for v in variables
        ]
    assert private_optimizer.names_not_decayed(adam) == "b"


@pytest.mark.parametrize("rate", [0.1, lambda: 0.1])
def test_schedules(rate):
    optimizer = keras.optimizers.SGD(rate)
    before = optimizer.learning_rate
    with private_optimizer.without_schedule(optimizer):
        assert optimizer.learning_rate == 1e-3
    assert optimizer.learning_rate is before


def test_tapes():
    """Tapes watch a variable that is read if it is trainable."""
    assert not private_tensorflow.has_tape()
    for trainable in (True, False):
        variable = tf.Variable(1.0, trainable=trainable)
        with tf.GradientTape() as tape:
            assert private_tensorflow.has_tape()
            private_tensorflow.note_read(variable)
        assert tape.watched_variables() == (variable,) * trainable


def test_variables_of_strategies():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        mirrored = tf.Variable(1.0)
        with private_tensorflow.unmirrored():
            plain = tf.Variable(1.0)
    assert isinstance(mirrored, tf.distribute.DistributedValues)
    assert not isinstance(plain, tf.distribute.DistributedValues)
    sharded = private.sharded_variable([tf.Variable([1.0])])
    assert private_tensorflow.is_sharded(sharded)
    assert not private_tensorflow.is_sharded(mirrored)


@pytest.mark.parametrize("in_xla", [False, True])
def test_graphs(in_xla):
    variable = tf.Variable(np.ones([2, 3], "f4"))
    seen = []

    @tf.function(jit_compile=in_xla, autograph=False)
    def function(x):
        seen.append(private_tensorflow.is_in_xla())
        return tf.cond(x[0, 0] > 0, lambda: x @ variable, lambda: x @ variable)

    graph = function.get_concrete_function(tf.ones([5, 2])).graph
    assert seen == [in_xla]
    (branching,) = [o for o in graph.get_operations() if "If" in o.type]
    branch = private_tensorflow.function_graph(
        graph, branching.get_attr("then_branch").name
    )
    (product,) = [o for o in branch.get_operations() if o.type == "MatMul"]
    assert private_tensorflow.flops_of(product) == 2 * 5 * 2 * 3
    assert private_tensorflow.flops_of(branching) is None
    ((_, handle),) = graph.captures
    assert private_tensorflow.shape_of_variable(handle) == [2, 3]
