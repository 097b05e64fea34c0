"""The ops on a GPU against the NumPy oracle; skipped where there is none."""

import ctypes

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import gpu_cases, gpu_suite, oracle
from tests.support.evaluation import assert_within, dense
from tests.support.places import Place
from tests.support.references import build
from tf_hsm.runtime import private_tensorflow

GPU = Place("GPU:0")


def why_skipped():
    """Returns a sentence, or None where the GPU kernels can run."""
    if "GPU" not in private_tensorflow.kernel_devices("TfHsmLoss"):
        return "this build has no GPU kernels: see what configure.sh printed"
    if not tf.config.list_physical_devices("GPU"):
        return "TensorFlow sees no GPU on this machine"
    return None


pytestmark = pytest.mark.skipif(
    why_skipped() is not None, reason=str(why_skipped())
)


tensor_cores = gpu_cases.tensor_cores


def has_cublas():
    """Whether there is more of it than what pack.sh puts in its place."""
    try:
        return hasattr(ctypes.CDLL("libcublas.so.12"), "cublasCreate_v2")
    except OSError:
        return False


# The gradient of log-probabilities by the weights is a product of matrices.
needs_cublas = pytest.mark.skipif(
    why_skipped() is None and not has_cublas(), reason="cuBLAS is missing"
)


@pytest.mark.parametrize("check, options", gpu_suite.suite(False, needs_cublas))
def test_cases(check, options):
    check(GPU, **options)


@pytest.mark.parametrize("of_op, elsewhere", [("CPU:0", None), (None, "CPU:0")])
def test_a_gradient_runs_where_its_loss_did(of_op, elsewhere):
    """What a loss keeps for its gradient is for one kind of device."""
    tree = build("random")
    problem = oracle.random_problem(tree, 20, 9, np.float32)
    weights = tf.constant(problem.weights)
    inputs = tf.constant(problem.inputs)

    def run():
        with tf.GradientTape() as tape:
            tape.watch([weights, inputs])
            with tf.device(of_op):
                losses = tf_hsm.hierarchical_softmax_loss(
                    weights, problem.biases, problem.labels, inputs, tree
                )
        with tf.device(elsewhere):
            dw, dx = tape.gradient(
                losses, [weights, inputs], tf.constant(problem.upstream)
            )
        return losses, dx, dw

    value, bound = oracle.hierarchical_softmax(tree, problem)
    for call in (run, tf.function(run)):
        losses, dx, dw = call()
        assert_within(dense(oracle.Result(losses, dx, dw, None)), value, bound)


def test_weights_on_the_cpu():
    """What has no GPU kernel runs where the weights are."""
    tree = build("random")
    problem = oracle.random_problem(tree, 5, 3, np.float64)
    with tf.device("CPU:0"):
        variables = tf.Variable(problem.weights), tf.Variable(problem.biases)
    tensors = tf.constant(problem.weights), tf.constant(problem.biases)
    find = tf_hsm.hierarchical_softmax_top_k
    for parameters in (variables, tensors):
        for options in ({}, {"beam_width": 2}):
            found = find(*parameters, problem.inputs, tree, 3, **options)
            assert found.classes.device.endswith("CPU:0")
            assert found.classes.shape == [5, 3]


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
def test_the_same_bits_again(dtype):
    tree = build("two_level_1013")
    problem = oracle.random_problem(tree, 300, 70, dtype)
    one, other = (dense(gpu_cases.solve(GPU, tree, problem)) for _ in range(2))
    for field in ("loss", "dx", "dw", "db"):
        np.testing.assert_array_equal(
            getattr(one, field), getattr(other, field)
        )


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES[1:])
@pytest.mark.parametrize("name", ["flat", "two_level_1013", "binary_37"])
def test_tensor_cores(name, dtype):
    """Far below the bounds of single numbers, where errors do not add up."""
    tree = build(name)
    problem = oracle.random_problem(tree, 252, 50, dtype)
    expected, _ = oracle.hierarchical_softmax(tree, problem)
    actual = dense(gpu_cases.solve(GPU, tree, problem))
    unit = max(2.0**-11, oracle.unit_roundoff(np.dtype(dtype)))
    for field in ("loss", "dx", "dw", "db"):
        values = getattr(expected, field)
        error = np.linalg.norm(getattr(actual, field) - values)
        # A wrong term of the sums would be off by about 1.
        assert error <= 16 * unit * np.linalg.norm(values), field


def losses_of_fit(device, in_place):
    """Trains words' classes from their embeddings, which needs no cuBLAS."""
    with tf.device(device):
        adagrad = tf_hsm.optimizers.RowwiseAdagrad(0.5)
        head = tf_hsm.layers.HierarchicalSoftmax(
            tf_hsm.Tree.two_level(1013),
            optimizer=adagrad if in_place else None,
            kernel_initializer=keras.initializers.RandomNormal(seed=2),
        )
        words = keras.layers.Embedding(
            64,
            36,
            embeddings_initializer=keras.initializers.RandomNormal(seed=1),
        )
        model = keras.Sequential([words, head])
        model.compile(
            tf_hsm.optimizers.SGD(0.5),
            loss=head.loss,
            metrics=[tf_hsm.metrics.Perplexity(head)],
        )
        x = np.arange(640).reshape(128, 5) % 64
        history = model.fit(
            x, 13 * x, batch_size=32, epochs=3, shuffle=False, verbose=0
        )
        assert model.predict(x, verbose=0).shape == x.shape
    return history.history["loss"]


@pytest.mark.parametrize("in_place", [False, True])
def test_fit(in_place):
    on_gpu, on_cpu = (losses_of_fit(d, in_place) for d in ("GPU:0", "CPU:0"))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4)
    assert on_gpu[-1] < on_gpu[0]
