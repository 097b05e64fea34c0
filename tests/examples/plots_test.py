"""The pictures of the language model."""

import pytest

from examples.language_model import compare_plot, plot
from tests.support import pictures


def test_the_curves_of_training(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    history = [
        {
            "train_perplexity": 99.0 / i,
            "validation_perplexity": 70.0 / i,
            "unigram_perplexity": 295.0,
        }
        for i in (1, 2)
    ]
    with pictures.written(monkeypatch) as figures:
        plot.training_curve(tmp_path / "curve.png", history)
    assert (tmp_path / "curve.png").stat().st_size
    (figure,) = figures
    pictures.check(figure)
    values = [list(line.get_ydata()) for line in figure.axes[0].lines]
    assert values == [[99.0, 49.5], [70.0, 35.0], [295.0, 295.0]]


def test_a_line_and_a_band_for_each_head(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    runs = [
        {"curve": [(0.0, 1000.0), (30.5 + i, 40.0 + i), (60.0 + i, 20.0 + i)]}
        for i in range(3)
    ]
    results = {"full softmax": runs[:1], "huffman, 2": runs}
    with pictures.written(monkeypatch) as figures:
        compare_plot.curves(tmp_path / "perplexity.png", results)
    text = pictures.texts(*figures)
    # The median of the last values at the end of the shortest run.
    assert "full softmax: 20.0" in text
    assert "huffman, 2: 21." in text
    assert "minutes of training" in text
    assert (tmp_path / "perplexity.png").stat().st_size < 120_000
