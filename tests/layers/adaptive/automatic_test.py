"""The cutoffs that an AdaptiveSoftmax chooses by its cost model."""

import numpy as np
import pytest

from tests.support.adaptive_layers import make_inputs
from tf_hsm import CostModel, Tree
from tf_hsm.layers import AdaptiveSoftmax


def test_automatic_cutoffs():
    """Those of the cost model, for the batch, the width and the counts."""
    counts = 1e6 / np.arange(1, 20_001) ** 1.1
    shuffled = np.random.default_rng(0).permutation(counts)
    chosen = {}
    for name, options in {
        "default": {},
        "shuffled": {"counts": shuffled},
        "three": {"cutoffs": 3, "div_value": 2},
        "none": {"cutoffs": 0},
        "large": {"batch": 100_000},
        "calls": {"cost_model": CostModel(call=1e3)},
    }.items():
        layer = AdaptiveSoftmax(20_000, **{"counts": counts, **options})
        assert layer.cutoffs == options.get("cutoffs", "auto")
        layer.build([None, 256])
        chosen[name] = [*layer.cutoffs]
    assert chosen["shuffled"] == chosen["default"] != chosen["large"]
    assert (len(chosen["three"]), chosen["none"]) == (3, [])
    assert len(chosen["calls"]) == 1 < len(chosen["default"])
    tree = Tree.adaptive(counts, num_clusters=2, batch=64, width=32)
    layer = AdaptiveSoftmax(
        20_000, cutoffs=2, div_value=1, counts=counts, batch=64
    )
    layer.build([None, 32])
    assert layer.head_kernel.shape[0] == tree.group_offsets[1]


@pytest.mark.parametrize("num_classes", [1, 2, 3, 4, 10, 1000])
@pytest.mark.parametrize(
    "wrong",
    [
        dict.fromkeys(["call", "floor", "weight", "logit", "product"], 0.0),
        {"weight": 1e9},
        {"logit": 1e9},
        {"floor": 1e9, "product": 0.0},
        {"call": 1e9},
    ],
)
def test_wrong_calibration(num_classes, wrong):
    """No head of one class, and no empty tail, whatever the cost model."""
    for counts in (None, np.zeros(num_classes), np.eye(num_classes)[0]):
        layer = AdaptiveSoftmax(
            num_classes, counts=counts, cost_model=CostModel(**wrong)
        )
        layer.build([None, 32])
        ends = [0, *layer.cutoffs, num_classes]
        assert ends[1] >= min(num_classes, 2)
        assert (np.diff(ends) >= 1).all()
        inputs = make_inputs(1)[:, :8].repeat(4, 1)
        assert layer.predict_class(inputs).shape == [1]
