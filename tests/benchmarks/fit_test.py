"""The comparison of heads by how well they fit: data, measures, training."""

import json

import keras
import numpy as np
import pytest

from benchmarks.fit import (
    baskets,
    heads,
    measures,
    report,
    tasks,
    texts,
    training,
)
from tests.support import pictures
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


def test_measures_of_answers():
    best = np.array([[5, 1, 2], [5, 1, 2], [5, 1, 2], [5, 1, 2]])
    found = measures.of_answers(np.log([0.5, 0.5, 0.25, 1]), best, [5, 2, 9, 1])
    assert found["perplexity"] == pytest.approx(2)
    assert (found["top1"], found["top10"]) == (0.25, 0.75)
    assert found["ndcg10"] == pytest.approx(
        (1 + 1 / 2 + 0 + 1 / np.log2(3)) / 4
    )


def test_points():
    assert measures.points(70, [25, 300]) == [10, 20, 25, 30, 60, 70]


def test_measures_after_equal_time():
    run = {
        "tree_seconds": 1.0,
        "curve": [
            {"steps": 10, "cpu_seconds": 1.0, "perplexity": 100.0, "top1": 0.1},
            {"steps": 100, "cpu_seconds": 4.0, "perplexity": 25.0, "top1": 0.3},
        ],
    }

    def at(seconds, name="perplexity"):
        return measures.at_seconds(run, seconds, name)

    assert at(1.9) == (None, False)
    assert at(2.0) == (pytest.approx(100), False)
    # Half of the way from log 1 to log 4, and from log 100 to log 25.
    assert at(3.0) == (pytest.approx(50), False)
    assert at(3.0, "top1") == (pytest.approx(0.2), False)
    assert at(5.1) == (25, True)
    assert measures.elapsed(run, 100) == 5
    assert measures.elapsed(run, 50) is None


def test_table_compares_at_the_time_of_the_reference():
    def run(head, seconds, perplexities):
        points = zip((100, 300), seconds, perplexities, strict=True)
        return {
            "head": head,
            "seed": 0,
            "epochs": 0,
            "tree_seconds": 0.0,
            "optimum": None,
            "curve": [
                {"steps": n, "cpu_seconds": s, "perplexity": p}
                for n, s, p in points
            ],
        }

    runs = [
        run("dense", (4.0, 16.0), (80.0, 20.0)),
        run("two_level", (1.0, 3.0), (90.0, 30.0)),
        run("from_counts", (2.0, 8.0), (70.0, 25.0)),
    ]
    rows = report.table("words", runs, "perplexity").splitlines()
    assert rows[2].split() == ["dense", "0.0", "53.3", "20.0", "40.0"]
    assert rows[3].split() == ["two_level", "0.0", "10.0", "30.0", "<=30.0"]
    assert rows[4].split() == ["from_counts", "0.0", "26.7", "25.0", "25.0"]


def test_order_of_examples():
    parts = [training.positions(7, 5, *bounds) for bounds in [(0, 5), (5, 16)]]
    whole = np.concatenate(parts)
    np.testing.assert_array_equal(whole, training.positions(7, 5, 0, 16))
    for begin in (0, 7):
        assert sorted(whole[begin : begin + 7]) == list(range(7))
    assert list(whole[:7]) != list(whole[7:14])


def test_words_of_texts():
    page = '.TH X 1 "a"\n.\\" note\n.SH NAME\n\\fBls\\fP \\- \\(Bqzeigt\\(lq\n'
    assert texts.split(texts.without_macros(page)) == [
        *("NAME", "ls", "-", "zeigt", "</s>")
    ]
    assert texts.split("Title\n=====\n") == ["Title", "=", "</s>"]
    contexts, labels = texts.windows([list("abcd"), list("ex")], {"e": 4}, 9)
    np.testing.assert_array_equal(contexts, [[9, 9, 9, 9], [9, 9, 9, 4]])
    np.testing.assert_array_equal(labels, [4, 9])


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


def test_ids_are_in_another_order_but_keep_their_meaning():
    task = _task()
    assert (task.contexts[:, 2] == -1).all()
    np.testing.assert_array_equal(task.counts, np.bincount(task.labels))
    # Equal first words still have equal labels, in both parts.
    pairs = {
        *zip(task.contexts[:, 0], task.labels, strict=True),
        *zip(task.held_out_contexts[:, 0], task.held_out_labels, strict=True),
    }
    assert len(pairs) == len({word for word, _ in pairs})
    assert any((word * 7) % 40 != label for word, label in pairs)


@pytest.mark.parametrize(
    "name, is_bag",
    [("from_counts", True), *((name, False) for name in heads.LAYERS)],
)
def test_answers_are_those_of_the_trained_model(name, is_bag):
    task = _task(is_bag)
    keras.utils.set_random_seed(0)
    contexts, hidden = training.body(task, 8)
    head = heads.layer(name, task, seed=0)
    candidate = heads.attach(head, contexts, hidden, 0.1)
    x, y = task.contexts + 1, task.labels
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


def test_it_prints_tables_and_continues(tmp_path, monkeypatch, capsys):
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
    first = (tmp_path / "results.json").read_text()
    runs = json.loads(first)
    assert [run["head"] for run in runs] == ["dense_counts", "from_counts"]
    assert {run["rate"] for run in runs} == {0.002}
    for run in runs:
        assert [point["steps"] for point in run["curve"]] == [10, 20]
        # It begins with the frequencies of the classes.
        assert 342 < run["curve"][0]["perplexity"] < 2700
    output = capsys.readouterr().out
    for name in measures.NAMES:
        assert f"\nsynthetic: {name}" in output
    run_main("fit", *arguments)
    assert (tmp_path / "results.json").read_text() == first
    assert "seed 0: " not in capsys.readouterr().out


@pytest.mark.parametrize("most", [1.1, 300.0])
def test_the_picture_of_the_curves(tmp_path, monkeypatch, most):
    """Whether perplexities are close or far apart."""
    runs = [
        {
            "task": task,
            "head": head,
            "seed": 0,
            "tree_seconds": 1.0,
            "curve": [
                {
                    "steps": n,
                    "cpu_seconds": n / 9,
                    "perplexity": 40 * most**share,
                }
                for n, share in ((100, 1), (900, 0.5), (9000, 0))
            ],
        }
        for task in ("text", "baskets")
        for head in ("dense", "two_level")
    ]
    with pictures.written(monkeypatch) as figures:
        report.draw(tmp_path / "curves.png", runs)
    pictures.check(*figures)
    colours = [[c.get_color() for c in a.lines] for a in figures[0].axes]
    assert colours == [["C0", "C1"]] * 4
