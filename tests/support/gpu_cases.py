"""What the ops must do on a GPU, wherever their GPU kernels run.

`gpu_test` runs these cases on a GPU; `emulated_test` runs the same kernels
on the CPU, above an emulation of CUDA.
"""

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
OPS = ["ResourceTfHsmTrainStep"]
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

# Forests, each below some rows of a tree.
FORESTS = [f"below {name}" for name in forests.TREES]

PINNED = [f"pinned {name}" for name in pinned.TREES]


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
        label: Of the kernels, or None for those without one.
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
):
    """The loss and gradients of sum(upstream * loss): see evaluation.evaluate.

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
    sources = [inputs, weights] if biases is None else [inputs, weights, biases]

    def run():
        with tf.GradientTape() as tape:
            tape.watch(sources)
            loss = tf_hsm.hierarchical_softmax_loss(
                weights, biases, labels, inputs, tree, ignore_class
            )
        return loss, *tape.gradient(loss, sources, output_gradients=upstream)

    loss, dx, dw, *db = place.run(run, graph)
    assert loss.device.endswith(place.device), loss.device
    assert dw.values.device.endswith(place.device), dw.values.device
    return oracle.Result(loss, dx, dw, db[0] if db else None)


def check_loss(place, name, shape, dtype, graph=False):
    """Every element within its rounding error; types; the touched rows."""
    tree = build(name)
    problem = references.random_problem(tree, *shape, dtype, seed=sum(shape))
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


def check_no_width(place):
    """Rows of no numbers, which the CPU takes, are refused."""
    tree = build("random")
    problem = oracle.random_problem(tree, 2, 0, np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the width 0"):
        solve(place, tree, problem)


def check_bad_labels(place, dtype, label_dtype):
    """NaN losses and no gradients for them; the others as if alone."""
    tree = build("two_level_100")
    problem = oracle.random_problem(tree, 20, 9, dtype)
    problem.labels[::4] = np.resize([100, -1, 2**31 - 1, -(2**31)], 5)
    good = np.arange(20) % 4 > 0
    alone = problem.replace(
        inputs=problem.inputs[good],
        labels=problem.labels[good],
        upstream=problem.upstream[good],
    )
    result = solve(place, tree, problem, label_dtype=label_dtype)
    expected, bound = oracle.hierarchical_softmax(tree, alone)
    actual = dense(result)
    assert np.isnan(actual.loss[~good]).all()
    assert not actual.dx[~good].any()
    kept = oracle.Result(
        actual.loss[good], actual.dx[good], actual.dw, actual.db
    )
    assert_within(kept, expected, bound)
    np.testing.assert_array_equal(
        result.dw.indices, oracle.touched_rows(tree, alone.labels)
    )


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


def check_broken_trees(place, array, index, value, message, name="two_level_7"):
    """An error that names the array, the position and the value."""
    tree = build(name)
    problem = references.random_problem(tree, 7, 3, np.float32)
    arrays = tree_tensors(tree)._asdict()
    broken = arrays[array].numpy()
    broken[index] = value
    with tf.device("CPU"):
        arrays[array] = tf.constant(broken)

    def run():
        return tf_hsm.runtime.library.raw_ops.tf_hsm_loss(
            weights=problem.weights,
            biases=[problem.biases],
            labels=np.arange(7),
            inputs=problem.inputs,
            **arrays,
            smoothing_prior=[],
            pinned=tree.pinned,
            Taccumulator=tf.float32,
        ).loss

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        place.run(run)


# Arguments of check_broken_trees.
BROKEN_TREES = [
    ("group_offsets", 1, 99, r"group_offsets\[1\] = 99 is outside"),
    ("group_offsets", 1, 0, r"group_offsets\[1\] = 0 is outside"),
    ("group_parents", 0, 5, r"group_parents\[0\] = 5, but"),
    ("group_parents", 1, 2**40, r"group_parents\[1\] = 1099511627776 is"),
    ("row_groups", -1, 77, r"row_groups\[\d+\] = 77, but group"),
    ("class_rows", 2, -5, r"class_rows\[2\] = -5 is outside"),
    ("class_rows", 2, 2**40, r"class_rows\[2\] = 1099511627776 is outside"),
    ("class_ranks", 2, 2**40, r"class_ranks\[2\] = 1099511627776 is outside"),
    ("class_ranks", 2, 0, r"class_ranks\[2\] = 0 is another class's"),
    ("group_parents", 1, -1, r"group_parents\[1\] = -1 is root number 2, but"),
    (
        "group_offsets",
        1,
        3,
        r"group_offsets\[0\] = 0 and group_offsets\[1\] = 3, but .* pinned",
        "pinned binary_37",
    ),
]
# A forest of twelve trees, the first of 6 groups and 55 rows.
_FOREST = "below three_levels"
BROKEN_TREES += [
    (
        "group_parents",
        7,
        3,
        r"group_parents\[7\] = 3 is outside \[55, 60\), the rows of its tree",
        _FOREST,
    ),
    (
        "group_parents",
        6,
        54,
        "has 11 times the -1 of a root, but .* are those of 12 trees",
        _FOREST,
    ),
    (
        "group_parents",
        8,
        -1,
        r"group_parents\[9\] = 57 is outside \[70, 80\)",
        _FOREST,
    ),
    # Trees in the reverse order.
    (
        "class_ranks",
        slice(None),
        239 - build(_FOREST).class_ranks,
        r"class_ranks is not the .*, below group_parents\[\d+\] = -1",
        _FOREST,
    ),
]


def check_states(place, name, dtype):
    """A state is good for any number of gradients of its loss, and no other."""
    tree = build(name)
    problem = oracle.random_problem(tree, 70, 9, dtype)
    wider = oracle.random_problem(tree, 70, 10, dtype)
    other_dtype = np.float32 if dtype == np.float64 else np.float64
    raw_ops = tf_hsm.runtime.library.raw_ops

    def parameters(of, dtype=dtype):
        return {
            "weights": of.weights.astype(dtype),
            "biases": [of.biases.astype(dtype)],
        }

    def state(examples=70, **attributes):
        return raw_ops.tf_hsm_loss(
            **parameters(problem),
            labels=problem.labels[:examples],
            inputs=problem.inputs[:examples],
            **tree_tensors(tree)._asdict(),
            smoothing_prior=[],
            Taccumulator=oracle.accumulator(dtype),
            **attributes,
        ).state

    def gradients(state, factor=1, dtype=dtype, **others):
        upstream = factor * problem.upstream.astype(oracle.accumulator(dtype))
        arguments = {**parameters(problem, dtype), **others}
        return raw_ops.tf_hsm_loss_grad(
            **arguments, loss_grads=upstream, state=state
        )

    def several():
        kept = state()
        return [gradients(kept, factor) for factor in (1, 2, 1)]

    one, double, again = place.run(several)
    rows = oracle.touched_rows(tree, problem.labels)
    for found in (one, double, again):
        np.testing.assert_array_equal(found.rows, rows)
    for name in ("weight_grads", "bias_grads"):
        values = getattr(one, name).numpy()
        assert np.any(values)
        np.testing.assert_array_equal(values, getattr(again, name))
        np.testing.assert_array_equal(2 * values, getattr(double, name))

    for message, call in {
        r"but is that of one of \w+ weights of shape \[\d+,9\]": lambda: (
            gradients(state(), **parameters(wider))
        ),
        r"that of a loss of \w+ weights": lambda: gradients(
            state(), dtype=other_dtype
        ),
        "without biases, but": lambda: gradients(state(), biases=[]),
        "loss_grads must have the shape of labels": lambda: gradients(
            state(examples=35)
        ),
        "but is empty": lambda: gradients(state(with_gradients=False)),
        "a variant of the type": lambda: gradients(tf.raw_ops.OptionalNone()),
    }.items():
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            place.run(call)


def assert_close(actual, expected, bound, what):
    error = abs(np.asarray(actual).astype(np.float64) - expected)
    # Written so that a NaN fails too.
    bad = ~(error <= bound)
    assert not bad.any(), f"{what}: {bad.sum()} of {bad.size}, {error.max()}"
