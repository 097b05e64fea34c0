"""The comparison of heads, on a tiny synthetic corpus."""

import json
import random
import re

import pytest

from examples.common import program
from examples.corpora import corpus
from examples.language_model import compare, comparison, settings
from tests.support import pictures

RESULT = {
    "test_perplexity": 12.3,
    "tokens_per_s": 12345.0,
    "head_ms": 4.5,
    "step_ms": 6.7,
    "processor_ms": 8.9,
    "steps": 8,
    "seconds": 9.0,
    "parameters": 10,
    "validation_perplexity": 13.4,
    "curve": [(0.0, 99.0), (4.5, 20.0), (9.0, 12.3)],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file of words of which each half follows another word."""
    rng = random.Random(0)
    words = [f"w{i}" for i in range(60)]
    lines = []
    for i in range(3000):
        half = rng.randrange(2)
        if i % 50 == 0:
            lines.append(f"once{i}")
        lines.append(f"{'ab'[half]} {rng.choice(words[half::2])}")
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines))
    return path


def make_settings(path):
    """The settings of a small model."""
    return settings.Settings(
        corpus=str(path), units=8, batch_size=4, steps=5, cell="rnn"
    )


def test_it_trains_each_head_and_writes_table_and_picture(
    path, tmp_path, capsys, monkeypatch
):
    names = ["full softmax", "from data"]
    choices = {name: compare.HEADS[name] for name in names}
    with pictures.written(monkeypatch) as figures:
        results = comparison.compare(
            choices, make_settings(path), 0.01, tmp_path / "folder"
        )
    written = (tmp_path / "folder" / "heads.json").read_text()
    assert json.loads(written)["heads"] == json.loads(json.dumps(results))
    assert list(results) == names
    text = corpus.load(corpus.Options(str(path)))
    for name, (result,) in results.items():
        # Exactly as long, but for the step in which the time ends.
        assert 0.6 <= result["seconds"] < 0.6 + 1e-3 * 50 * result["step_ms"]
        (first, _), *_, (last, _) = result["curve"]
        assert (first, last) == (0, result["seconds"])
        assert 1 < result["test_perplexity"] < 2 * len(text.words), name
        assert result["tokens_per_s"] > 0
    assert results["full softmax"][0]["parameters"] == 9 * len(text.words)
    output = capsys.readouterr().out
    assert "from data, seed 1 (2 of 2)" in output
    assert "from data" in pictures.texts(figures[-1])
    assert (tmp_path / "folder" / "perplexity.png").exists()


def test_interrupted_it_shows_what_is_done(path, tmp_path, monkeypatch, capsys):
    def train(choice, text, minutes, title):
        if choice.head == "adaptive":
            raise KeyboardInterrupt
        return RESULT

    monkeypatch.setattr(comparison, "train", train)
    with (
        pictures.written(monkeypatch) as figures,
        pytest.raises(SystemExit) as end,
    ):
        program.run(
            compare.main,
            compare.flags,
            [
                "compare",
                f"--corpus={path}",
                f"--save_dir={tmp_path}",
                "--heads=full,adaptive",
            ],
        )
    assert end.value.code == 130
    shown = capsys.readouterr()
    assert re.search("full softmax +12.3 ", shown.out)
    assert shown.err == (
        "\nInterrupted. 1 of 3 runs were done; the same command with "
        "--resume continues.\n"
    )
    text = pictures.texts(figures[-1])
    assert "full softmax" in text and "adaptive" not in text


def test_it_goes_on_where_it_was(path, tmp_path, monkeypatch):
    trained = []

    def train(choice, text, minutes, title):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append((title, choice.seed))
        return RESULT

    monkeypatch.setattr(comparison, "train", train)
    choices = {
        name: compare.HEADS[name] for name in ("full softmax", "adaptive")
    }
    arguments = choices, make_settings(path), 1, tmp_path, 2
    with pytest.raises(KeyboardInterrupt):
        comparison.compare(*arguments)
    done, trained[:] = list(trained), []
    results = comparison.compare(*arguments, resume=True)
    assert done + trained == [
        (name, seed) for seed in (1, 2) for name in choices
    ]
    assert [len(runs) for runs in results.values()] == [2, 2]
    with pytest.raises(
        ValueError, match="is of another text, time or settings"
    ):
        comparison.compare(choices, make_settings(path), 2, tmp_path, 2, True)


def test_bad_heads_are_named(path):
    message = "^error: --heads=oak begins no name"
    with pytest.raises(SystemExit, match=message):
        program.run(
            compare.main, compare.flags, ["compare", "--heads=full,oak"]
        )


def test_all_heads_have_valid_settings():
    for difference in compare.HEADS.values():
        settings.Settings(**difference)
