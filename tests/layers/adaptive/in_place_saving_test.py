"""An AdaptiveSoftmax with an optimizer of its own, saved and loaded."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import in_place_models
from tests.support.in_place_models import (
    arguments,
    assert_goes_on,
    everything,
    fit,
    make_adaptive,
    own_variables,
)
from tests.support.models import WIDTH, head_of, make_data
from tests.support.training import assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import optimizers
from tf_hsm.layers import AdaptiveSoftmax

make_model = functools.partial(in_place_models.make_model, make=make_adaptive)
# A few steps take less time than their graph.
EAGERLY = {"run_eagerly": True}


def test_loaded_model_trains_on(tmp_path):
    """To the same bits as without the interruption."""
    data = arguments("compile", *make_data())
    model = make_model("compile", "rowwise_adagrad")
    fit(model, data, epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_goes_on(loaded, model, data)


def test_bfloat16_goes_on_with_its_rounding(tmp_path):
    data = arguments("endpoint", *make_data())
    options = {"dtype": "bfloat16", "seed": 5, "compiling": EAGERLY}
    model = make_model("endpoint", "lazy_adam", **options)
    fit(model, data, epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert head_of(loaded).seed == 5
    assert_goes_on(loaded, model, data)


def test_checkpoint(tmp_path):
    """tf.train.Checkpoint of the model holds the head's slots too."""
    data = arguments("compile", *make_data())
    model, other = (
        make_model("compile", "lazy_adam", compiling=EAGERLY) for _ in range(2)
    )
    fit(model, data, epochs=1)
    path = tf.train.Checkpoint(model=model).save(tmp_path / "checkpoint")
    other.optimizer.build(other.trainable_variables)
    tf.train.Checkpoint(model=other).restore(path).assert_consumed()
    assert_goes_on(other, model, data)


def test_files_of_heads_without_an_optimizer(tmp_path):
    """Each kind reads the weights of the other, although Keras sorts them."""
    plain, own = make_model("compile", own=False), make_model("compile")
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=[30, WIDTH]).astype("f4")
    path = tmp_path / "model.weights.h5"
    for source, target in ((plain, own), (own, plain)):
        for variable in head_of(source).weights:
            variable.assign(rng.normal(size=variable.shape))
        # Without the optimizers, which have other variables.
        keras.Model(source.inputs, source.outputs).save_weights(path)
        keras.Model(target.inputs, target.outputs).load_weights(path)
        heads = [head_of(target), head_of(source)]
        assert_same(*map(own_variables, heads))
        assert_same(*(head(inputs, np.arange(30)) for head in heads))


def test_weights_of_another_shape_are_refused():
    head = make_adaptive()
    head.build([None, 6])
    store = own_variables(head)
    with pytest.raises(ValueError, match=r"8 matrices to load.* has 7"):
        head.load_own_variables({k: v for k, v in store.items() if k != "0"})
    store["1"] = store["1"][1:]
    with pytest.raises(ValueError, match=r"head_bias is of .*shape \(7,\)"):
        head.load_own_variables(store)


def test_clone():
    """A clone has a fresh optimizer of the same kind, for itself."""
    data = arguments("compile", *make_data())
    model = make_model("compile", "lazy_adam", compiling=EAGERLY)
    fit(model, data, epochs=1)
    clone = keras.models.clone_model(model)
    clone.compile(OPTIMIZERS["lazy_adam"](), loss=model.loss, **EAGERLY)
    one, other = head_of(model).optimizer, head_of(clone).optimizer
    assert one is not other and int(other.iterations) == 0
    assert one.get_config() == other.get_config()
    before = everything(model)
    fit(clone, data, epochs=1)
    assert_same(everything(model), before)


@pytest.mark.parametrize("cutoffs", ["auto", [5, 14]])
def test_config_of_a_head(cutoffs):
    """It survives JSON; one without the arguments is that of a plain head."""
    head = AdaptiveSoftmax(
        30,
        cutoffs=cutoffs,
        div_value=1.5,
        optimizer=optimizers.LazyAdam(0.02, beta_1=0.7, epsilon=1e-3),
        stochastic_rounding=True,
        seed=np.int64(9),
        dtype="bfloat16",
    )
    config = json.loads(json.dumps(head.get_config()))
    copy = AdaptiveSoftmax.from_config(config)
    assert copy.get_config() == config
    assert copy.optimizer.get_config() == head.optimizer.get_config()
    assert (copy.seed, copy.stochastic_rounding) == (9, True)
    for name in ("optimizer", "stochastic_rounding", "seed"):
        del config[name]
    assert AdaptiveSoftmax.from_config(config).optimizer is None


def test_exported_models_do_not_train(tmp_path):
    """A SavedModel gives losses, and holds no training step."""
    tokens, labels = make_data()
    data = arguments("endpoint", tokens, labels)
    model = make_model("endpoint", "lazy_adam")
    fit(model, data, epochs=1)
    losses = model.predict(data["x"], verbose=0)
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    inputs = [tf.constant(tokens, tf.int32), tf.constant(labels)]
    for _ in range(2):
        np.testing.assert_allclose(exported.serve(inputs), losses, rtol=1e-6)
    graph = exported.serve.concrete_functions[0].graph.as_graph_def()
    nodes = [*graph.node]
    for function in graph.library.function:
        nodes += function.node_def
    types = {node.op for node in nodes}
    assert "ResourceTfHsmLoss" in types
    assert "ResourceTfHsmTrainStep" not in types
