"""What a model answers, and what it becomes by more training.

Each function returns a dictionary of arrays.
"""

import contextlib
import dataclasses

import keras
import numpy as np
import tensorflow as tf

from tests.golden.heads import bodies
from tests.golden.heads.cases import CASES, head_of
from tests.golden.heads.data import fit_arguments, head_inputs
from tf_hsm.layers import LabelTree
from tf_hsm.layers.objective import Objective

K, NUM_SAMPLES, SEED, TEMPERATURE, THRESHOLD = 4, 6, 7, 1.5, 0.3


def train(name, model, data):
    """Trains a model in batches of 8 and a rest; returns the losses."""
    history = model.fit(
        **fit_arguments(name, data),
        batch_size=8,
        epochs=2,
        shuffle=False,
        verbose=0,
    )
    return np.array(history.history["loss"])


def of_model(name, model, data):
    """Returns the answers of a model and its head."""
    arguments = fit_arguments(name, data)
    head, inputs = head_of(model), head_inputs(name, data)
    with _plain_losses(head):
        predicted = model.predict(arguments["x"], batch_size=8, verbose=0)
        loss = model.evaluate(**arguments, batch_size=8, verbose=0)
    if CASES[name].body is not bodies.endpoint:
        # The version that made the files predicted classes.
        predicted = head.predict_class(predicted)
    found = {"predict": predicted, "loss": loss}
    nodes = {"nodes": True} if CASES[name].nodes else {}
    best = head.top_k(inputs, k=K)
    found["top_k/log_probs"] = best.log_probs
    found["top_k/classes"] = best.classes
    found["log_prob"] = head.log_prob(data["given"], inputs=inputs, **nodes)
    if isinstance(head, LabelTree):
        best = head.top_k(inputs, k=K, threshold=THRESHOLD)
        found["threshold/log_probs"] = best.log_probs
        found["threshold/classes"] = best.classes
    else:
        found["log_probs"] = head.log_probs(inputs, **nodes)
        options = {"num_samples": NUM_SAMPLES, "seed": SEED}
        found["sample"] = head.sample(
            inputs, temperature=TEMPERATURE, **options
        )
        found["sample_of_best"] = head.sample(
            inputs, top_k=9, top_p=0.9, **options
        )
    if CASES[name].body is bodies.tied:
        found["embed"] = head.embed(data["x"])
    return {f"answers/{key}": _array(value) for key, value in found.items()}


@contextlib.contextmanager
def _plain_losses(head):
    """Within, losses are plain, as in the version that made the files.

    Its label smoothing, class weights and focal loss were in `fit` alone.
    """
    own = head.objective
    if isinstance(own, Objective):
        head.objective = dataclasses.replace(
            own,
            label_smoothing=0.0,
            smoothing_prior=None,
            class_weights=None,
            focal_gamma=0.0,
        )
    yield
    head.objective = own


def of_export(name, export, data):
    """Returns the answers of an export: some of the model's answers."""
    signatures = export.signatures
    inputs = {"hidden": tf.constant(head_inputs(name, data))}
    best = signatures["serving_default"](**inputs)
    given = signatures["log_prob"](classes=tf.constant(data["given"]), **inputs)
    found = {
        "top_k/log_probs": best["log_probs"],
        "top_k/classes": best["classes"],
        "log_prob": given["log_probs"],
    }
    if "labels" in signatures:
        threshold = tf.constant(THRESHOLD, tf.float64)
        best = signatures["labels"](threshold=threshold, **inputs)
        found["threshold/log_probs"] = best["log_probs"]
        found["threshold/classes"] = best["classes"]
    else:
        drawn = signatures["sample"](
            seed=tf.constant(SEED, tf.int64),
            num_samples=tf.constant(NUM_SAMPLES, tf.int64),
            temperature=tf.constant(TEMPERATURE, tf.float64),
            top_k=tf.constant(0, tf.int64),
            top_p=tf.constant(1.0, tf.float64),
            **inputs,
        )
        found["sample"] = drawn["classes"]
    return {f"answers/{key}": _array(value) for key, value in found.items()}


def after_training(name, model, data):
    """Trains a model on; returns its losses, weights and optimizers' state."""
    found = {"losses": train(name, model, data)}
    anchor = head_of(model).in_place.anchor  # which is in no file
    if all(v is anchor for v in model.trainable_variables):
        # Without an anchor, the optimizer had nothing to train or to count.
        model.optimizer.iterations.assign(0)
    optimizers = {"optimizer": model.optimizer}
    own = head_of(model).optimizer
    if own is not None:
        optimizers["own_optimizer"] = own
    weights = [v for v in model.weights if v is not anchor]
    for i, variable in enumerate(weights):
        found[f"weights/{i}"] = variable
    for owner, optimizer in optimizers.items():
        for i, variable in enumerate(optimizer.variables):
            found[f"{owner}/{i}"] = variable
    return {f"after/{key}": _array(value) for key, value in found.items()}


def _array(value):
    """Returns an array, in float32 for bfloat16, which .npz files lack."""
    value = np.array(keras.ops.convert_to_numpy(value))
    return value.astype(np.float32) if value.dtype == "bfloat16" else value
