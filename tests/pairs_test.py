"""The cases that tests choose of products of parameters."""

import itertools

import pytest

from tests.support.pairs import all_pairs


@pytest.mark.parametrize("sizes", [(3, 4, 2, 5), (1, 7, 7), (2, 2, 2, 2, 2)])
def test_any_two_values_meet(sizes):
    parameters = [[(i, j) for j in range(n)] for i, n in enumerate(sizes)]
    found = all_pairs(*parameters)
    met = {pair for case in found for pair in itertools.combinations(case, 2)}
    for one, other in itertools.combinations(parameters, 2):
        assert met >= set(itertools.product(one, other))
    largest, second = sorted(sizes)[:-3:-1]
    assert len(found) < 2 * largest * second


def test_few_parameters():
    assert all_pairs() == [()]
    assert all_pairs("abc") == [("a",), ("b",), ("c",)]
    assert sorted(all_pairs("ab", "xy")) == [*itertools.product("ab", "xy")]
