"""What the ops must do on a GPU, wherever their GPU kernels run.

`gpu_test` runs these cases on a GPU; `emulated_test` runs the same kernels
on the CPU, above an emulation of CUDA.
"""

import contextlib
import threading
from concurrent import futures

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle, references, trees, update_rules
from tests.support.evaluation import assert_within, dense, evaluate
from tests.support.references import build
from tests.support.training import assert_close
from tf_hsm.optimizers import _sparse_update
from tf_hsm.runtime.tree_tensors import tree_tensors

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]

# Amounts of label smoothing, and whether it is towards a prior.
SMOOTHED = [(0.25, False), (0.25, True), (1.0, True)]


@pytest.fixture(autouse=True, params=[False, True], ids=["exact", "tf32"])
def tensor_cores(request):
    """Every case on both products, within the bounds of each."""
    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(request.param)
    bounds = (
        oracle.rounded_operands if request.param else contextlib.nullcontext
    )
    with bounds():
        yield
    tf.config.experimental.enable_tensor_float_32_execution(enabled)


def solve(place, tree, problem, **options):
    """The loss of variables and its gradients: see evaluation.evaluate."""
    options = {"parameter": tf.Variable, **options}
    loss = tf_hsm.hierarchical_softmax_loss
    return evaluate(loss, tree, problem, place=place, **options)


def check_optimizer(place, rule, shape, dtype, decay, graph=False):
    """Steps of an optimizer on rows of a variable, which repeat.

    Args:
        place: A `Place`.
        rule: A name in `update_rules.OURS`.
        shape: The number of rows and their shape.
        dtype: The type of the variable.
        decay: The weight decay, or None.
        graph: Whether to run in a `tf.function`.
    """
    with tf.device(place.device):
        assert _sparse_update.is_possible(
            tf.Variable(np.zeros(shape, dtype)), []
        )
    rng = np.random.default_rng(0)
    wide = oracle.accumulator(dtype)
    unit = oracle.unit_roundoff(dtype)
    gradients = [
        (
            rng.integers(shape[0], size=count),
            rng.normal(size=(count, *shape[1:])).astype(wide),
        )
        for count in (40, 7)
    ]
    update_rules.check_steps(
        rule,
        rng.normal(size=shape).astype(dtype),
        gradients,
        optimizer=update_rules.OURS[rule](weight_decay=decay),
        graph=graph,
        place=place,
        tolerance=max(1e-5, 8 * unit),
        of_slots=max(1e-4, 8 * unit),
    )


def check_trees_are_told_apart(place):
    """Trees of one shape, alive and dead, do not take each other's place."""
    rng = np.random.default_rng(0)
    kept = [tf_hsm.Tree.huffman(rng.permutation(60) + 1) for _ in range(2)]
    for step in range(6):
        dying = tf_hsm.Tree.huffman(rng.permutation(60) + 1)
        for tree in (kept[step % 2], dying):
            problem = oracle.random_problem(tree, 8, 5, np.float64, step)
            result = solve(place, tree, problem)
            assert_within(
                dense(result), *oracle.hierarchical_softmax(tree, problem)
            )
        del dying, tree


def check_pinned_or_not(place):
    """The same arrays, first of a tree and then of a pinned one, and back."""
    tree = build("pinned binary_37")
    problem = references.random_problem(tree, 8, 5, np.float64)
    both = references.expanded(tree, problem)
    arrays = tree_tensors(tree)._asdict()
    expected, bound = oracle.hierarchical_softmax(tree, both)
    for given, is_pinned in [(both, False), (problem, True), (both, False)]:
        losses = place.run(
            lambda given=given, is_pinned=is_pinned: (
                tf_hsm.runtime.library.raw_ops.tf_hsm_loss(
                    weights=given.weights,
                    biases=[given.biases],
                    labels=problem.labels,
                    inputs=problem.inputs,
                    **arrays,
                    smoothing_prior=[],
                    pinned=is_pinned,
                    Taccumulator=tf.float64,
                ).loss
            )
        )
        assert_close(losses, expected.loss, bound.loss, is_pinned)


def check_two_threads(place):
    """Two threads that meet a new tree at once, each with its own batches."""
    tree = trees.CATALOGUE["two_level_100"]()
    problems = [
        oracle.random_problem(tree, 70, 9, np.float32, seed) for seed in (0, 1)
    ]
    begin = threading.Barrier(len(problems))

    def results(problem):
        begin.wait()
        return [dense(solve(place, tree, problem)) for _ in range(5)]

    with futures.ThreadPoolExecutor(len(problems)) as pool:
        found = list(pool.map(results, problems))
    for problem, rounds in zip(problems, found, strict=True):
        alone = dense(solve(place, tree, problem))
        for result in rounds:
            for field in ("loss", "dx", "dw", "db"):
                np.testing.assert_array_equal(
                    getattr(result, field), getattr(alone, field)
                )
