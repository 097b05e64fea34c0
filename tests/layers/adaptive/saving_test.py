"""What an AdaptiveSoftmax writes to files, and what comes back."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.adaptive_layers import make, make_inputs, make_model
from tests.support.models import NUM_CLASSES, make_data
from tf_hsm import CostModel
from tf_hsm.layers import AdaptiveSoftmax


@pytest.mark.parametrize("cutoffs", ["auto", 2, [4, 11]])
@pytest.mark.parametrize("built", [False, True])
def test_saving(cutoffs, built, tmp_path):
    """The cutoffs and the order of the classes survive, chosen or not yet."""
    counts = np.random.default_rng(0).integers(1, 99, size=NUM_CLASSES)
    head = AdaptiveSoftmax(
        NUM_CLASSES,
        cutoffs=cutoffs,
        div_value=np.float32(1.5),
        counts=counts,
        tail=np.int64(3),
        batch=np.int64(64),
        ignore_class=np.int64(-1),
        cost_model=CostModel(call=0.0, weight=1e-3),
    )
    model = keras.Sequential([keras.layers.Dense(16), head])
    x = make_inputs(6)
    if built:
        model(x)
    config = json.loads(json.dumps(head.get_config()))
    assert AdaptiveSoftmax.from_config(config).get_config() == config
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model(x)
    loaded(x)
    for variable, value in zip(
        loaded.weights, model.get_weights(), strict=True
    ):
        assert variable.shape == value.shape
        if not built:
            variable.assign(value)
    copy = loaded.layers[-1]
    assert [*copy.cutoffs] == [*head.cutoffs] and head.cutoffs
    assert copy.ignore_class == -1
    order = np.argsort(-counts, kind="stable")
    np.testing.assert_array_equal(
        copy.clusters.order.class_rows[order], np.arange(NUM_CLASSES)
    )
    hidden = model.layers[0](x)
    np.testing.assert_array_equal(loaded(x), model(x))
    np.testing.assert_array_equal(
        copy.log_probs(hidden), head.log_probs(hidden)
    )
    clone = keras.models.clone_model(model)
    assert [*clone.layers[-1].cutoffs] == [*head.cutoffs]


def test_trees_are_saved():
    layer = make("trees")
    config = json.loads(json.dumps(layer.get_config()))
    copy = AdaptiveSoftmax.from_config(config)
    assert copy.clusters.tail_trees == layer.clusters.tail_trees


def test_export(tmp_path):
    """A SavedModel computes what the model does."""
    tokens, _ = make_data()
    counts = np.random.default_rng(0).integers(9, size=NUM_CLASSES)
    model, head = make_model(counts=counts)
    classes = head.predict_class(model.outputs[0])
    model = keras.Model(model.inputs[0], classes)
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_array_equal(
        served.serve(tf.constant(tokens, tf.int32)),
        model.predict(tokens, verbose=0),
    )
