"""The cost model."""

import math

import numpy as np
import pytest

from tf_hsm.cost.model import CostModel


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -1e-9, 2e9, "1", None, 1j]
)
@pytest.mark.parametrize(
    "name", ["call", "floor", "weight", "logit", "product"]
)
def test_bad_constants(name, value):
    with pytest.raises(ValueError, match=f"{name} of the cost model is"):
        CostModel(**{name: value})


def test_milliseconds_broadcast():
    model = CostModel(
        call=1.0, floor=10.0, weight=0.5, logit=0.25, product=0.125
    )
    assert model.milliseconds(2, 3, width=4) == 1 + 0.5 * 8 + 10
    assert model.milliseconds(20, 3, width=4) == 1 + 0.5 * 80 + 60 * (
        0.25 + 0.5
    )
    ms = model.milliseconds(np.array([2, 20])[:, np.newaxis], [3, 0], width=4)
    np.testing.assert_array_equal(ms, [[15, 15], [86, 51]])
