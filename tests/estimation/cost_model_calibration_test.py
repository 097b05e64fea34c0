"""The calibration of the cost model, against models that are known."""

import itertools

import numpy as np
import pytest

from tf_hsm.cost.cutoffs import cutoffs
from tf_hsm.cost.model import CostModel
from tf_hsm.estimation import cost_model_calibration
from tf_hsm.estimation.cost_model_calibration import calibrate_cost_model

TRUTHS = [
    CostModel(call=0.5, floor=0, weight=1e-6, logit=1e-6, product=5e-8),
    CostModel(call=0.1, floor=0.5, weight=1e-6, logit=0, product=5e-8),
    CostModel(call=0, floor=2.0, weight=0, logit=3e-6, product=1e-9),
]


@pytest.mark.parametrize("truth", TRUTHS)
def test_calibrate_finds_the_constants(truth, monkeypatch):
    timed = []

    def time_it(rows, examples, width):
        timed.append((rows, examples, width))
        return float(truth.milliseconds(rows, examples, width=width))

    monkeypatch.setattr(cost_model_calibration, "_median_milliseconds", time_it)
    model = calibrate_cost_model(256)
    np.testing.assert_allclose(
        [*vars(model).values()], [*vars(truth).values()], rtol=1e-6, atol=1e-12
    )
    assert len(set(timed)) == len(timed)
    assert {case[2] for case in timed} == {32, 256}


@pytest.mark.parametrize("truth", TRUTHS)
def test_calibrate_survives_noise(truth, monkeypatch):
    rng = np.random.default_rng(0)

    def time_it(rows, examples, width):
        slowed = 20 if rng.random() < 0.1 else 1
        ms = truth.milliseconds(rows, examples, width=width)
        return float(ms * slowed * rng.uniform(0.9, 1.2))

    monkeypatch.setattr(cost_model_calibration, "_median_milliseconds", time_it)
    model = calibrate_cost_model(512)
    for *case, width in itertools.product(
        [500, 40_000], [10, 2000], [100, 500]
    ):
        found, true = (
            m.milliseconds(*case, width=width) for m in (model, truth)
        )
        assert 0.5 < found / true < 2, (case, width)


def test_calibrate_times_the_op(monkeypatch):
    monkeypatch.setattr(cost_model_calibration, "_ROWS", (1, 50))
    monkeypatch.setattr(cost_model_calibration, "_EXAMPLES", (20,))
    model = calibrate_cost_model(4)
    assert model.milliseconds(50, 20, width=4) > 0
    assert cutoffs(range(9, 0, -1), batch=8, width=4, cost_model=model)
    with pytest.raises(ValueError, match="width is 0"):
        calibrate_cost_model(0)
