"""EmbeddingSoftmax: saved, loaded, grown and exported."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import embedding_softmaxes as softmaxes
from tests.support.in_place_models import FORMS, fit
from tests.support.models import NUM_CLASSES
from tests.support.training import assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import serving
from tf_hsm.layers import EmbeddingSoftmax


def layer_of(model):
    (layer,) = (x for x in model.layers if isinstance(x, EmbeddingSoftmax))
    return layer


@pytest.mark.parametrize(
    "kind, form, rule, dtype, eager",
    [
        ("ragged", "compile", "lazy_adam", "float32", False),
        ("weighted", "endpoint", "rowwise_adagrad", "bfloat16", True),
    ],
)
def test_loaded_model_trains_on(kind, form, rule, dtype, eager, tmp_path):
    """To the same bits as without the interruption."""
    data = softmaxes.arguments(
        form, softmaxes.make_inputs(kind), softmaxes.make_labels()
    )
    layer = softmaxes.make_layer(
        optimizer=OPTIMIZERS[rule](), dtype=dtype, seed=3
    )
    model = softmaxes.make_model(layer, kind, form)
    model.run_eagerly = eager
    fit(model, data, epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.run_eagerly = eager
    assert_same(softmaxes.state(layer_of(loaded)), softmaxes.state(layer))
    assert_same(fit(loaded, data), fit(model, data))
    assert_same(softmaxes.state(layer_of(loaded)), softmaxes.state(layer))


def test_config():
    """It survives JSON, and makes the same layer."""
    for layer in (
        EmbeddingSoftmax(
            softmaxes.make_layer().tree, num_embeddings=9, width=4
        ),
        softmaxes.make_layer(
            optimizer=tf_hsm.optimizers.Adagrad(0.3, epsilon=0.1),
            combiner="sum",
            padding_id=np.int64(7),
            label_smoothing=0.1,
            use_bias=False,
            name="vectors",
        ),
    ):
        config = layer.get_config()
        copy = EmbeddingSoftmax.from_config(json.loads(json.dumps(config)))
        assert copy.get_config() == config
        layer.build()
        copy.build()
        shapes = [v.shape for v in layer.variables]
        assert [v.shape for v in copy.variables] == shapes
    assert (copy.combiner, copy.padding_id) == ("sum", 7)
    assert (copy.num_embeddings, copy.width) == (
        softmaxes.COUNT,
        softmaxes.WIDTH,
    )
    # Its initializer has a seed.
    assert_same(copy.embeddings.numpy(), layer.embeddings.numpy())


def test_loaded_answers(tmp_path):
    """A loaded layer of sums, with padding, has the saved layer's outputs."""
    layer = softmaxes.make_layer(combiner="sum", padding_id=-3)
    model = softmaxes.make_model(layer, "padded")
    data = softmaxes.make_inputs("padded")
    data = np.where(data < 0, -3, data)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same(loaded(data), model(data))
    assert_same(layer_of(loaded).log_probs(data), layer.log_probs(data))
    means = softmaxes.make_layer(padding_id=-3)
    means.build()
    assert np.any(means.log_probs(data) != layer.log_probs(data))


@pytest.mark.parametrize("form", FORMS)
def test_grown(form):
    """The tree has new classes; the embeddings and their slots go on."""
    data = softmaxes.arguments(
        form, softmaxes.make_inputs("ragged"), softmaxes.make_labels()
    )
    layer = softmaxes.make_layer(optimizer=OPTIMIZERS["lazy_adam"]())
    model = softmaxes.make_model(layer, "ragged", form)
    model.run_eagerly = True
    fit(model, data)
    tree = layer.tree.grow(4)
    grown = tf_hsm.grow(model, tree)
    grown.run_eagerly = form == "endpoint"
    other = layer_of(grown)
    assert_same(other.embeddings.numpy(), layer.embeddings.numpy())
    for one, its in zip(
        other.optimizer.slots(other.embeddings),
        layer.optimizer.slots(layer.embeddings),
        strict=True,
    ):
        assert_same(one.numpy(), its.numpy())
    rows = tree.map_rows(layer.tree)
    kernel = other.kernel.numpy()[rows >= 0]
    assert_same(kernel, layer.kernel.numpy()[rows[rows >= 0]])
    assert int(other.optimizer.iterations) == 6
    before = softmaxes.state(other)
    arrays = list(data.values())
    labels = arrays[-1] if form == "compile" else arrays[0][-1]
    labels[:] = NUM_CLASSES + np.arange(labels.size) % 4
    losses = fit(grown, data)
    assert losses[1] < losses[0]
    assert np.any(softmaxes.state(other)[0] != before[0])


def test_export(tmp_path):
    """A server takes ids and weights, and answers as the layer does."""
    layer = softmaxes.make_layer(optimizer="sgd")
    model = softmaxes.make_model(layer, "weighted")
    serving.export(model, tmp_path / "1", k=3)
    served = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    data = softmaxes.make_inputs("weighted")
    ids, weights = map(tf.constant, data)
    answers = served(ids=ids, weights=weights)
    expected = layer.top_k(data, 3)
    assert_same(answers["classes"], expected.classes)
    assert_same(answers["log_probs"], expected.log_probs)


def test_export_of_an_endpoint(tmp_path):
    """By a model of the ids alone, one for each input."""
    layer = softmaxes.make_layer()
    softmaxes.make_model(layer, "ids", "endpoint")
    ids = softmaxes.symbols("ids")
    serving.export(keras.Model(ids, layer(ids)), tmp_path / "1", k=3)
    loaded = tf.saved_model.load(tmp_path / "1")
    data = softmaxes.make_inputs("ids")
    served = loaded.signatures["sample"](
        ids=tf.constant(data),
        seed=tf.constant(5, tf.int64),
        num_samples=tf.constant(2, tf.int64),
        temperature=tf.constant(1.0, tf.float64),
        top_k=tf.constant(0, tf.int64),
        top_p=tf.constant(1.0, tf.float64),
    )
    assert_same(served["classes"], layer.sample(data, 2, seed=5))


def test_export_of_ragged_inputs_is_refused(tmp_path):
    model = softmaxes.make_model(softmaxes.make_layer(), "ragged")
    with pytest.raises(ValueError, match=r"ragged input 'ids'.* padded"):
        serving.export(model, tmp_path / "1")
    assert not any(tmp_path.iterdir())


def test_copies_and_checkpoints(tmp_path):
    """Those of tf_hsm.distribute have the embeddings too."""
    data = {"x": softmaxes.make_inputs("padded"), "y": softmaxes.make_labels()}
    layers = [softmaxes.make_layer(optimizer="adagrad") for _ in range(3)]
    models = [softmaxes.make_model(layer, "padded") for layer in layers]
    models[0].run_eagerly = True
    fit(models[0], data)
    tf_hsm.distribute.copy_weights(layers[0], layers[1])
    assert_same(softmaxes.state(layers[1]), softmaxes.state(layers[0]))
    path = tf_hsm.distribute.checkpoint(layers[0]).save(tmp_path / "saved")
    tf_hsm.distribute.checkpoint(layers[2]).restore(path).assert_consumed()
    assert_same(softmaxes.state(layers[2]), softmaxes.state(layers[0]))
    assert layers[2].embeddings.shape == (softmaxes.COUNT, softmaxes.WIDTH)
