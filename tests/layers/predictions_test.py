"""What a trained head answers, in a model and by itself."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import models


def adaptive_head(**options):
    return tf_hsm.layers.AdaptiveSoftmax(
        models.NUM_CLASSES, cutoffs=[4], div_value=2, **options
    )


@pytest.mark.parametrize("make", [models.make_head, adaptive_head])
def test_in_a_functional_model(make, tmp_path):
    """The answers are outputs: now, loaded, cloned and exported.

    Allowed classes are an input of the model, or the same for all inputs.
    """
    tokens = keras.Input([models.STEPS], dtype="int32")
    classes = keras.Input([models.STEPS, 3], dtype="int64")
    own = {"allowed": classes, "renormalize": True}
    shared = [1, 5, 7]
    below, head = models.sequential(*models.hidden_layers()), make(name="words")
    # The head is built here.
    best = head.top_k(below(tokens), 4)
    assert best.classes.shape == (None, models.STEPS, 4)
    assert (best.log_probs.dtype, best.classes.dtype) == ("float32", "int64")
    answers = {
        **best._asdict(),
        "all": head.log_probs(below(tokens)),
        "given": head.log_prob(classes, below(tokens)),
        "drawn": head.sample(
            inputs=below(tokens), num_samples=7, seed=np.int64(3), top_k=5
        ),
        "best": head.predict_class(below(tokens)),
        "hidden": head(below(tokens)),
        "own": head.top_k(below(tokens), 3, **own).classes,
        "shared": head.sample(below(tokens), 4, seed=1, allowed=shared),
    }
    assert answers["all"].shape == (None, models.STEPS, models.NUM_CLASSES)
    assert answers["drawn"].shape == (None, models.STEPS, 7)
    model = keras.Model([tokens, classes], answers)
    assert len(model.weights) == len(below.weights) + len(head.weights)
    x = models.make_data(examples=3)[0]
    candidates = np.random.default_rng(0).integers(
        models.NUM_CLASSES, size=[*x.shape, 3]
    )
    predicted = model([x, candidates])
    hidden = below(x)
    expected = {
        **head.top_k(hidden, 4)._asdict(),
        "all": head.log_probs(hidden),
        "given": head.log_prob(candidates, hidden),
        "drawn": head.sample(hidden, 7, seed=3, top_k=5),
        "best": head.predict_class(hidden),
        "hidden": hidden,
        "own": head.top_k(hidden, 3, allowed=candidates).classes,
        "shared": head.sample(hidden, 4, seed=1, allowed=shared),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(predicted[name], value, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for other in (loaded, clone):
        assert len(other.weights) == len(model.weights)
        again = other([x, candidates])
        for name, value in predicted.items():
            np.testing.assert_array_equal(again[name], value)
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    served = exported.serve([tf.constant(x, tf.int32), candidates])
    for name, value in predicted.items():
        np.testing.assert_allclose(served[name], value, rtol=1e-5)


def test_of_a_trained_model():
    """`head.input` is what the head took there; the model trains on."""
    tokens, labels = models.make_data()
    model = models.compile_form(mask_zero=False)
    models.train(model, tokens, labels)
    head = models.head_of(model)
    scores = keras.Model(model.inputs, head.top_k(head.input, 3))
    log_probs, classes = scores.predict(tokens, verbose=0)
    models.train(model, tokens, labels)
    hidden = models.hidden_model(model)(tokens)
    assert np.any(log_probs != head.top_k(hidden, 3).log_probs)
    log_probs, classes = scores.predict(tokens, verbose=0)
    best = head.top_k(hidden, 3)
    np.testing.assert_allclose(log_probs, best.log_probs, rtol=1e-5)
    np.testing.assert_array_equal(classes, best.classes)
