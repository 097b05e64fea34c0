"""Draws of classes: their law, against another computation; their seeds."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tf_hsm.heads.class_sampler import SAMPLERS, ClassSampler

COUNTS = np.array([3, 0, 50, 1, 7, 7, 20, 0, 2, 900, 4, 6, 1, 1, 12, 30, 2])


def make(sampler="log_uniform", num_classes=17, num_sampled=5, power=0.75):
    counts = np.resize(COUNTS, num_classes) if sampler == "counts" else None
    return ClassSampler(sampler, num_classes, num_sampled, counts, power)


def law_of(sampler, num_classes, power=0.75):
    """A probability for each class, written out."""
    classes = np.arange(num_classes)
    counts = np.resize(COUNTS, num_classes)
    counts = np.maximum(counts, 0.5 * counts[counts > 0].min())
    law = {
        "uniform": np.ones(num_classes),
        "log_uniform": np.log((classes + 2) / (classes + 1)),
        "counts": counts**power,
    }[sampler]
    return law / law.sum()


def expected_counts(law, num_sampled):
    """min(1, a law), with a found by bisection."""
    if num_sampled >= law.size:
        return np.ones(law.size)
    low, high = 0.0, num_sampled / law.min()
    for _ in range(200):
        middle = (low + high) / 2
        if np.minimum(1, middle * law).sum() < num_sampled:
            low = middle
        else:
            high = middle
    return np.minimum(1, high * law)


def drawn(sampler, steps, seed=1):
    """The draws of many steps, `[steps, S]`."""

    @tf.function
    def draw():
        return tf.map_fn(
            lambda step: sampler.draw(seed, step),
            tf.range(steps, dtype="int64"),
        )

    return draw().numpy()


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("num_classes", [1, 2, 17, 100, 1013])
def test_expected_counts(sampler, num_classes):
    law = law_of(sampler, num_classes)
    for num_sampled in {1, num_classes // 3, num_classes - 1, num_classes}:
        if not num_sampled:
            continue
        found = make(sampler, num_classes, num_sampled)
        expected = expected_counts(law, num_sampled)
        np.testing.assert_allclose(found.expected_counts, expected, rtol=1e-9)
        assert found.expected_counts.max() <= 1
        ids = np.arange(num_classes)[::-1]
        np.testing.assert_allclose(found.expected(ids), expected[ids], 1e-9)


def cells(sampler):
    """`[S, N]`: how probable each class is in each unit of the interval."""
    law = law_of(sampler.sampler, sampler.num_classes, sampler.power)
    expected = expected_counts(law, sampler.num_sampled)
    order = np.argsort(-law, kind="stable")
    ends = np.cumsum(expected[order])
    begins = ends - expected[order]
    units = np.arange(sampler.num_sampled)[:, np.newaxis]
    overlap = np.minimum(ends, units + 1) - np.maximum(begins, units)
    found = np.zeros([sampler.num_sampled, sampler.num_classes])
    found[:, order] = np.maximum(overlap, 0)
    return found


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_fit_the_law(name):
    """Chi-squared, over the classes of each unit of the interval."""
    steps, sampler = 6_000, make(name)
    classes, probability = drawn(sampler, steps), cells(sampler)
    assert classes.shape == (steps, 5) and classes.dtype == np.int64
    statistic = freedom = 0
    for unit in range(5):
        observed = np.bincount(classes[:, unit], minlength=17)
        possible = probability[unit] > 1e-9
        assert not observed[~possible].any()
        mean = steps * probability[unit][possible]
        statistic += ((observed[possible] - mean) ** 2 / mean).sum()
        freedom += possible.sum() - 1
    p_value = float(tf.math.igammac(freedom / 2, statistic / 2))
    assert 1e-3 < p_value < 1 - 1e-3
    # One class is drawn as if another had not been.
    table = np.zeros([17, 17])
    np.add.at(table, (classes[:, 2], classes[:, 3]), 1)
    mean = steps * np.outer(probability[2], probability[3])
    possible = mean > 0
    statistic = ((table - mean)[possible] ** 2 / mean[possible]).sum()
    rows, columns = ((probability[unit] > 0).sum() - 1 for unit in (2, 3))
    freedom = possible.sum() - 1
    assert freedom == (rows + 1) * (columns + 1) - 1
    assert float(tf.math.igammac(freedom / 2, statistic / 2)) > 1e-3


def test_what_is_expected_once_is_drawn_once():
    sampler = make("counts", num_sampled=8)
    certain = np.flatnonzero(sampler.expected_counts == 1)
    assert 1 < certain.size < 8
    for classes in drawn(sampler, 50):
        assert all(np.sum(classes == c) == 1 for c in certain)
    every = drawn(make("log_uniform", num_sampled=17), 5)
    np.testing.assert_array_equal(np.sort(every), [np.arange(17)] * 5)


def test_draws_depend_on_seed_and_step_alone():
    sampler, other = make(num_sampled=4), make(num_sampled=4)
    known = {}
    for seed in (0, 1, 2**40):
        classes = drawn(sampler, 30, seed)
        for step in (29, 3):
            again = other.draw(seed, tf.constant(step))
            np.testing.assert_array_equal(again, classes[step])
        known[seed] = classes
        assert len(np.unique(classes, axis=0)) > 15
    assert np.mean(known[0] == known[1]) < 0.8
    assert np.mean(known[0] == known[2**40]) < 0.8


@pytest.mark.parametrize(
    "counts", [[0, 0, 0, 0], [1e-300, 1, 1e300, 0], [2**61, 1, 0, 5]]
)
@pytest.mark.parametrize("power", [0.0, 1.0, 3.0])
def test_extreme_counts(counts, power):
    """Each class has a positive expected count, whose logarithm is finite."""
    sampler = dataclasses.replace(
        make(num_classes=4, num_sampled=2),
        sampler="counts",
        counts=np.array(counts),
        power=power,
    )
    expected = sampler.expected_counts
    assert np.all(expected > 0) and np.all(expected <= 1)
    np.testing.assert_allclose(expected.sum(), 2, rtol=1e-12)
    classes = drawn(sampler, 20)
    assert classes.min() >= 0 and classes.max() < 4
