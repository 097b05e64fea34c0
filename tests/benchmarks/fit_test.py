"""The comparison of heads by how well they fit: data, measures, training."""

import json

import keras
import numpy as np
import pytest

from benchmarks.fit import baskets, heads, report, tasks, training
from tests.support.benchmarks import measure_here, run_main

_INDEX = """\
Package: app
Source: suite (1.2)
Depends: liba (>= 2), libb:any | libc, liba (<< 3)

Package: app
Depends: other

Package: tool
Pre-Depends: dpkg
Depends: liba

Package: text
"""


def _task(is_bag=False):
    rng = np.random.default_rng(3)
    contexts = rng.integers(40, size=(90, 3))
    contexts[:, 2:] = -1
    labels = (contexts[:, 0] * 7) % 40
    return tasks.prepare(
        {
            "training": (contexts, labels),
            "held_out": (contexts[:20], labels[:20]),
            "num_classes": 40,
            "is_bag": is_bag,
        }
    )


def test_table_compares_at_the_time_of_the_reference():
    runs = [
        {
            "head": head,
            "seed": 0,
            "epochs": 0,
            "tree_seconds": 0.0,
            "optimum": None,
            "curve": [
                {"steps": 100, "cpu_seconds": seconds[0], "perplexity": first},
                {"steps": 300, "cpu_seconds": seconds[1], "perplexity": last},
            ],
        }
        for head, seconds, first, last in (
            ("dense", (4.0, 16.0), 80.0, 20.0),
            ("two_level", (1.0, 3.0), 90.0, 30.0),
            ("from_counts", (2.0, 8.0), 70.0, 25.0),
        )
    ]
    rows = report.table("words", runs, "perplexity").splitlines()
    assert [row.split()[-1] for row in rows[2:5]] == ["40.0", "<=30.0", "25.0"]


def test_baskets():
    found = list(baskets.baskets(_INDEX))
    assert found == [("suite", ["liba", "libb"]), ("tool", ["liba"])]
    ids = {item: i for i, item in enumerate("abcdefghij")}
    contexts, labels = baskets.examples(
        [["a", "z", "b"], ["a"], list(ids)], ids, np.random.default_rng(0)
    )
    np.testing.assert_array_equal(labels, [0, 1, *range(10)])
    np.testing.assert_array_equal(contexts[:2, 0], [1, 0])
    assert (contexts[:2, 1:] == -1).all()
    for context, label in zip(contexts[2:], labels[2:], strict=True):
        assert len({*context, label}) == 9 and min(context) >= 0


@pytest.mark.parametrize(
    "name, is_bag",
    [("from_counts", True), *((name, False) for name in heads.NAMES)],
)
def test_answers_are_those_of_the_trained_model(name, is_bag):
    task = _task(is_bag)
    keras.utils.set_random_seed(0)
    contexts, hidden = training.body(task, 8)
    head = heads.layer(name, task, seed=0)
    candidate = heads.attach(name, head, contexts, hidden, 0.1)
    x, y = task.contexts + 1, task.labels
    # Graphs take longer to make than these steps.
    candidate.model.run_eagerly = candidate.answers.run_eagerly = True
    before = candidate.model.evaluate(x, y, verbose=0)
    candidate.model.fit(x, y, epochs=5, verbose=0)
    after = candidate.model.evaluate(x, y, verbose=0)
    assert after < before - 0.5
    log_probs, best = candidate.answers.predict([x, y[:, None]], verbose=0)
    assert -log_probs.mean() == pytest.approx(after, rel=1e-5)
    assert best.shape == (90, 10)
    # The best class has the largest log-probability.
    of_best = candidate.answers.predict([x, best[:, :1]], verbose=0)[0]
    assert (of_best >= log_probs - 1e-5).all()


def test_a_second_run_makes_nothing_twice(tmp_path, monkeypatch, capsys):
    measure_here(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    arguments = (
        "--tasks=synthetic",
        "--heads=dense_counts,from_counts",
        "--seeds=1",
        "--steps=20",
        "--width=8",
        f"--results={tmp_path}",
    )
    run_main("fit", *arguments)
    capsys.readouterr()
    first = (tmp_path / "results.json").read_text()
    runs = json.loads(first)
    assert [run["head"] for run in runs] == ["dense_counts", "from_counts"]
    assert {run["rate"] for run in runs} == {0.002}
    for run in runs:
        assert [point["steps"] for point in run["curve"]] == [10, 20]
        # It begins with the frequencies of the classes.
        assert 342 < run["curve"][0]["perplexity"] < 2700
    run_main("fit", *arguments)
    assert (tmp_path / "results.json").read_text() == first
    assert "seed 0: " not in capsys.readouterr().out
