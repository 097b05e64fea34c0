"""Models with a head are saved, loaded, cloned and exported."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import (
    TREE,
    assert_same_weights,
    compile_form,
    endpoint_form,
    head_of,
    make_data,
    make_head,
    sgd,
    train,
)
from tf_hsm.losses import HeadLoss

# Argument: a folder. Prints what is computed there by what is loaded there.
FRESH_PROCESS = """
import json, sys
import keras, numpy as np, tensorflow as tf
import tf_hsm

folder = sys.argv[1]
data = np.load(folder + "/data.npz")
tokens, labels = data["tokens"], data["labels"]
inputs = [tf.constant(tokens, tf.int32), tf.constant(labels)]
names = ["inputs", "inputs_1"]
fitted = keras.models.load_model(folder + "/fitted.keras")
endpoint = keras.models.load_model(folder + "/endpoint.keras")
saved = tf.saved_model.load(folder + "/saved_model")
signature = saved.signatures["serving_default"]
exported = tf.saved_model.load(folder + "/exported")
results = {
    "evaluate": fitted.evaluate(tokens, labels, verbose=0),
    "predict": endpoint.predict([tokens, labels], verbose=0),
    "saved_model": signature(**dict(zip(names, inputs)))["output_0"],
    "exported": exported.serve(inputs),
}
print(json.dumps({k: np.asarray(v).tolist() for k, v in results.items()}))
"""


@pytest.fixture(scope="module")
def trained_pair():
    """A trained model of each form, of the same weights, and data.

    One test trains the first one further.
    """
    tokens, labels = make_data()
    labels[:3, 0] = -1
    fitted = compile_form(ignore_class=-1, optimizer=sgd(momentum=0.9))
    train(fitted, tokens, labels)
    endpoint = endpoint_form(ignore_class=-1)
    endpoint.set_weights(fitted.get_weights())
    return fitted, endpoint, tokens, labels


def test_fresh_process(trained_pair, tmp_path):
    """A process that only imports tf_hsm computes the same from the files."""
    fitted, endpoint, tokens, labels = trained_pair
    np.savez(tmp_path / "data.npz", tokens=tokens, labels=labels)
    fitted.save(tmp_path / "fitted.keras")
    endpoint.save(tmp_path / "endpoint.keras")
    tf.saved_model.save(endpoint, tmp_path / "saved_model")
    endpoint.export(tmp_path / "exported", verbose=False)
    run = subprocess.run(
        [sys.executable, "-c", FRESH_PROCESS, tmp_path],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    results = json.loads(run.stdout.splitlines()[-1])
    expected = fitted.evaluate(tokens, labels, verbose=0)
    np.testing.assert_allclose(results["evaluate"], expected, rtol=1e-6)
    losses = endpoint.predict([tokens, labels], verbose=0)
    for name in ("predict", "saved_model", "exported"):
        np.testing.assert_allclose(results[name], losses, rtol=1e-6)


def test_loaded_model_trains_on(trained_pair, tmp_path):
    """The loss, the metrics and the optimizer's state come back."""
    model, _, tokens, labels = trained_pair
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.loss, HeadLoss)
    head = head_of(loaded)
    assert head.tree == TREE and head.ignore_class == -1
    for _ in range(2):
        np.testing.assert_allclose(
            loaded.evaluate(tokens, labels, verbose=0),
            model.evaluate(tokens, labels, verbose=0),
            rtol=1e-6,
        )
        train(model, tokens, labels)
        train(loaded, tokens, labels)
    assert_same_weights(loaded, model)


def test_export_of_the_compile_form(trained_pair, tmp_path):
    """It serves hidden vectors; the head computes on from there."""
    model, _, tokens, _ = trained_pair
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    served = exported.serve(tf.constant(tokens, tf.int32))
    np.testing.assert_allclose(
        served, model.predict(tokens, verbose=0), rtol=1e-6
    )


def test_weights_file(trained_pair, tmp_path):
    """Weights alone go into a model made anew."""
    model, _, tokens, labels = trained_pair
    model.save_weights(tmp_path / "model.weights.h5")
    other = compile_form(ignore_class=-1, optimizer=sgd(momentum=0.9))
    other.optimizer.build(other.trainable_variables)
    other.load_weights(tmp_path / "model.weights.h5")
    assert other.evaluate(tokens, labels, verbose=0) == model.evaluate(
        tokens, labels, verbose=0
    )


@pytest.mark.parametrize("form", [compile_form, endpoint_form])
def test_clone_model(form):
    """A clone has a head of its own over an equal tree."""
    model = form()
    clone = keras.models.clone_model(model)
    assert head_of(clone) is not head_of(model)
    assert head_of(clone).tree == TREE
    clone.set_weights(model.get_weights())
    tokens, labels = make_data()
    x = tokens if form is compile_form else [tokens, labels]
    np.testing.assert_array_equal(clone(x), model(x))


def test_config():
    """The arguments survive JSON, NumPy integers among them."""
    head = make_head(
        tf_hsm.Tree.balanced(9, 3),
        use_bias=False,
        ignore_class=np.int64(3),
        kernel_initializer=keras.initializers.HeNormal(seed=1),
        bias_initializer="ones",
        dtype="mixed_bfloat16",
        trainable=False,
        name="words",
    )
    config = head.get_config()
    copy = type(head).from_config(json.loads(json.dumps(config)))
    assert copy.get_config() == config
    assert copy.tree == head.tree and copy.ignore_class == 3
    assert (copy.name, copy.trainable) == ("words", False)
    assert copy.dtype_policy.name == "mixed_bfloat16"
