"""The best classes, at a place where the kernels run, against a sort."""

import functools

import ml_dtypes
import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import masks, references
from tests.support.answer_cases import arguments_of
from tests.support.places import HERE
from tests.support.references import all_starts, build
from tf_hsm.ops import top_k

# The types of weights of which GPUs find the best classes, and how many.
SEARCHED = [np.float32, ml_dtypes.bfloat16, np.float16]
MOST = 1024


def some_k(place, tree):
    """Numbers of best classes: one, a few, and as many as a place finds."""
    most = tree.num_classes if place is HERE else min(tree.num_classes, MOST)
    return sorted({1, min(5, most), most})


def functions(sigmoids):
    """Returns what gives all log-probabilities, and what finds the best."""
    if not sigmoids:
        return (
            tf_hsm.hierarchical_softmax_log_probs,
            tf_hsm.hierarchical_softmax_top_k,
        )

    def log_probs(weights, biases, inputs, tree, allowed=None):
        every = np.tile(np.arange(tree.num_classes), [len(inputs), 1])
        return tf_hsm.label_tree_log_prob(
            weights, biases, every, inputs, tree, allowed=allowed
        )

    return log_probs, tf_hsm.label_tree_top_k


def tied(ties, problem):
    """A problem by which many classes are equal, or none is."""
    rng = np.random.default_rng(0)
    weights, biases = problem.weights, problem.biases
    if ties == "zero":
        return problem.replace(weights=0 * weights, biases=0 * biases)
    if ties == "equal rows":
        which = rng.integers(min(2, len(weights)), size=len(weights))
        return problem.replace(weights=weights[which], biases=biases[which])
    if ties == "integers":
        whole = rng.integers(-1, 2, size=weights.shape).astype(weights.dtype)
        inputs = np.round(2 * problem.inputs)
        return problem.replace(weights=whole, biases=None, inputs=inputs)
    return problem


def check_top_k(
    place,
    name,
    dtype,
    limit=None,
    ties=None,
    chance=None,
    lists="shared",
    parameter=tf.Variable,
    batch=7,
    sigmoids=False,
):
    """The best classes have the bits and the order of a sort of all classes.

    Args:
        place: A `Place`.
        name: A name of `references.NAMES`.
        dtype: The type of the weights.
        limit: "bounds" or "threshold", to leave out classes; or None.
        ties: Which classes are equal: see `tied`.
        chance: The chance of a class to be allowed; None for no lists of
            allowed classes. Draws are allowed classes too.
        lists: "shared" by all inputs, or "of each".
        parameter: Makes the weights.
        batch: The number of inputs, at least 6.
        sigmoids: Whether the tree is a label tree.
    """
    tree = build(name)
    problem = references.random_problem(tree, batch, 5, dtype)
    arguments = arguments_of(place, tied(ties, problem), parameter)
    log_probs, find = functions(sigmoids)
    mask, options = np.ones([1, tree.num_classes], bool), {}
    if chance is not None:
        size = 1 if lists == "shared" else batch
        mask = masks.random_mask(tree, chance, size)
        options["allowed"] = masks.lists_of(mask)
    for starts in all_starts(tree, batch, dtype):
        of_roots, bounds = {}, None
        if starts is not None:
            if place is not HERE:
                # CPUs find classes without probability in any order.
                starts[3, : tree.num_roots // 2] = starts[4] = -np.inf
            of_roots["root_log_probs"] = starts
        values = place.run(
            functools.partial(log_probs, *arguments, tree, **of_roots)
        ).numpy()
        if limit is not None:
            # At a good class, above the best, below the worst, at none.
            at = np.arange(batch)
            bounds = np.sort(values)[at, -1 - at % min(12, tree.num_classes)]
            bounds[1::4] = values[1::4].max(-1) + 1e-2
            bounds[2::4] = values[2::4].min(-1) - 1
            bounds[[3, 4, 5]] = np.nan, -np.inf, np.inf
        if limit == "bounds":
            options["bounds"] = bounds
        elif limit == "threshold":
            # Between probabilities, not at one, whose logarithm rounds.
            bounds = np.nan_to_num(bounds.astype(np.float64)) - 1e-3
            options["threshold"] = np.exp(np.minimum(bounds, 1))
        for k in some_k(place, tree):
            search = functools.partial(find, *arguments, tree, k)
            search = functools.partial(search, return_pruned=True, **of_roots)
            found = place.run(functools.partial(search, **options))
            assert found.classes.dtype == tf.int64
            assert not found.num_pruned.numpy().any()
            wanted = reference.ranked(values, k, mask, bounds)
            for one, other in zip(found, wanted, strict=False):
                np.testing.assert_array_equal(one, other)
        if sigmoids and chance is not None:
            found = log_probs(*arguments, tree, allowed=options["allowed"])
            wanted = np.where(mask, values, -np.inf)
            np.testing.assert_array_equal(found, wanted)
        if sigmoids or (starts is None and tree.num_roots > 1):
            continue
        if not options and starts is None:
            best = place.run(lambda: top_k.best_class(*arguments, tree))
            np.testing.assert_array_equal(best, reference.ranking(values)[:, 0])
        if chance is not None:
            draw = functools.partial(
                tf_hsm.hierarchical_softmax_sample, *arguments, tree, 4, seed=1
            )
            allowed = options["allowed"]
            draws = place.run(
                functools.partial(draw, allowed=allowed, **of_roots)
            )
            for classes, row in zip(
                draws.numpy(), mask & (values > -np.inf), strict=True
            ):
                is_right = row[classes] if row.any() else classes == -1
                assert is_right.all()
