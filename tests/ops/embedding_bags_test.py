"""Steps whose inputs are means or sums of rows of a variable."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.pairs import all_pairs
from tests.support.training import (
    COUNT,
    assert_near,
    assert_same,
    in_place,
    looked_up,
    states,
    wide_problem,
    with_vectors,
)
from tests.support.update_rules import OPTIMIZERS, built

TREE = tf_hsm.Tree.huffman(1 / np.arange(1, 61))
BATCH = 70
PROBLEM = wide_problem(TREE, (BATCH, 20))


def step(*args, **options):
    """Makes a step for the sum of upstream * losses; returns the losses."""
    return looked_up(*args, **options)[0]


def draw_bags(seed=0, batch=BATCH, count=COUNT):
    """Bags of 0 to 6 rows, some of them twice in a bag; and weights."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(7, size=batch)
    sizes[:1] = 0
    ids = (count * rng.random(sizes.sum()) ** 3).astype(np.int64)
    bags = tf.RaggedTensor.from_row_lengths(ids, sizes)
    weights = rng.integers(1, 9, size=ids.size) / 4
    return bags, bags.with_flat_values(weights)


def composed(variables, problem, bags, combiner, weights, optimizers):
    """The step of `step` in stock TensorFlow but for that of the tree."""
    w, b, vectors = variables
    factors = np.ones(bags.flat_values.shape[0])
    if weights is not None:
        factors = weights.flat_values.numpy()
    owners = bags.value_rowids().numpy()
    batch = problem.labels.size
    totals = np.bincount(owners, factors, minlength=batch)
    if combiner == "mean":
        factors = factors / totals[owners]
    wide = np.float64 if vectors.dtype == tf.float64 else np.float32
    rows = tf.cast(tf.gather(vectors, bags.flat_values), wide)
    rows *= factors[:, None].astype(wide)
    inputs = tf.math.unsorted_segment_sum(rows, owners, batch)
    problem = problem.replace(inputs=inputs)
    given = (w, b), problem, TREE, optimizers[0]
    losses, dx = in_place(*given, stochastic_rounding=False)
    dx = dx.numpy().astype(np.float64)
    # Summed in float64: what is rounded once in the op is rounded once here.
    sums = np.zeros(vectors.shape)
    np.add.at(sums, bags.flat_values.numpy(), factors[:, None] * dx[owners])
    touched = np.unique(bags.flat_values)
    gradient = tf.IndexedSlices(
        tf.cast(sums[touched], wide), touched, tf.constant(vectors.shape)
    )
    optimizers[1].apply([gradient], [vectors])
    return losses


@pytest.mark.parametrize(
    "rule, dtype, combiner, has_weights, shape, count",
    all_pairs(
        list(OPTIMIZERS),
        [np.float64, np.float32, ml_dtypes.bfloat16],
        ["mean", "sum"],
        [False, True],
        # Vectors of several work items, of one, and too many to be summed.
        [(BATCH, 20), (2100, 9)],
        [COUNT, 500, 5000],
    ),
)
def test_as_look_up_step_and_update(
    rule, dtype, combiner, has_weights, shape, count
):
    problem = wide_problem(TREE, shape)
    bags, weights = draw_bags(batch=problem.labels.size, count=count)
    weights = weights if has_weights else None
    one, several = (with_vectors(problem, dtype, count=count) for _ in range(2))
    losses = step(
        one,
        problem,
        TREE,
        built(rule, one),
        bags,
        combiner=combiner,
        index_weights=weights,
        stochastic_rounding=False,
    )
    optimizers = built(rule, several[:2]), built(rule, several[2:])
    want = composed(several, problem, bags, combiner, weights, optimizers)
    tolerance = {np.float64: 1e-9, np.float32: 2e-4}.get(dtype, 3e-2)
    assert_near(
        [losses.numpy(), *(v.numpy().astype(np.float64) for v in one)],
        [want.numpy(), *(v.numpy().astype(np.float64) for v in several)],
        tolerance,
    )


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_bags_of_one_are_indices(rule):
    """To the bit, whatever the combiner, and so are bags with a weight of 1."""
    indices = (np.arange(BATCH) * 7) % COUNT
    bags = tf.RaggedTensor.from_row_lengths(indices, [1] * BATCH)
    ones = bags.with_flat_values(np.ones(BATCH))
    runs = []
    for options in (
        {"indices": indices},
        {"indices": bags, "combiner": "mean"},
        {"indices": bags, "combiner": "sum"},
        {"indices": bags, "index_weights": ones},
        {"indices": bags, "index_weights": ones.flat_values},
    ):
        variables = with_vectors(PROBLEM)
        optimizer = built(rule, variables)
        losses = step(variables, PROBLEM, TREE, optimizer, **options)
        runs.append([losses.numpy(), states(optimizer, variables)])
    for run in runs[1:]:
        assert_same(run, runs[0])


def test_ignored_labels_and_empty_bags():
    """Their vectors do not move; a bag of nothing is an input of zeros."""
    bags = tf.ragged.constant([[3, 3], [], [5], [6, 7]], dtype=tf.int32)
    problem = wide_problem(TREE, (4, 20))
    ignored = int(problem.labels[3])
    problem = problem.replace(labels=np.array([1, 2, 3, ignored]))
    variables = with_vectors(problem)
    before = variables[2].numpy()
    inputs = np.stack([before[3], 0 * before[3], before[5], before[6]])
    want = tf_hsm.hierarchical_softmax_loss(
        *variables[:2], problem.labels, inputs, TREE, ignore_class=ignored
    ).numpy()
    optimizer = built("sgd", variables)
    losses = step(
        variables, problem, TREE, optimizer, bags, ignore_class=ignored
    )
    np.testing.assert_allclose(losses, want, rtol=1e-6)
    moved = np.flatnonzero((variables[2].numpy() != before).any(axis=1))
    np.testing.assert_array_equal(moved, [3, 5])


def test_weights_that_cancel_make_zeros():
    bags = tf.ragged.constant([[3, 4]])
    problem = wide_problem(TREE, (1, 20))
    variables = with_vectors(problem)
    before = variables[2].numpy()
    losses = step(
        variables,
        problem,
        TREE,
        built("sgd", variables),
        bags,
        index_weights=[1.0, -1.0],
    )
    assert np.isfinite(losses).all()
    assert_same(variables[2].numpy(), before)


def test_in_a_function():
    bags, weights = draw_bags()

    def run(wrap):
        variables = with_vectors(PROBLEM)
        given = variables, PROBLEM, TREE, built("adagrad", variables)
        call = wrap(lambda b, w: step(*given, b, index_weights=w))
        return call(bags, weights), states(given[-1], variables)

    assert_same(run(lambda f: f), run(tf.function))


def test_no_labels():
    problem = wide_problem(TREE, (0, 20))
    bags = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int64), [0])
    variables = with_vectors(problem)
    optimizer = built("sgd", variables)
    assert step(variables, problem, TREE, optimizer, bags).shape == [0]
