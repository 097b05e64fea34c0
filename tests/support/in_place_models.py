"""The models of `models`, whose head may have an optimizer of its own."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    compile_form,
    endpoint_form,
    head_of,
    make_head,
)
from tests.support.training import assert_near, assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import optimizers
from tf_hsm.layers import AdaptiveSoftmax

FORMS = ["compile", "endpoint"]

# Optimizers of a model that make no step for each batch, or average weights,
# and what the error says.
REFUSED_OPTIMIZERS = {
    "accumulation": (
        lambda: optimizers.SGD(0.1, gradient_accumulation_steps=2),
        "gradient_accumulation_steps",
    ),
    "use_ema": (lambda: keras.optimizers.SGD(0.1, use_ema=True), "use_ema"),
}


def make_adaptive(**options):
    """An adaptive head with an order of the classes, and a tree for a tail."""
    return AdaptiveSoftmax(
        NUM_CLASSES,
        cutoffs=[5, 14],
        div_value=1.5,
        counts=np.arange(NUM_CLASSES) * 7 % 11,
        tail=["flat", 3],
        **options,
    )


def make_model(
    form,
    rule="adagrad",
    own=True,
    weighted=False,
    optimizer=None,
    make=make_head,
    **options,
):
    """A model of `compile_form`, or of `endpoint_form`.

    With `own` the head has an optimizer of the rule, and so has the model,
    unless `optimizer` is another one; else the model's trains the head too.
    """
    if own:
        make = functools.partial(make, optimizer=OPTIMIZERS[rule]())
    optimizer = optimizer or OPTIMIZERS[rule]()
    if form == "compile":
        return compile_form(optimizer, make=make, **options)
    return endpoint_form(optimizer, weighted, make=make, **options)


def arguments(form, tokens, labels, sample_weight=None):
    """What `fit` and `evaluate` take, as a dictionary."""
    if form == "compile":
        return {"x": tokens, "y": labels, "sample_weight": sample_weight}
    weights = [] if sample_weight is None else [sample_weight]
    return {"x": [*tf.nest.flatten(tokens), labels, *weights]}


def fit(model, data, **options):
    """Fits in batches of 8 and a rest; returns the losses of the epochs."""
    options = {"epochs": 2, "batch_size": 8, "shuffle": False, **options}
    return np.array(model.fit(**data, verbose=0, **options).history["loss"])


def same_start(*models):
    """Gives all models the weights of the first, layer by layer."""
    for model in models[1:]:
        for layer, other in zip(
            layers_of(model), layers_of(models[0]), strict=True
        ):
            layer.load_own_variables(own_variables(other))
    return models


def own_variables(layer):
    """What a file has of a layer or an optimizer.

    A layer has the same variables there, whoever trains them.
    """
    store = {}
    layer.save_own_variables(store)
    return {
        name: value.numpy() if hasattr(value, "numpy") else np.asarray(value)
        for name, value in store.items()
    }


def layers_of(model):
    """The layers with weights, from below."""
    return [layer for layer in model._flatten_layers(False) if layer.weights]


def weights(model):
    """All weights, the head's last, as float32 or float64."""
    stores = map(own_variables, layers_of(model))
    arrays = [array for store in stores for array in store.values()]
    return [a.astype(np.result_type(a.dtype, np.float32)) for a in arrays]


def head_state(model):
    """All that a step moves: the head's weights, and its optimizer's state."""
    head = head_of(model)
    slots = [] if head.optimizer is None else head.optimizer.variables
    variables = [*slots, *head._saved_variables()]
    return [np.array(v.numpy()) for v in variables if v.name != "learning_rate"]


def everything(model):
    """All that training goes on from."""
    state = [v.numpy() for v in model.optimizer.variables]
    return [*head_state(model), *state, *weights(model)]


def assert_goes_on(one, other, data):
    """Models of the same state, which train to the same bits."""
    assert_same(everything(one), everything(other))
    assert_same(*(fit(model, data, epochs=1) for model in (one, other)))
    assert_same(everything(one), everything(other))


def random_weights():
    """Sample weights for `make_data`."""
    return np.random.default_rng(1).uniform(size=[22, STEPS]).astype("f4")


def assert_trains_the_same(form, rule, data, tolerance=1e-5, **options):
    """The head by itself, and by the model's optimizer of the same rule.

    The second one always eagerly. `options` are those of `make_model`.
    """
    models = same_start(
        make_model(form, rule, own=True, **options),
        make_model(form, rule, own=False, **options),
    )
    models[1].run_eagerly = True
    losses = [fit(model, data) for model in models]
    assert losses[0][-1] < losses[0][0]
    assert_near(*losses, tolerance)
    assert_near(*map(weights, models), tolerance)
    own = head_of(models[0]).optimizer
    assert_near(
        slots(models[0], own),
        slots(models[1], models[1].optimizer),
        tolerance,
    )
    assert int(own.iterations) == int(models[1].optimizer.iterations) == 6


def check_no_gradient_of_log_probs(layer, inputs):
    """Asserts that log-probabilities have a gradient in frozen layers alone.

    Args:
      layer: has an optimizer of its own; is frozen at the end.
      inputs: a tensor.
    """

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            log_probs = layer.log_probs(inputs)
        return tape.gradient(log_probs, inputs)

    for run in (gradient, tf.function(gradient, autograph=False)):
        with pytest.raises(LookupError, match="would not train the layer"):
            run()
    layer.trainable = False
    assert gradient().shape == inputs.shape


def slots(model, optimizer):
    """The optimizer's state of the rows of the head."""
    variables = head_of(model).row_variables()
    return [s.numpy() for v in variables for s in optimizer.slots(v)]
