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
from tests.support import evaluation, oracle, pinned, references, trees
from tests.support.evaluation import assert_within, dense, evaluate
from tests.support.references import FORESTS, build
from tests.support.training import assert_close
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


def check_loss(
    place, name, shape, dtype, graph=False, label_smoothing=0.0, to_prior=False
):
    """Every element within its rounding error; types; the touched rows."""
    tree = build(name)
    problem = references.random_problem(tree, *shape, dtype, seed=sum(shape))
    problem = problem.replace(label_smoothing=label_smoothing)
    if to_prior:
        problem = problem.replace(smoothing_prior=oracle.random_prior(tree))
    evaluation.check_loss(
        tree,
        problem,
        [tf.constant, tf.Variable, tf.Variable],
        graph=graph,
        place=place,
    )


def check_labels_that_are_rows(place):
    """Rows of inner nodes too: the path begins there."""
    for name in ("two_level_100", "random", "huffman_4ary", FORESTS[0]):
        tree = build(name)
        problem = oracle.random_problem(trees.OfRows(tree), 60, 9, np.float64)
        evaluation.check_loss(tree, problem, nodes=True, place=place)


def check_shapes(place, leading_shape, has_biases):
    """Any leading shape, none and empty ones too; biases or none."""
    tree = build("random")
    batch = int(np.prod(leading_shape))
    problem = oracle.random_problem(tree, batch, 7, np.float64)
    if not has_biases:
        problem = problem.replace(biases=None)
    result = solve(place, tree, problem, leading_shape=leading_shape)
    assert result.loss.shape == leading_shape
    assert result.dx.shape == [*leading_shape, 7]
    expected, bound = oracle.hierarchical_softmax(tree, problem)
    assert_within(dense(result), expected, bound)


def check_ignored(place, dtype, ignore_class):
    """Ignored examples have loss 0 and count for nothing, NaN or not."""
    problem = oracle.random_problem(build("random"), 20, 9, dtype)
    problem.labels[::3] = ignore_class
    evaluation.check_loss(
        build("random"), problem, place=place, ignore_class=ignore_class
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
    problem = pinned.random_problem(tree, 8, 5, np.float64)
    both = pinned.expanded(problem)
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
