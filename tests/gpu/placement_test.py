"""On which device ops and their gradients run, seen with two CPUs.

A GPU is not needed for it: TensorFlow makes two devices of one CPU, and rules
are the same for all kinds of devices.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle
from tests.support.replicas import CPUS

TREE = tf_hsm.Tree.two_level(30)
PROBLEM = oracle.random_problem(TREE, 4, 3, np.float32)
OTHER = CPUS[1]


def loss(weights, biases, inputs):
    return tf_hsm.hierarchical_softmax_loss(
        weights, biases, PROBLEM.labels, inputs, TREE
    )


def log_probs(weights, biases, inputs):
    return tf_hsm.hierarchical_softmax_log_probs(weights, biases, inputs, TREE)


every_function = pytest.mark.parametrize(
    "function, op_type", [(loss, "TfHsmLoss"), (log_probs, "TfHsmLogProb")]
)


def made_of(parameter, device):
    with tf.device(device):
        return [
            parameter(PROBLEM.weights),
            parameter(PROBLEM.biases),
            tf.constant(PROBLEM.inputs),
        ]


def values_of(gradient):
    return getattr(gradient, "values", gradient)


@every_function
@pytest.mark.parametrize("parameter", [tf.constant, tf.Variable])
def test_gradients_follow(function, op_type, parameter):
    """A gradient that is asked for outside runs where the op has run.

    An op runs where its variable is, whatever the scope: the op library's
    kernel could not read it elsewhere.
    """
    sources = made_of(parameter, OTHER)
    is_tensor = parameter is tf.constant
    for scope in [OTHER] if is_tensor else [None, "CPU:0"]:
        with tf.GradientTape() as tape:
            # Tapes watch variables that an op reads.
            tape.watch(sources if is_tensor else sources[2])
            with tf.device(scope):
                value = function(*sources)
        assert value.device.endswith(OTHER), value.device
        for gradient in tape.gradient(value, sources):
            device = values_of(gradient).device
            assert device.endswith(OTHER), (function, device)


def placed_ops(graph, suffix):
    """Devices asked for, of the ops of `graph` with that type."""
    devices = [op.device for op in graph.get_operations() if suffix in op.type]
    assert devices, suffix
    return devices


@every_function
def test_graphs(function, op_type):
    """In a graph a gradient asks for what its op asked for, or for nothing."""
    sources = made_of(tf.constant, "CPU:0")

    def gradients(of_op, of_gradient):
        with tf.GradientTape() as tape:
            tape.watch(sources)
            with tf.device(of_op):
                value = function(*sources)
        with tf.device(of_gradient):
            return [values_of(g) for g in tape.gradient(value, sources)]

    for of_op, of_gradient in [(OTHER, None), (None, OTHER), (OTHER, "CPU:0")]:
        graph = (
            tf.function(gradients)
            .get_concrete_function(of_op, of_gradient)
            .graph
        )
        wanted = "" if of_op is None else f"/device:{of_op}"
        for device in placed_ops(graph, op_type):
            assert device == wanted, (of_op, of_gradient, device)


def test_beams():
    """With weights that are a tensor a beam asks for a CPU."""
    sources = made_of(tf.constant, "CPU:0")
    variables = made_of(tf.Variable, "CPU:0")

    def find(parameters, beam_width):
        with tf.device("GPU:0"):
            return tf_hsm.hierarchical_softmax_top_k(
                *parameters, TREE, 3, beam_width=beam_width
            ).classes

    for parameters, beam_width, wanted in [
        (sources, None, "GPU"),
        (sources, 2, "CPU"),
        (variables, 2, "GPU"),
    ]:
        graph = (
            tf.function(lambda p=parameters, b=beam_width: find(p, b))
            .get_concrete_function()
            .graph
        )
        for device in placed_ops(graph, "TfHsmTopK"):
            assert f"/device:{wanted}" in device, device
