"""The ops on a GPU against the NumPy oracle; skipped where there is none."""

import ctypes

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import (
    gpu_cases,
    gpu_checks,
    gpu_error_cases,
    gpu_forest_cases,
    gpu_inference_cases,
    gpu_step_cases,
    oracle,
    private,
    training,
)
from tests.support.evaluation import assert_within, dense
from tests.support.pairs import all_pairs
from tests.support.update_rules import ON_GPUS

GPU = gpu_cases.Place("GPU:0")
TREES = [*gpu_cases.trees.CATALOGUE, *gpu_cases.PINNED]


def why_skipped():
    """Returns a sentence, or None where the GPU kernels can run."""
    if "GPU" not in private.kernel_devices("TfHsmLoss"):
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


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (67, 129), (252, 50)])
@pytest.mark.parametrize("name", [*TREES, *gpu_cases.FORESTS])
def test_loss(name, shape, dtype):
    gpu_cases.check_loss(GPU, name, shape, dtype)


@pytest.mark.parametrize("smoothing, to_prior", gpu_cases.SMOOTHED)
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (252, 50)])
@pytest.mark.parametrize(
    "name", ["random", "one_huge_group", *gpu_cases.PINNED, *gpu_cases.FORESTS]
)
def test_smoothed_labels(name, shape, dtype, smoothing, to_prior):
    gpu_cases.check_loss(
        GPU,
        name,
        shape,
        dtype,
        label_smoothing=smoothing,
        to_prior=to_prior,
    )


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
def test_loss_in_a_function(dtype):
    gpu_cases.check_loss(GPU, "random", (17, 33), dtype, graph=True)


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
def test_a_chain_of_10000_levels(dtype):
    gpu_cases.check_loss(GPU, "chain_10000", (3, 5), dtype)


@pytest.mark.parametrize("leading_shape", [[], [6], [2, 3], [0], [3, 0]])
@pytest.mark.parametrize("has_biases", [True, False])
def test_shapes(has_biases, leading_shape):
    gpu_cases.check_shapes(GPU, leading_shape, has_biases)


@pytest.mark.parametrize("label_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
def test_bad_labels(dtype, label_dtype):
    gpu_error_cases.check_bad_labels(GPU, dtype, label_dtype)


@pytest.mark.parametrize("ignore_class", [-1, 3])
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
def test_ignored(dtype, ignore_class):
    gpu_cases.check_ignored(GPU, dtype, ignore_class)


@pytest.mark.parametrize("check", gpu_checks.CHECKS)
def test_checks(check):
    check(GPU)


@pytest.mark.parametrize("case", gpu_error_cases.BROKEN_TREES)
def test_broken_trees(case):
    gpu_error_cases.check_broken_trees(GPU, *case)


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("has_biases", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "two_level_1013",
        "binary_37",
        "chain_50",
        "one_huge_group",
        "pinned huffman_203",
    ],
)
@pytest.mark.parametrize("rule", ON_GPUS)
def test_train_step(rule, name, has_biases, dtype):
    gpu_step_cases.check_train_step(
        GPU, rule, name, (67, 33), dtype, has_biases
    )


@pytest.mark.parametrize(
    "rule, name, dtype, label_smoothing",
    all_pairs(
        ON_GPUS,
        ["random", "pinned huffman_203", "below huffman_3"],
        gpu_cases.DTYPES,
        [0.0, 0.25],
    ),
)
def test_step_from_a_state(rule, name, dtype, label_smoothing):
    gpu_step_cases.check_train_step(
        GPU,
        rule,
        name,
        (67, 33),
        dtype,
        True,
        label_smoothing=label_smoothing,
        make=training.after_loss,
    )


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("name", ["two_level_1013", "pinned huffman_203"])
def test_train_step_by_smoothed_labels(name, dtype):
    gpu_step_cases.check_train_step(
        GPU, "lazy_adam", name, (67, 33), dtype, True, label_smoothing=0.25
    )


def test_train_step_in_a_function():
    gpu_step_cases.check_train_step(
        GPU, "lazy_adam", "random", (20, 9), np.float32, True, graph=True
    )


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize(
    "name", ["random", "two_level_100", "two_level_1013", "one_huge_group"]
)
def test_states(name, dtype):
    gpu_error_cases.check_states(GPU, name, dtype)


@needs_cublas
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (67, 129)])
@pytest.mark.parametrize("name", TREES)
def test_log_probs(name, shape, dtype):
    check = gpu_inference_cases.check_log_probs
    check(GPU, name, shape, dtype, nodes=False, parameter=tf.Variable)
    check(GPU, name, shape, dtype, nodes=True)


@needs_cublas
def test_log_probs_in_a_function():
    gpu_inference_cases.check_log_probs(
        GPU, "random", (17, 33), np.float32, nodes=False, graph=True
    )


@pytest.mark.parametrize("label_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("name", TREES)
def test_given_classes(name, dtype, label_dtype):
    gpu_inference_cases.check_given_classes(
        GPU, name, (20, 33), dtype, 7, label_dtype
    )


@pytest.mark.parametrize("lists", [1, 7])
@pytest.mark.parametrize("dtype", gpu_inference_cases.SEARCHED)
@pytest.mark.parametrize("name", TREES)
def test_allowed(name, dtype, lists):
    gpu_inference_cases.check_allowed(GPU, name, dtype, lists, tf.Variable)


@pytest.mark.parametrize("kind", [None, "ties"])
@pytest.mark.parametrize("dtype", gpu_inference_cases.SEARCHED)
@pytest.mark.parametrize("name", TREES)
def test_top_k(name, dtype, kind):
    gpu_inference_cases.check_top_k(
        GPU, name, (20, 33), dtype, tf.Variable, kind
    )


@pytest.mark.parametrize("options", gpu_inference_cases.RESTRICTED)
@pytest.mark.parametrize("dtype", gpu_inference_cases.SEARCHED)
@pytest.mark.parametrize("name", TREES)
def test_sample(name, dtype, options):
    gpu_inference_cases.check_sample(GPU, name, dtype, 5000, **options)


@pytest.mark.parametrize("name", TREES)
def test_sample_of_float64(name):
    gpu_inference_cases.check_sample(GPU, name, np.float64, 5000)


@needs_cublas
@pytest.mark.parametrize("leading", [[], [0], [2, 3], [3, 0]])
def test_leading_shapes(leading):
    gpu_inference_cases.check_leading_shapes(GPU, leading)


@pytest.mark.parametrize("case", gpu_inference_cases.BROKEN_TREES)
def test_broken_trees_for_walks_down(case):
    gpu_inference_cases.check_broken_trees(GPU, *case)


@pytest.mark.parametrize("of_op, elsewhere", [("CPU:0", None), (None, "CPU:0")])
def test_a_gradient_runs_where_its_loss_did(of_op, elsewhere):
    """What a loss keeps for its gradient is for one kind of device."""
    tree = gpu_cases.build("random")
    problem = oracle.random_problem(tree, 20, 9, np.float32)
    weights = tf.constant(problem.weights)
    inputs = tf.constant(problem.inputs)

    def run():
        with tf.GradientTape() as tape:
            tape.watch([weights, inputs])
            with tf.device(of_op):
                losses = gpu_cases.tf_hsm.hierarchical_softmax_loss(
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
    tree = gpu_cases.build("random")
    problem = oracle.random_problem(tree, 5, 3, np.float64)
    with tf.device("CPU:0"):
        variables = tf.Variable(problem.weights), tf.Variable(problem.biases)
    tensors = tf.constant(problem.weights), tf.constant(problem.biases)
    find = gpu_cases.tf_hsm.hierarchical_softmax_top_k
    for parameters in (variables, tensors):
        for options in ({}, {"beam_width": 2}):
            found = find(*parameters, problem.inputs, tree, 3, **options)
            assert found.classes.device.endswith("CPU:0")
            assert found.classes.shape == [5, 3]


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
def test_the_same_bits_again(dtype):
    tree = gpu_cases.build("two_level_1013")
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
    tree = gpu_cases.build(name)
    problem = oracle.random_problem(tree, 252, 50, dtype)
    expected, _ = oracle.hierarchical_softmax(tree, problem)
    actual = dense(gpu_cases.solve(GPU, tree, problem))
    unit = max(2.0**-11, oracle.unit_roundoff(np.dtype(dtype)))
    for field in ("loss", "dx", "dw", "db"):
        values = getattr(expected, field)
        error = np.linalg.norm(getattr(actual, field) - values)
        # A wrong term of the sums would be off by about 1.
        assert error <= 16 * unit * np.linalg.norm(values), field


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda w, b, y, x: (w[:-1], b[:-1], y, x), "row_groups"),
        (lambda w, b, y, x: (w, b[:-1], y, x), "biases"),
        (lambda w, b, y, x: (w, b, y[:-1], x), "inputs"),
        (lambda w, b, y, x: (w, b, y, x[:, :-1]), "inputs"),
    ],
)
def test_shapes_that_do_not_fit(change, message):
    """Shapes are known to the host: they are errors as on the CPU."""
    tree = gpu_cases.build("random")
    problem = oracle.random_problem(tree, 5, 3, np.float32)
    arguments = change(
        problem.weights, problem.biases, problem.labels, problem.inputs
    )
    loss = gpu_cases.tf_hsm.hierarchical_softmax_loss
    with (
        tf.device(GPU.device),
        pytest.raises(tf.errors.InvalidArgumentError, match=message),
    ):
        loss(*arguments, tree)


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


@needs_cublas
@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("name", gpu_cases.FORESTS)
def test_log_probs_of_forests(name, dtype, nodes):
    gpu_forest_cases.check_log_probs(GPU, name, dtype, nodes)


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("name", gpu_cases.FORESTS)
def test_given_classes_of_forests(name, dtype):
    gpu_forest_cases.check_given_classes(GPU, name, dtype, np.int64)


@pytest.mark.parametrize("dtype", gpu_inference_cases.SEARCHED)
@pytest.mark.parametrize("name", gpu_cases.FORESTS)
def test_top_k_of_forests(name, dtype):
    gpu_forest_cases.check_top_k(GPU, name, dtype)


@pytest.mark.parametrize("options", gpu_inference_cases.RESTRICTED)
@pytest.mark.parametrize("name", gpu_cases.FORESTS)
def test_sample_of_forests(name, options):
    gpu_forest_cases.check_sample(GPU, name, np.float32, **options)
