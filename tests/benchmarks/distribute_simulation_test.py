"""Scaling on paper: the formulae against plans of trees that do exist."""

import numpy as np
import pytest

from benchmarks.distribute_simulation import drawn, on_paper
from tests.support import pictures
from tests.support.benchmarks import run_main
from tf_hsm import distribute
from tf_hsm.tree import Tree


@pytest.mark.parametrize("fanout, depth", [(40, 2), (11, 3), (6, 4)])
@pytest.mark.parametrize("count", [1, 3, 8, 64])
@pytest.mark.parametrize("batch", [5, 3000])
@pytest.mark.parametrize("kind", ["devices", "replicas"])
def test_formulae_are_those_of_a_plan(fanout, depth, count, batch, kind):
    tree = Tree.balanced(fanout**depth, fanout)
    plan = distribute.plan(
        tree, **{kind: count}, batch=batch, width=7, top=1, bandwidth=1e9
    )
    assert plan.layout.num_units == fanout
    point = on_paper.point(fanout, depth, count, plan.step)
    cost = plan.cost
    assert point.num_bytes == pytest.approx(max(s.bytes for s in cost.shards))
    assert point.top == pytest.approx(cost.top.milliseconds)
    assert point.network == pytest.approx(cost.wire_milliseconds)
    assert point.mean == pytest.approx(
        np.mean([s.milliseconds for s in cost.shards])
    )
    # The slowest has the largest work of a step, not the mean of its own.
    assert point.slowest >= max(s.milliseconds for s in cost.shards) - 1e-9
    result = plan.simulate(steps=300)
    assert point.slowest == pytest.approx(
        result.milliseconds.max(1).mean(), rel=0.06
    )
    assert point.total == pytest.approx(
        result.step_milliseconds.mean(), rel=0.06
    )
    worst = drawn.waiting(plan, "worst", None, 30)
    assert point.total_of_worst == pytest.approx(worst.milliseconds, rel=0.05)


def test_fanouts():
    assert on_paper.fanout_of(10**9, 3) == 1000
    assert on_paper.fanout_of(10**9 + 1, 3) == 1001
    assert on_paper.fanout_of(10**9, 2) == 31623
    assert on_paper.fanout_of(2, 2) == 2


def test_it_prints_tables_and_draws(tmp_path, capsys, monkeypatch):
    path = tmp_path / "new" / "simulation.png"
    with pictures.written(monkeypatch) as figures:
        run_main(
            "distribute_simulation",
            "--num_classes=1000",
            "--fanout=0",
            "--paper_classes=1000",
            "--width=8",
            "--batches=20,100",
            "--steps=2",
            "--max_shards=5",
            f"--plot={path}",
        )
    pictures.check(*figures)
    output = capsys.readouterr().out
    assert "the top has 32 rows, 32 subtrees are spread" in output
    assert "| labels | batch | 1 | 2 | 4 |" in output
    for labels in drawn.LABELS:
        for batch in (20, 100):
            assert output.count(f"| {labels} | {batch} | ") == (
                3 if labels == "worst" else 4
            )
    assert "| worst | 100 | 1.00 | 2.00 | 4.00 |" in output
    assert "1,024 classes in 2 levels of groups of 32" in output
    assert "1,000 classes in 3 levels of groups of 10" in output
    assert "on paper, 3 levels" in pictures.texts(*figures)
    assert path.read_bytes().startswith(b"\x89PNG")
