"""The pictures of the language model: labels that can be read."""

import pytest

from examples.language_model import compare_plot, plot
from tests.support import pictures


@pytest.mark.parametrize(
    "finals", ((16.2, 16.0), (16.0, 16.0), (16.0, 16.1), (60.0, 16.0))
)
@pytest.mark.parametrize("num_epochs", (1, 3))
def test_labels_of_the_curve_do_not_overlap(finals, num_epochs):
    backend = pytest.importorskip("matplotlib.backends.backend_agg")
    history = [
        {
            "epoch": i,
            "ends_epoch": True,
            "train_perplexity": 99.0 / i,
            "validation_perplexity": 70.0 / i,
            "unigram_perplexity": 295.0,
        }
        for i in range(1, num_epochs + 1)
    ]
    names = "train_perplexity", "validation_perplexity"
    history[-1].update(zip(names, finals, strict=True))
    figure = plot.figure(history)
    renderer = backend.FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    (axes,) = figure.axes
    first, second = (text.get_window_extent(renderer) for text in axes.texts)
    assert [text.get_text() for text in axes.texts] == [
        f"{value:.1f}" for value in finals
    ]
    assert not first.overlaps(second)
    # The higher one is named above.
    assert (first.y0 >= second.y1) == (finals[0] >= finals[1])
    (legend,) = figure.legends
    for box in first, second, axes.get_window_extent(renderer):
        assert not legend.get_window_extent(renderer).overlaps(box)
    pictures.check(figure)
    # Epochs are whole.
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert set(ticks) >= {str(i + 1) for i in range(num_epochs)}
    assert not any("." in tick for tick in ticks)


def test_what_was_not_measured_has_no_bar(tmp_path):
    pytest.importorskip("matplotlib")
    measured = {
        "test_perplexity": 12.3,
        "tokens_per_s": 4321.0,
        "head_ms": 4.5,
    }
    results = {"full softmax": [{**measured, "head_ms": None}]}
    for second in {}, {"adaptive": [measured]}:
        assert compare_plot.bars(tmp_path / "heads.svg", {**results, **second})
        picture = (tmp_path / "heads.svg").read_text()
        assert picture.count("12.3") == 1 + len(second)
        assert picture.count("4.5<") == len(second)
        assert "nan" not in picture


def test_a_head_has_one_colour_in_both_pictures(tmp_path, monkeypatch):
    """Bars and lines of a head have one colour, in whatever order they are."""
    colors = pytest.importorskip("matplotlib.colors")
    names = ["full softmax", "two_level", "huffman, 2", "huffman, 256"]
    results = {
        name: [
            {
                "test_perplexity": 20.0 + 9 * i,
                "tokens_per_s": 400.0 * 3**i,
                "head_ms": 3.1 + i / 10,
                "curve": [(0.0, 1000.0), (30.0, 60.0 - i), (60.0, 50.0 - i)],
            }
        ]
        for i, name in enumerate(names)
    }
    with pictures.written(monkeypatch) as figures:
        compare_plot.bars(tmp_path / "heads.svg", results)
        compare_plot.curves(tmp_path / "perplexity.svg", results)
    bars, curves = figures
    for figure in figures:
        pictures.check(figure)
    lines = {
        line.get_label(): colors.to_rgba(line.get_color())
        for line in curves.axes[0].lines
    }
    assert len(set(lines.values())) == len(names)
    order = pictures.ticks(bars.axes[0], "y")
    assert order != names
    for axes in bars.axes:
        colours = [bar.get_facecolor() for bar in axes.patches]
        assert dict(zip(order, colours, strict=True)) == lines


def test_a_line_and_a_band_for_each_head(tmp_path):
    pytest.importorskip("matplotlib")
    runs = [
        {"curve": [(0.0, 1000.0), (30.5 + i, 40.0 + i), (60.0 + i, 20.0 + i)]}
        for i in range(3)
    ]
    results = {"full softmax": runs[:1], "huffman, 2": runs}
    assert compare_plot.curves(tmp_path / "perplexity.svg", results)
    picture = (tmp_path / "perplexity.svg").read_text()
    # The median of the last values at the end of the shortest run.
    assert "full softmax: 20.0" in picture
    assert "huffman, 2: 21." in picture
    assert "minutes of training" in picture
