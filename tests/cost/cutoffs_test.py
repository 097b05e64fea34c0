"""The cutoffs against all cutoffs."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from tests.support.pairs import all_pairs
from tf_hsm.cost import cutoffs as cost_cutoffs
from tf_hsm.cost.cluster_costs import ClusterCosts
from tf_hsm.cost.cutoffs import cutoffs
from tf_hsm.cost.model import CostModel

MODELS = {
    "default": CostModel(),
    "paper": CostModel(call=0.01, floor=0.02, weight=0, logit=0, product=1e-7),
    "no_floor": CostModel(call=0, floor=0, weight=0, logit=1e-6, product=0),
    "floor": CostModel(
        call=0.1, floor=1.0, weight=1e-6, logit=1e-5, product=1e-7
    ),
    "weights_only": CostModel(call=0, floor=0, weight=1e-6, logit=0, product=0),
    "zero": CostModel(call=0, floor=0, weight=0, logit=0, product=0),
    "huge_call": CostModel(
        call=1e9, floor=0, weight=1e-7, logit=1e-6, product=1e-8
    ),
    "huge_floor": CostModel(
        call=0, floor=1e9, weight=1e-7, logit=1e-6, product=1e-8
    ),
    "huge": CostModel(call=1e9, floor=1e9, weight=1e9, logit=1e9, product=1e9),
}


def tree_rows(tail, size, examples):
    """Scored and touched rows of a tail, as if all groups were alike."""
    if tail == "flat":
        return size, size
    if tail == "two_level":
        root = math.sqrt(size)
        return 2 * root, root * min(1, examples) + root * min(root, examples)
    scored = touched = 0
    groups = 1
    while size > 1:
        fanout = min(tail, size)
        scored += fanout
        touched += fanout * min(groups, examples)
        groups, size = groups * fanout, size / fanout
    return scored, touched


def plain_cost(counts, ends, setting):
    """Milliseconds of a step, cluster by cluster, as the docstrings say."""
    batch, width, div_value, tail, model = setting
    share = np.asarray(counts, float)
    share = share / share.sum() if share.any() else share + 1 / share.size
    num_tails = len(ends)

    def group(rows, touched, examples, width):
        logits = rows * examples
        products = logits * (model.logit + model.product * width)
        return model.weight * touched * width + max(model.floor, products)

    head = ends[0] if ends else len(counts)
    ms = model.call + group(head + num_tails, head + num_tails, batch, width)
    for j, (begin, end) in enumerate(itertools.pairwise([*ends, len(counts)])):
        tail_width = int(width // div_value ** (j + 1))
        examples = batch * share[begin:end].sum()
        rows = tree_rows(tail, end - begin, examples)
        ms += group(*rows, examples, tail_width)
        if tail_width < width:
            ms += 2 * model.call
            ms += group(tail_width, tail_width, examples, width)
    return ms


def least_by_trying(counts, numbers, least_head, setting):
    return min(
        plain_cost(counts, list(ends), setting)
        for num_tails in numbers
        for ends in itertools.combinations(
            range(least_head, len(counts)), num_tails
        )
    )


def random_counts(rng, size):
    kind = rng.integers(4)
    counts = [
        rng.integers(0, 4, size),
        rng.integers(0, 1000, size),
        1000 // np.arange(1, size + 1) ** 2,
        np.exp(rng.uniform(-20, 0, size)),
    ][kind]
    return np.sort(counts)[::-1]


def draw_setting(rng, tail="flat"):
    model = MODELS[rng.choice([*MODELS])]
    if rng.random() < 0.5:
        names = [field.name for field in dataclasses.fields(CostModel)]
        constants = 10.0 ** rng.uniform(-8, 0, len(names))
        model = CostModel(**dict(zip(names, constants, strict=True)))
    batch, width = (int(n) for n in rng.integers(1, [3000, 600]))
    return batch, width, float(rng.choice([1, 1.5, 4])), tail, model


def check(ends, num_classes, least_head):
    assert all(type(end) is int for end in ends)
    edges = [0, *ends, num_classes]
    assert all(a < b for a, b in itertools.pairwise(edges)), edges
    assert not ends or ends[0] >= least_head


@pytest.mark.parametrize("parts", [2, 8])
@pytest.mark.parametrize(
    ("tail", "seed"),
    [("flat", seed) for seed in range(40)]
    + [(tail, seed) for tail in ("two_level", 2, 3, 100) for seed in range(5)],
)
def test_best_of_all_cutoffs(tail, seed, parts, monkeypatch):
    """With few and coarse first ranges, which are then cut up."""
    monkeypatch.setattr(cost_cutoffs, "_FIRST_RANGES", parts // 2)
    monkeypatch.setattr(cost_cutoffs, "_PARTS", parts)
    rng = np.random.default_rng(seed)
    counts = random_counts(rng, int(rng.integers(3, 13)))
    setting = draw_setting(rng, tail)
    batch, width, div_value, _, model = setting
    least_head = int(rng.integers(2, counts.size))
    most = counts.size - least_head
    while most and width // div_value**most < 1:
        most -= 1
    for numbers in [range(most + 1), [int(rng.integers(most + 1))]]:
        ends = cutoffs(
            counts,
            numbers,
            batch=batch,
            width=width,
            div_value=div_value,
            tail=tail,
            min_head=least_head,
            cost_model=model,
        )
        check(ends, counts.size, least_head)
        assert len(ends) in numbers
        cost = plain_cost(counts, ends, setting)
        least = least_by_trying(counts, numbers, least_head, setting)
        assert cost == pytest.approx(least, rel=1e-9, abs=1e-30)
        costs = ClusterCosts.of(counts, batch, width, div_value, tail, model)
        assert costs.milliseconds(ends) == pytest.approx(cost, rel=1e-9)


@pytest.mark.parametrize(
    "model, div_value, tail",
    all_pairs([*MODELS], [1, 4.0], ["flat", "two_level", 2, 100]),
)
def test_never_degenerate(model, div_value, tail):
    rng = np.random.default_rng(1)
    for size in (1, 2, 3, 4, 5, 10, 400):
        for counts in (
            np.zeros(size, int),
            np.ones(size),
            np.append(np.zeros(size - 1), 5)[::-1],
            np.sort(rng.integers(0, 3, size))[::-1],
            1e-300 * 0.5 ** np.arange(size),
        ):
            ends = cutoffs(
                counts,
                batch=64,
                width=100,
                div_value=div_value,
                tail=tail,
                cost_model=MODELS[model],
            )
            check(ends, size, 2)
            assert bool(ends) == (size > 2)
            if size == 400:
                assert ends[0] >= 20


def test_auto_takes_no_narrow_tails():
    counts = 1 / np.arange(1, 100_001)
    model = CostModel(call=0)
    for width, most in ((1024, 3), (512, 3), (256, 2), (20, 1), (3, 0)):
        ends = cutoffs(
            counts, batch=64, width=width, div_value=4, cost_model=model
        )
        assert len(ends) == most


def test_scale_and_ties():
    counts = np.sort(np.random.default_rng(0).integers(0, 9, 5000))[::-1]
    ends = cutoffs(counts, batch=100, width=64)
    assert ends == cutoffs(counts * 1024, batch=100, width=64)
    assert ends == cutoffs(counts * 2.0**-1000, batch=100, width=64)
    assert ends == cutoffs(counts.tolist(), batch=100, width=64)
    assert cutoffs([0] * 99, batch=9, width=9) == cutoffs(
        [7] * 99, batch=9, width=9
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": [1, 2, 3]}, r"counts\[1\] is 2, more than the 1 before"),
        ({"counts": []}, "counts is empty"),
        ({"counts": [3, np.nan]}, "count of class 1 is nan"),
        ({"num_clusters": "many"}, "num_clusters is 'many'"),
        ({"num_clusters": -1}, "num_clusters is -1"),
        ({"num_clusters": 1.5}, "num_clusters must be an integer"),
        ({"num_clusters": []}, "num_clusters is empty"),
        ({"num_clusters": 9}, "num_clusters is 9; of 10 classes .* at most 8"),
        ({"num_clusters": [1, 9]}, "num_clusters is 9"),
        (
            {"num_clusters": 4, "min_head": 7},
            "at least 7 are the head's, so it must be at most 3",
        ),
        (
            {"num_clusters": 4, "div_value": 4},
            r"64 / 4\^4 leaves the last tail no width",
        ),
        ({"num_clusters": 8, "div_value": 1e300}, "no width"),
        ({"batch": 0}, "batch is 0"),
        ({"width": 0.5}, "width must be an integer"),
        ({"div_value": 0.9}, "div_value is 0.9"),
        ({"div_value": math.nan}, "div_value is nan"),
        ({"div_value": math.inf}, "div_value is inf"),
        ({"div_value": "4"}, "div_value is '4'"),
        ({"tail": "deep"}, "tail is 'deep'"),
        ({"tail": 1}, "tail is 1"),
        ({"tail": [10, 10]}, "tail must be an integer"),
        ({"min_head": 1}, "min_head is 1"),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"counts": range(10, 0, -1), "batch": 8, "width": 64}
    with pytest.raises(ValueError, match=message):
        cutoffs(**(arguments | changes))


def test_cost_model_must_be_one():
    with pytest.raises(TypeError, match="cost_model must be a CostModel"):
        cutoffs([2, 1, 1], batch=8, width=8, cost_model={"call": 1})
