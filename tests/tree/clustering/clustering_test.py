"""What trees from vectors are made by: halves, and exchanges of pairs."""

import itertools

import numpy as np
import pytest

from tests.support.clusterings import normal, spectrum, within
from tf_hsm.tree.clustering import pair_exchange, two_means


@pytest.mark.parametrize("num_left", [1, 3, 4, 6])
def test_split_is_a_minimum_of_two_means(num_left):
    points = normal(40 * 7, 3).astype(np.float32)
    clusters = two_means.TwoMeans(points, 0, 100)
    starts = 7 * np.arange(40)
    left = starts, np.full(40, num_left)
    right = starts + num_left, np.full(40, 7 - num_left)
    labels = np.arange(7) >= num_left
    before = [within(points[p], labels) for p in clusters.order.reshape(40, 7)]
    clusters.split(left, right, improve=True)
    after = [within(points[p], labels) for p in clusters.order.reshape(40, 7)]
    assert np.all(np.less_equal(after, np.add(before, 1e-5)))
    assert np.mean(after) < 0.95 * np.mean(before)
    clusters.split(left, right)
    num_optimal = 0
    for run, members in enumerate(clusters.order.reshape(40, 7)):
        assert sorted(members) == list(range(7 * run, 7 * run + 7))
        here = points[members]
        # No other choice is nearer to the two means.
        means = here[:num_left].mean(axis=0), here[num_left:].mean(axis=0)
        costs = [((here - mean) ** 2).sum(axis=1) for mean in means]
        gain = costs[1] - costs[0]
        assert gain[:num_left].min() >= gain[num_left:].max() - 1e-5
        optimum = min(
            within(here, ~np.isin(np.arange(7), chosen))
            for chosen in itertools.combinations(range(7), num_left)
        )
        num_optimal += within(here, labels) <= optimum + 1e-5
    assert num_optimal >= 8  # of 40; by chance at most 6


def test_largest_takes_the_first_of_ties():
    rng = np.random.default_rng(0)
    for count in range(1, 9):
        scores = rng.integers(0, 3, (50, 9)).astype(np.float32)
        marked = two_means._largest(scores, count)
        for row, marks in zip(scores, marked, strict=True):
            first = np.argsort(-row, kind="stable")[:count]
            assert set(np.flatnonzero(marks)) == set(first)


def test_matching_is_disjoint_maximal_and_near():
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 8, 31):
        distances = rng.random((5, count, count))
        distances += distances.transpose(0, 2, 1)
        distances[rng.random(distances.shape) < 0.3] = np.inf
        distances = np.maximum(distances, distances.transpose(0, 2, 1))
        distances[:, np.arange(count), np.arange(count)] = np.inf
        found = pair_exchange._matching(distances.copy()).T.tolist()
        for family, matrix in enumerate(distances):
            free, greedy = set(range(count)), []
            pairs = itertools.combinations(range(count), 2)
            for a, b in sorted(pairs, key=lambda p: matrix[p]):
                if {a, b} <= free and np.isfinite(matrix[a, b]):
                    greedy.append([family, a, b])
                    free -= {a, b}
            assert sorted(p for p in found if p[0] == family) == sorted(greedy)


def test_exchange_makes_groups_more_compact():
    vectors = spectrum(2000, 8)
    results = []
    for rounds in (0, 5, 30):
        clusters = two_means.TwoMeans(vectors.astype(np.float32), 0, 30)
        starts = 50 * np.arange(40)[None]
        sizes = np.full((1, 40), 50)
        list(pair_exchange.exchange(clusters, starts, sizes, rounds))
        labels = np.empty(2000, int)
        labels[clusters.order] = np.repeat(np.arange(40), 50)
        results.append(within(vectors, labels))
    assert results[1] < 0.8 * results[0] and results[2] < 0.95 * results[1]
