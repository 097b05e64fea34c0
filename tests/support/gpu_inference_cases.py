"""What a trained head must do on a GPU, wherever its GPU kernels run.

Like `gpu_cases`, for the ops that go down the tree.
"""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import masks, oracle, references
from tests.support.gpu_error_cases import check_broken_tensors
from tests.support.references import build
from tf_hsm.ops import top_k
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import child_tensors, path_tensors

# Those of which the best classes can be found.
SEARCHED = [np.float32, ml_dtypes.bfloat16, np.float16]
MOST = 1024  # of them


def arguments_of(place, problem, parameter=tf.constant):
    """Weights, biases or None, and inputs, on the device."""
    biases = problem.biases
    with tf.device(place.device):
        return (
            parameter(problem.weights),
            None if biases is None else parameter(biases),
            tf.constant(problem.inputs),
        )


def check_log_probs(
    place,
    name,
    shape,
    dtype,
    nodes,
    parameter=tf.constant,
    graph=False,
    has_starts=False,
):
    """Values and all gradients against the reference.

    Those of log-probabilities of roots too, if `has_starts`.
    """
    tree = build(name)
    problem = references.random_problem(tree, *shape, dtype, seed=sum(shape))
    want, bound = references.node_log_probs(tree, problem)
    wide = oracle.accumulator(dtype)
    unit = oracle.unit_roundoff(wide)
    upstream = np.random.default_rng(0).normal(size=want.shape).astype(wide)
    sources = list(arguments_of(place, problem, parameter))
    weights, biases, inputs = sources
    starts = None
    if has_starts:
        values = references.random_starts(tree, shape[0], dtype)
        roots = references.roots_of_rows(tree)
        want = want + values[:, roots]
        bound = bound + 2 * tree.depth * unit * abs(want)
        with tf.device(place.device):
            starts = tf.constant(values)
        sources.append(starts)
    of_rows = upstream
    if not nodes:
        want, bound, upstream = (
            reference.by_class(tree, a) for a in (want, bound, upstream)
        )
        of_rows = reference.by_row(tree, upstream)

    def run():
        with tf.GradientTape() as tape:
            tape.watch(sources)
            values = tf_hsm.hierarchical_softmax_log_probs(
                weights,
                biases,
                inputs,
                tree,
                nodes=nodes,
                root_log_probs=starts,
            )
        return values, *tape.gradient(
            values, sources, output_gradients=tf.constant(upstream)
        )

    values, dw, db, dx, *of_starts = place.run(run, graph)
    assert values.device.endswith(place.device), values.device
    assert values.dtype == wide
    reference.assert_near(values, want, bound)
    want, bound = references.log_prob_gradients(tree, problem, of_rows)
    # Relative to log-probabilities that may be as large again.
    slack = 3 if name in references.FORESTS else 1
    for field, actual in [("dx", dx), ("dw", dw), ("db", db)]:
        assert actual.dtype == np.dtype(dtype)
        limit = slack * getattr(bound, field)
        reference.assert_near(actual, getattr(want, field), limit, field)
    for actual in of_starts:
        sums = np.zeros(actual.shape)
        np.add.at(sums.T, roots, of_rows.T.astype(float))
        sizes = abs(of_rows).sum(-1, keepdims=True).astype(float)
        limit = tree.num_rows * unit * sizes
        reference.assert_near(actual, sums, limit + 0 * sums, "roots")


def check_given_classes(place, name, shape, dtype, count, label_dtype):
    """Those of given classes; NaN for what is none."""
    tree = build(name)
    problem = references.random_problem(tree, *shape, dtype, seed=count)
    want, bound = (
        reference.by_class(tree, a)
        for a in references.node_log_probs(tree, problem)
    )
    rng = np.random.default_rng(0)
    classes = rng.integers(tree.num_classes, size=[shape[0], count])
    want, bound = (
        np.take_along_axis(a, classes, axis=1) for a in (want, bound)
    )
    wrong = rng.random(classes.shape) < 0.2
    classes[wrong] = np.resize(
        [tree.num_classes, -1, 2**31 - 1, -(2**31)], wrong.sum()
    )
    for parameter in (tf.constant, tf.Variable):
        weights, biases, inputs = arguments_of(place, problem, parameter)
        found = place.run(
            lambda w=weights, b=biases, x=inputs: (
                tf_hsm.hierarchical_softmax_log_prob(
                    w, b, tf.constant(classes, label_dtype), x, tree
                )
            )
        )
        assert found.dtype == oracle.accumulator(dtype)
        values = found.numpy()
        assert np.isnan(values[wrong]).all()
        # A loss is rounded where its parts are added, too.
        slack = 8 * oracle.unit_roundoff(values.dtype) * (1 + abs(want))
        reference.assert_near(
            np.where(wrong, want, values), want, bound + slack
        )


def check_top_k(place, name, shape, dtype, parameter=tf.constant, kind=None):
    """The bits and the order of a sort of all classes."""
    tree = build(name)
    problem = references.random_problem(tree, *shape, dtype, seed=sum(shape))
    if kind == "ties":
        rng = np.random.default_rng(0)
        rows = tree.num_weight_rows
        which = rng.integers(min(2, rows), size=rows)
        problem = problem.replace(
            weights=problem.weights[which], biases=problem.biases[which]
        )
    arguments = arguments_of(place, problem, parameter)
    values = place.run(
        lambda: tf_hsm.hierarchical_softmax_log_probs(*arguments, tree)
    ).numpy()
    most = min(tree.num_classes, MOST)
    for k in sorted({1, min(5, most), most}):
        found = place.run(
            functools.partial(
                tf_hsm.hierarchical_softmax_top_k,
                *arguments,
                tree,
                k,
                return_pruned=True,
            )
        )
        classes = reference.ranking(values)[:, :k]
        np.testing.assert_array_equal(found.classes, classes)
        np.testing.assert_array_equal(
            found.log_probs, np.take_along_axis(values, classes, -1)
        )
        assert not found.num_pruned.numpy().any()
    best = place.run(lambda: top_k.best_class(*arguments, tree))
    np.testing.assert_array_equal(best, reference.ranking(values)[:, 0])


def check_allowed(place, name, dtype, lists, parameter=tf.constant):
    """The bits and the order of a sort of the allowed classes; draws of them.

    `lists` is 1, of all inputs; or 7, one for each.
    """
    tree = build(name)
    problem = references.random_problem(tree, 7, 5, dtype, seed=lists)
    arguments = arguments_of(place, problem, parameter)
    values = place.run(
        lambda: tf_hsm.hierarchical_softmax_log_probs(*arguments, tree)
    ).numpy()
    for chance in (0.0, 0.05, 0.5, 1.0):
        mask = masks.random_mask(tree, chance, lists)
        allowed = masks.lists_of(mask)
        k = min(tree.num_classes, MOST, 6)
        found = place.run(
            lambda allowed=allowed, k=k: tf_hsm.hierarchical_softmax_top_k(
                *arguments, tree, k, allowed=allowed
            )
        )
        masks.check(found, values, mask, k, exact=True)
        drawn = place.run(
            lambda allowed=allowed: tf_hsm.hierarchical_softmax_sample(
                *arguments, tree, 4, seed=1, allowed=allowed
            )
        ).numpy()
        for classes, row in zip(
            drawn, np.broadcast_to(mask, values.shape), strict=True
        ):
            assert row[classes].all() if row.any() else (classes == -1).all()


# How draws are restricted.
RESTRICTED = [
    {},
    {"temperature": 0.5},
    {"top_k": 3},
    {"top_k": 3, "temperature": 2.0},
    {"top_p": 0.6},
    {"top_p": 0.9, "top_k": 4, "temperature": 0.7},
    {"top_p": 1e-30},
]


def check_sample(place, name, dtype, num_samples, **options):
    """The draws of the CPU, but where rounding moves the edge of a share."""
    tree = build(name)
    if "top_k" in options:
        options["top_k"] = min(options["top_k"], tree.num_classes)
    problem = references.random_problem(tree, 3, 5, dtype)
    call = functools.partial(
        tf_hsm.hierarchical_softmax_sample,
        tree=tree,
        num_samples=num_samples,
        seed=[3, 2**40],
        **options,
    )
    with tf.device("CPU:0"):
        want = call(problem.weights, problem.biases, problem.inputs).numpy()
    for parameter in (tf.constant, tf.Variable):
        arguments = arguments_of(place, problem, parameter)
        draws = place.run(functools.partial(call, *arguments))
        assert draws.dtype == tf.int64
        # A share's edge moves as far as the share is off.
        moved = 8 * oracle.operand_roundoff(dtype)
        assert np.mean(draws.numpy() == want) > 0.995 - moved


def check_leading_shapes(place, leading):
    """Any leading shape, none and empty ones too."""
    tree = build("random")
    problem = oracle.random_problem(tree, int(np.prod(leading)), 7, np.float32)
    problem = problem.replace(
        inputs=problem.inputs.reshape([*leading, 7]), biases=None
    )
    arguments = arguments_of(place, problem)
    classes = np.zeros([*leading, 2], np.int64)

    weights, biases, inputs = arguments

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            values = tf_hsm.hierarchical_softmax_log_probs(*arguments, tree)
        return values, tape.gradient(values, inputs)

    # One at a time: the emulation runs one launch at a time anyway.
    values, dx = place.run(gradient)
    given = place.run(
        lambda: tf_hsm.hierarchical_softmax_log_prob(
            weights, biases, classes, inputs, tree
        )
    )
    best = place.run(
        lambda: tf_hsm.hierarchical_softmax_top_k(*arguments, tree, 3)
    )
    draws = place.run(
        lambda: tf_hsm.hierarchical_softmax_sample(*arguments, tree, 4, seed=0)
    )
    for found, size in [
        (values, tree.num_classes),
        (dx, 7),
        (given, 2),
        (best.log_probs, 3),
        (best.classes, 3),
        (draws, 4),
    ]:
        assert found.shape == [*leading, size]
    if not leading:
        return
    empty = place.run(
        lambda: tf_hsm.hierarchical_softmax_log_prob(
            weights, biases, classes[..., :0], inputs, tree
        )
    )
    assert empty.shape == [*leading, 0]


def check_nan(place):
    """NaN stays in its example; it draws and finds what is documented."""
    tree = build("two_level_100")
    problem = oracle.random_problem(tree, 3, 4, np.float32)
    problem.inputs[1] = np.nan
    arguments = arguments_of(place, problem)

    sample = functools.partial(
        tf_hsm.hierarchical_softmax_sample, *arguments, tree, 5, seed=0
    )
    values = place.run(
        lambda: tf_hsm.hierarchical_softmax_log_probs(*arguments, tree)
    ).numpy()
    draws = [
        place.run(functools.partial(sample, top_k=k)).numpy() for k in (None, 3)
    ]
    assert np.isnan(values[1]).all() and np.isfinite(values[[0, 2]]).all()
    for found in draws:
        assert (found[1] == -1).all() and (found[[0, 2]] >= 0).all()


def check_refusals(place):
    """What only the CPU can do is refused in a sentence."""
    tree = tf_hsm.Tree.two_level(1100)
    problem = oracle.random_problem(tree, 2, 4, np.float32)
    problem = problem.replace(weights=0 * problem.weights, biases=None)
    arguments = arguments_of(place, problem, tf.Variable)
    double = arguments_of(
        place, oracle.random_problem(tree, 2, 4, np.float64), tf.Variable
    )
    find = tf_hsm.hierarchical_softmax_top_k
    sample = tf_hsm.hierarchical_softmax_sample
    for function, message in [
        (lambda: find(*arguments, tree, 2, beam_width=4), "beam_width = 4: th"),
        (lambda: find(*arguments, tree, 1025), "k = 1025 is above 1024"),
        (lambda: find(*double, tree, 2), "k: .* float64 weights"),
        (lambda: sample(*double, tree, 2, top_k=3), "top_k: .* float64"),
        (lambda: sample(*arguments, tree, 2, top_k=1050), "top_k = 1050 is"),
        (
            lambda: sample(*arguments, tree, 2, top_p=0.97),
            r"top_p = 0.97 is not reached by the 1024 most .* of input 0,",
        ),
    ]:
        with pytest.raises(tf.errors.UnimplementedError, match=message):
            place.run(function)


def check_no_width(place):
    """Rows of no numbers, which the CPU takes."""
    tree = build("random")
    problem = oracle.random_problem(tree, 2, 0, np.float32)
    arguments = arguments_of(place, problem)
    classes = np.zeros([2, 1], np.int64)
    for function in (
        lambda: tf_hsm.hierarchical_softmax_log_probs(*arguments, tree),
        lambda: tf_hsm.hierarchical_softmax_log_prob(
            *arguments[:2], classes, arguments[2], tree
        ),
        lambda: tf_hsm.hierarchical_softmax_top_k(*arguments, tree, 1),
        lambda: tf_hsm.hierarchical_softmax_sample(*arguments, tree, 1, seed=0),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="the width 0"):
            place.run(function)


# Arguments of check_broken_trees.
BROKEN_TREES = [
    ("group_offsets", 0, 1, r"group_offsets\[0\] = 1 is outside"),
    ("group_offsets", 1, 99, r"group_offsets\[1\] = 99 is outside"),
    ("group_offsets", -1, 9, r"group_offsets\[\d\] = 9 "),
    ("row_below", 0, 77, r"row_below\[0\] = 77 is neither"),
    ("row_below", 0, -(2**40), r"row_below\[0\] = -1099511627776 is neither"),
    ("row_below", -1, -1, r"row_below\[\d+\] = -1 is a second leaf"),
    (
        "group_offsets",
        1,
        3,
        r"group_offsets\[0\] = 0 and group_offsets\[1\] = 3, but .* pinned",
        "pinned binary_37",
    ),
]


def check_broken_trees(place, array, index, value, message, name="two_level_7"):
    """An error that names the array, the position and the value."""
    tree = build(name)
    problem = references.random_problem(tree, 7, 3, np.float32)

    def run(arrays):
        arrays = {**arrays, "root_groups": [arrays["root_groups"]]}
        return raw_ops.tf_hsm_log_probs(
            weights=problem.weights,
            biases=[problem.biases],
            inputs=problem.inputs,
            **arrays,
            pinned=tree.pinned,
            root_log_probs=[],
            scales=[],
            Taccumulator=tf.float32,
        ).log_probs

    change = array, index, value
    check_broken_tensors(place, child_tensors(tree), *change, message, run)


def check_forged_paths(place):
    """Paths follow from the arrays for walks down, whatever the others say."""
    tree = build("two_level_7")
    problem = oracle.random_problem(tree, 5, 3, np.float32)
    rng = np.random.default_rng(0)
    forged = {
        name: rng.integers(-(2**62), 2**62, size=array.shape)
        for name, array in path_tensors(tree)._asdict().items()
    }
    below = child_tensors(tree)._asdict()
    below["root_groups"] = [below["root_groups"]]
    results = [
        place.run(
            lambda arrays=arrays: raw_ops.tf_hsm_class_log_probs(
                weights=problem.weights,
                biases=[problem.biases],
                inputs=problem.inputs,
                **below,
                **arrays,
                classes=problem.labels[:, np.newaxis],
                root_log_probs=[],
                scales=[],
                Taccumulator=tf.float32,
            )
        )
        for arrays in (path_tensors(tree)._asdict(), forged)
    ]
    np.testing.assert_array_equal(*results)
    assert np.isfinite(results[0]).all()
