"""The models of `models`, whose head may have an optimizer of its own."""

import keras
import numpy as np

import tf_hsm
from tests.support.models import (
    STEPS,
    head_of,
    hidden_layers,
    make_head,
    sequential,
)
from tests.support.update_rules import OPTIMIZERS

FORMS = ["compile", "endpoint"]


def make_model(
    form,
    rule="adagrad",
    own=True,
    weighted=False,
    mask_zero=True,
    compiling=None,
    optimizer=None,
    **options,
):
    """A compiled model; `options` are the head's.

    With `own` the head has an optimizer of the rule, and so has the model,
    unless `optimizer` is another one; else the model's trains the head too.
    """
    if own:
        options.setdefault("optimizer", OPTIMIZERS[rule]())
    head = make_head(**options)
    below = sequential(*hidden_layers(mask_zero, options.get("dtype")))
    tokens = keras.Input([STEPS], dtype="int32", name="tokens")
    compiling = {
        "optimizer": optimizer or OPTIMIZERS[rule](),
        **(compiling or {}),
    }
    if form == "compile":
        model = keras.Model(tokens, head(below(tokens)))
        compiling.setdefault("metrics", [tf_hsm.metrics.Perplexity()])
        model.compile(loss=head.loss, **compiling)
        return model
    inputs = [tokens, keras.Input([STEPS], dtype="int64", name="labels")]
    if weighted:
        inputs.append(keras.Input([STEPS], name="weights"))
    model = keras.Model(inputs, head(below(tokens), *inputs[1:]))
    model.compile(**compiling)
    return model


def arguments(form, tokens, labels, sample_weight=None):
    """What `fit` and `evaluate` take, as a dictionary."""
    if form == "compile":
        return {"x": tokens, "y": labels, "sample_weight": sample_weight}
    inputs = [tokens, labels]
    return {"x": inputs if sample_weight is None else [*inputs, sample_weight]}


def fit(model, data, **options):
    """Fits in batches of 8 and a rest; returns the losses of the epochs."""
    options = {"epochs": 2, "batch_size": 8, "shuffle": False, **options}
    return np.array(model.fit(**data, verbose=0, **options).history["loss"])


def same_start(*models):
    """Gives all models the weights of the first, in order of the layers."""
    for model in models[1:]:
        for layer, other in zip(
            layers_of(model), layers_of(models[0]), strict=True
        ):
            layer.set_weights(other.get_weights())
    return models


def layers_of(model):
    """The layers with weights, from below."""
    return [layer for layer in model._flatten_layers(False) if layer.weights]


def weights(model):
    """All weights, the head's last, as float32 or float64."""
    arrays = [w for layer in layers_of(model) for w in layer.get_weights()]
    return [a.astype(np.result_type(a.dtype, np.float32)) for a in arrays]


def head_state(model):
    """All that a step moves: the head's weights, and its optimizer's state."""
    head = head_of(model)
    variables = [*head.variables, *head.optimizer.variables]
    return [np.array(v.numpy()) for v in variables if v.name != "learning_rate"]


def random_weights(seed=1):
    """Sample weights for `make_data`."""
    return np.random.default_rng(seed).uniform(size=[22, STEPS]).astype("f4")
