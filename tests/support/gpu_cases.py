"""What the ops must do on a GPU, wherever their GPU kernels run.

`gpu_test` runs these cases on a GPU; `emulated_test` runs the same kernels
on the CPU, above an emulation of CUDA.
"""

import contextlib
import dataclasses
import functools
import threading
from concurrent import futures

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forests, oracle, pinned, references, trees
from tests.support.evaluation import assert_within, dense
from tf_hsm.runtime.tree_tensors import tree_tensors

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]

# What has a GPU kernel.
OPS = ["ResourceTfHsmTrainStep", "ResourceTfHsmLossStep"]
for _name in (
    "Loss",
    "LossGrad",
    "LogProbs",
    "LogProbsGrad",
    "ClassLogProbs",
    "TopK",
    "Sample",
):
    OPS += [f"TfHsm{_name}", f"ResourceTfHsm{_name}"]

# Amounts of label smoothing, and whether it is towards a prior.
SMOOTHED = [(0.25, False), (0.25, True), (1.0, True)]

# Forests, each below some rows of a tree.
FORESTS = [f"below {name}" for name in forests.TREES]

PINNED = [f"pinned {name}" for name in pinned.TREES]


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


@functools.cache
def build(name):
    """Makes a tree, or a forest, of the catalogues."""
    if name in FORESTS:
        tree = forests.TREES[name.removeprefix("below ")]()
        return forests.cut(tree, forests.some_rows(tree, 1), 1).forest
    if name in PINNED:
        return pinned.TREES[name.removeprefix("pinned ")]()
    return {**trees.CATALOGUE, **trees.DEEP}[name]()


@dataclasses.dataclass(frozen=True)
class Place:
    """Where kernels run.

    Attributes:
        device: For `tf.device`; results must be on it.
        label: The kernels' label, or None for kernels without one.
    """

    device: str
    label: str | None = None

    def run(self, function, graph=False):
        """Calls `function`, in a tf.function if `graph` or a label is set."""

        def labelled():
            if self.label is not None:
                # What Graph._kernel_label_map sets for the time of a `with`.
                tf.compat.v1.get_default_graph()._op_to_kernel_label_map.update(
                    dict.fromkeys(OPS, self.label)
                )
            return function()

        with tf.device(self.device):
            if graph or self.label is not None:
                return tf.function(labelled)()
            return function()


def solve(
    place,
    tree,
    problem,
    *,
    parameter=tf.Variable,
    label_dtype=np.int64,
    leading_shape=None,
    ignore_class=None,
    graph=False,
    nodes=False,
):
    """The loss and gradients of sum(upstream * loss): see evaluation.evaluate.

    The problem's label smoothing and prior are the op's options.

    Returns:
        An `oracle.Result` of tensors, those of weights and biases as slices.
    """
    shape = [len(problem.labels)] if leading_shape is None else leading_shape
    with tf.device(place.device):
        weights = parameter(problem.weights)
        biases = None if problem.biases is None else parameter(problem.biases)
        labels = tf.constant(problem.labels.reshape(shape), label_dtype)
        inputs = tf.constant(
            problem.inputs.reshape([*shape, problem.inputs.shape[-1]])
        )
        upstream = tf.constant(problem.upstream.reshape(shape))
        prior = problem.smoothing_prior
        prior = None if prior is None else tf.constant(prior)
    sources = [inputs, weights] if biases is None else [inputs, weights, biases]

    def run():
        with tf.GradientTape() as tape:
            tape.watch(sources)
            loss = tf_hsm.hierarchical_softmax_loss(
                weights,
                biases,
                labels,
                inputs,
                tree,
                ignore_class=ignore_class,
                nodes=nodes,
                label_smoothing=problem.label_smoothing,
                smoothing_prior=prior,
            )
        return loss, *tape.gradient(loss, sources, output_gradients=upstream)

    loss, dx, dw, *db = place.run(run, graph)
    assert loss.device.endswith(place.device), loss.device
    assert dw.values.device.endswith(place.device), dw.values.device
    return oracle.Result(loss, dx, dw, db[0] if db else None)


def check_loss(
    place, name, shape, dtype, graph=False, label_smoothing=0.0, to_prior=False
):
    """Every element within its rounding error; types; the touched rows."""
    tree = build(name)
    problem = references.random_problem(tree, *shape, dtype, seed=sum(shape))
    problem = problem.replace(label_smoothing=label_smoothing)
    if to_prior:
        problem = problem.replace(smoothing_prior=oracle.random_prior(tree))
    expected, bound = references.hierarchical_softmax(tree, problem)
    rows = references.touched_rows(tree, problem.labels)
    for parameter, label_dtype in [
        (tf.constant, np.int32),
        (tf.Variable, np.int64),
        (tf.Variable, np.int32),
    ]:
        result = solve(
            place,
            tree,
            problem,
            parameter=parameter,
            label_dtype=label_dtype,
            graph=graph,
        )
        assert result.loss.dtype == oracle.accumulator(dtype)
        assert result.dx.dtype == np.dtype(dtype)
        assert_within(dense(result), expected, bound)
        for slices in (result.dw, result.db):
            assert slices.values.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(slices.indices, rows)
            assert slices.values.shape[0] == len(rows)


def check_labels_that_are_rows(place):
    """Rows of inner nodes too: the path begins there."""
    names = ["two_level_100", "random", "huffman_4ary", FORESTS[0]]
    for name in names:
        tree = build(name)
        rows = trees.OfRows(tree)
        problem = oracle.random_problem(rows, 60, 9, np.float64)
        result = solve(place, tree, problem, nodes=True)
        assert_within(
            dense(result), *oracle.hierarchical_softmax(rows, problem)
        )
        np.testing.assert_array_equal(
            result.dw.indices, oracle.touched_rows(rows, problem.labels)
        )


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
    tree = build("random")
    problem = oracle.random_problem(tree, 20, 9, dtype)
    problem.labels[::3] = ignore_class
    expected, bound = oracle.hierarchical_softmax(tree, problem, ignore_class)
    problem.inputs[::3] = np.nan
    result = solve(place, tree, problem, ignore_class=ignore_class)
    assert_within(dense(result), expected, bound)
    np.testing.assert_array_equal(
        result.dw.indices,
        oracle.touched_rows(tree, problem.labels, ignore_class),
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


def assert_close(actual, expected, bound, what):
    error = abs(np.asarray(actual).astype(np.float64) - expected)
    # Written so that a NaN fails too.
    bad = ~(error <= bound)
    assert not bad.any(), f"{what}: {bad.sum()} of {bad.size}, {error.max()}"
