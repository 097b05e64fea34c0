"""What a trained head answers, at a place where its kernels run.

`answers_test` asks the CPU kernels, and `gpu_suite` the GPU kernels.
"""

import functools

import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import oracle, references
from tests.support.references import FORESTS, all_starts, build
from tf_hsm.ops import top_k
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import child_tensors, path_tensors


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
    logit_soft_cap=None,
):
    """Values and all gradients against the reference.

    With `has_starts`, also the gradients of log-probabilities of roots.
    """
    tree = build(name)
    problem = references.random_problem(
        tree, *shape, dtype, sum(shape), logit_soft_cap=logit_soft_cap
    )
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
                logit_soft_cap=logit_soft_cap,
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
    slack = 3 if name in FORESTS else 1
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


def check_given_classes(place, name, shape, dtype, label_dtype):
    """Log-probabilities of given classes; NaN where there is no such class.

    With log-probabilities of roots, the class -1 is below none of them.
    """
    tree = build(name)
    problem = references.random_problem(tree, *shape, dtype, seed=7)
    nodes, bound = references.node_log_probs(tree, problem)
    rng = np.random.default_rng(0)
    classes = rng.integers(tree.num_classes, size=[shape[0], 7])
    rows = tree.class_rows[classes]
    nowhere, wrong = rng.random((2, *classes.shape)) < 0.2
    wrong &= ~nowhere
    classes[nowhere] = -1
    classes[wrong] = np.resize(
        [tree.num_classes, -2, 2**31 - 1, -(2**31)], wrong.sum()
    )
    unit = oracle.unit_roundoff(oracle.accumulator(dtype))
    for parameter in (tf.constant, tf.Variable):
        weights, biases, inputs = arguments_of(place, problem, parameter)
        for starts in all_starts(tree, shape[0], dtype):
            found = place.run(
                functools.partial(
                    tf_hsm.hierarchical_softmax_log_prob,
                    weights,
                    biases,
                    tf.constant(classes, label_dtype),
                    inputs,
                    tree,
                    root_log_probs=starts,
                )
            )
            assert found.dtype == oracle.accumulator(dtype)
            values = found.numpy()
            assert np.isnan(values[wrong]).all()
            none = np.nan if starts is None else -np.inf
            np.testing.assert_array_equal(values[nowhere], none)
            want = nodes
            if starts is not None:
                want = nodes + starts[:, references.roots_of_rows(tree)]
            want = np.take_along_axis(want, rows, axis=1)
            # A loss is rounded where its parts are added, too.
            limit = np.take_along_axis(bound, rows, axis=1)
            limit = limit + 16 * unit * (3 + abs(want))
            values = np.where(wrong | nowhere, want, values)
            reference.assert_near(values, want, limit)


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
    problem = references.random_problem(tree, 4, 5, dtype)
    starts = None
    if name in FORESTS:
        starts = references.random_starts(tree, 4, dtype)
        starts[1, ::2] = -np.inf
        starts[2] -= 50
    call = functools.partial(
        tf_hsm.hierarchical_softmax_sample,
        tree=tree,
        num_samples=num_samples,
        seed=[3, 2**40],
        root_log_probs=starts,
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
        least = 0.995 if starts is None else 0.99
        assert np.mean(draws.numpy() == want) > least - moved
    if starts is None:
        return
    starts[0], starts[3, -1] = -np.inf, np.nan
    draws = place.run(functools.partial(call, *arguments)).numpy()
    assert (draws[[0, 3]] == -1).all() and (draws[1:3] >= 0).all()


def check_leading_shapes(place, leading):
    """Any leading shape, none and empty ones too."""
    tree = build("random")
    problem = oracle.random_problem(tree, int(np.prod(leading)), 7, np.float32)
    problem = problem.replace(
        inputs=problem.inputs.reshape([*leading, 7]), biases=None
    )
    weights, biases, inputs = arguments_of(place, problem)
    given = weights, biases, inputs, tree
    classes = np.zeros([*leading, 2], np.int64)
    log_prob = tf_hsm.hierarchical_softmax_log_prob

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            values = tf_hsm.hierarchical_softmax_log_probs(*given)
        return values, tape.gradient(values, inputs)

    calls = [
        (gradient, [tree.num_classes, 7]),
        (lambda: [log_prob(weights, biases, classes, inputs, tree)], [2]),
        (lambda: tf_hsm.hierarchical_softmax_top_k(*given, 3), [3, 3]),
        (lambda: [tf_hsm.hierarchical_softmax_sample(*given, 4, seed=0)], [4]),
    ]
    if leading:
        none = weights, biases, classes[..., :0], inputs, tree
        calls.append((lambda: [log_prob(*none)], [0]))
    # One at a time: the emulation runs one launch at a time anyway.
    for call, sizes in calls:
        for found, size in zip(place.run(call), sizes, strict=True):
            assert found.shape == [*leading, size]


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
    best = place.run(
        lambda: tf_hsm.hierarchical_softmax_top_k(*arguments, tree, 9)
    )
    assert np.isnan(best.log_probs[1]).all()
    first = place.run(lambda: top_k.best_class(*arguments, tree))
    for found in (*draws, best.classes.numpy(), first.numpy()[:, np.newaxis]):
        assert (found[1] == -1).all() and (found[[0, 2]] >= 0).all()


def check_one_root(place):
    """The log-probability of a tree's root counts for all of it."""
    tree = build("random")
    problem = oracle.random_problem(tree, 5, 5, np.float64)
    starts = references.random_starts(tree, 5, np.float64)
    call = functools.partial(
        tf_hsm.hierarchical_softmax_log_probs,
        *arguments_of(place, problem),
        tree,
    )
    values = place.run(call)
    started = place.run(functools.partial(call, root_log_probs=starts))
    np.testing.assert_allclose(started, values + starts, rtol=1e-13)


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
