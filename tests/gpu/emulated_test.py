"""The TensorFlow kernels for GPUs, run on the CPU above an emulation of CUDA.

All that lies between TensorFlow and the core's kernels is the same code as on a
GPU, but for the stream and the copies of memory.
"""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests.support import (
    gpu_cases,
    gpu_checks,
    gpu_error_cases,
    gpu_forest_cases,
    gpu_inference_cases,
    gpu_step_cases,
    training,
)
from tests.support.pairs import all_pairs
from tests.support.update_rules import ON_GPUS

EMULATED = gpu_cases.Place("CPU:0", label="tf_hsm_emulated")


@pytest.fixture(autouse=True, scope="module")
def kernels():
    (library,) = pathlib.Path("cc/kernels/gpu").glob("*.so")
    tf.load_library(str(library))


tensor_cores = gpu_cases.tensor_cores


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize(
    "name", ["two_level_7", "random", "only_children", "pinned binary_37"]
)
def test_loss(name, dtype):
    gpu_cases.check_loss(EMULATED, name, (5, 3), dtype)


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("name", gpu_cases.FORESTS)
def test_loss_of_forests(name, dtype):
    gpu_cases.check_loss(EMULATED, name, (7, 5), dtype)


@pytest.mark.parametrize("name", ["flat", "one_huge_group"])
def test_wide_groups(name):
    gpu_cases.check_loss(EMULATED, name, (17, 33), np.float32)


@pytest.mark.parametrize("smoothing, to_prior", gpu_cases.SMOOTHED)
@pytest.mark.parametrize(
    "name, dtype",
    [
        ("random", np.float64),
        ("one_huge_group", np.float32),
        ("only_children", np.float32),
        ("pinned huffman_203", np.float32),
        (gpu_cases.FORESTS[0], np.float16),
    ],
)
def test_smoothed_labels(name, dtype, smoothing, to_prior):
    gpu_cases.check_loss(
        EMULATED,
        name,
        (17, 9),
        dtype,
        label_smoothing=smoothing,
        to_prior=to_prior,
    )


@pytest.mark.parametrize("leading_shape", [[], [2, 3], [3, 0]])
@pytest.mark.parametrize("has_biases", [True, False])
def test_shapes(has_biases, leading_shape):
    gpu_cases.check_shapes(EMULATED, leading_shape, has_biases)


@pytest.mark.parametrize("label_dtype", [np.int32, np.int64])
def test_bad_labels(label_dtype):
    gpu_error_cases.check_bad_labels(EMULATED, np.float32, label_dtype)


@pytest.mark.parametrize("ignore_class", [-1, 3])
def test_ignored(ignore_class):
    gpu_cases.check_ignored(EMULATED, np.float32, ignore_class)


@pytest.mark.parametrize("check", gpu_checks.CHECKS)
def test_checks(check):
    check(EMULATED)


@pytest.mark.parametrize("case", gpu_error_cases.BROKEN_TREES)
def test_broken_trees(case):
    gpu_error_cases.check_broken_trees(EMULATED, *case)


@pytest.mark.parametrize("has_biases", [True, False])
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("rule", ON_GPUS)
def test_train_step(rule, dtype, has_biases):
    gpu_step_cases.check_train_step(
        EMULATED, rule, "random", (5, 3), dtype, has_biases
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
        EMULATED,
        rule,
        name,
        (17, 3),
        dtype,
        True,
        label_smoothing=label_smoothing,
        make=training.after_loss,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", ["below three_levels", "below huffman_3"])
@pytest.mark.parametrize("rule", ON_GPUS)
def test_train_step_of_forests(rule, name, dtype):
    gpu_step_cases.check_train_step(EMULATED, rule, name, (17, 3), dtype, True)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("rule", ON_GPUS)
def test_train_step_of_pinned_trees(rule, dtype):
    check = gpu_step_cases.check_train_step
    check(EMULATED, rule, "pinned huffman_203", (17, 3), dtype, True)


@pytest.mark.parametrize("name", ["random", "pinned huffman_203"])
def test_train_step_by_smoothed_labels(name):
    gpu_step_cases.check_train_step(
        EMULATED,
        "lazy_adam",
        name,
        (17, 3),
        np.float32,
        True,
        label_smoothing=0.25,
    )


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("random", np.float32),
        ("two_level_100", np.float16),
        ("two_level_7", np.float64),
    ],
)
def test_states(name, dtype):
    gpu_error_cases.check_states(EMULATED, name, dtype)


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize(
    "name",
    [
        "two_level_100",
        "random",
        "only_children",
        "single_class",
        "pinned huffman_203",
    ],
)
def test_log_probs(name, dtype):
    check = gpu_inference_cases.check_log_probs
    check(EMULATED, name, (5, 3), dtype, nodes=False, parameter=tf.Variable)
    check(EMULATED, name, (5, 3), dtype, nodes=True)


@pytest.mark.parametrize("name", ["flat", "one_huge_group"])
def test_log_probs_of_wide_groups(name):
    check = gpu_inference_cases.check_log_probs
    check(EMULATED, name, (35, 70), np.float32, nodes=False)


@pytest.mark.parametrize("label_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("name", ["two_level_100", "random", "pinned chain_50"])
def test_given_classes(name, dtype, label_dtype):
    gpu_inference_cases.check_given_classes(
        EMULATED, name, (5, 3), dtype, 6, label_dtype
    )


@pytest.mark.parametrize("lists", [1, 7])
@pytest.mark.parametrize("dtype", gpu_inference_cases.SEARCHED)
@pytest.mark.parametrize(
    "name", ["two_level_100", "random", "single_class", "pinned binary_37"]
)
def test_allowed(name, dtype, lists):
    gpu_inference_cases.check_allowed(EMULATED, name, dtype, lists)


@pytest.mark.parametrize("kind", [None, "ties"])
@pytest.mark.parametrize("dtype", gpu_inference_cases.SEARCHED)
@pytest.mark.parametrize(
    "name", ["two_level_100", "random", "single_class", "pinned binary_37"]
)
def test_top_k(name, dtype, kind):
    gpu_inference_cases.check_top_k(
        EMULATED, name, (5, 3), dtype, tf.Variable, kind
    )


@pytest.mark.parametrize("options", gpu_inference_cases.RESTRICTED)
@pytest.mark.parametrize(
    "name, dtype",
    [
        ("two_level_100", np.float32),
        ("random", np.float16),
        ("pinned binary_37", np.float32),
    ],
)
def test_sample(name, dtype, options):
    gpu_inference_cases.check_sample(EMULATED, name, dtype, 80, **options)


def test_sample_of_float64():
    gpu_inference_cases.check_sample(EMULATED, "random", np.float64, 80)


@pytest.mark.parametrize("leading", [[], [0], [2, 3], [3, 0]])
def test_leading_shapes(leading):
    gpu_inference_cases.check_leading_shapes(EMULATED, leading)


@pytest.mark.parametrize("case", gpu_inference_cases.BROKEN_TREES)
def test_broken_trees_for_walks_down(case):
    gpu_inference_cases.check_broken_trees(EMULATED, *case)


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("name", gpu_cases.FORESTS)
def test_log_probs_of_forests(name, dtype, nodes):
    gpu_forest_cases.check_log_probs(EMULATED, name, dtype, nodes)


@pytest.mark.parametrize("name", gpu_cases.FORESTS)
def test_log_probs_of_forests_without_starts(name):
    check = gpu_forest_cases.check_log_probs
    check(EMULATED, name, np.float32, nodes=True, has_starts=False)


@pytest.mark.parametrize("label_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("name", ["below three_levels", "below ragged"])
def test_given_classes_of_forests(name, dtype, label_dtype):
    gpu_forest_cases.check_given_classes(EMULATED, name, dtype, label_dtype)


@pytest.mark.parametrize("dtype", gpu_inference_cases.SEARCHED)
@pytest.mark.parametrize("name", gpu_cases.FORESTS)
def test_top_k_of_forests(name, dtype):
    gpu_forest_cases.check_top_k(EMULATED, name, dtype)


@pytest.mark.parametrize("options", gpu_inference_cases.RESTRICTED)
@pytest.mark.parametrize(
    "name, dtype",
    [("below three_levels", np.float32), ("below huffman_3", np.float16)],
)
def test_sample_of_forests(name, dtype, options):
    gpu_forest_cases.check_sample(EMULATED, name, dtype, **options)


def test_sample_of_forests_of_float64():
    gpu_forest_cases.check_sample(EMULATED, "below ragged", np.float64)


@pytest.mark.parametrize("case", gpu_forest_cases.BROKEN_ROOTS)
def test_broken_roots(case):
    gpu_forest_cases.check_broken_roots(EMULATED, *case)
