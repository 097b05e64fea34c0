"""Pictures that a reader can read: ticks, units, legends."""

import re

import pytest

_NUMBER = re.compile(r"[-−]?[\d,.]+([a-zA-Z]*)|\$.*\$")


def check(figure):
    """Each axis has ticks, and says what its numbers are; no legend hides data.

    An axis of names needs no label, and an axis that another panel shares no
    ticks of its own.
    """
    renderer = _draw(figure)
    panels = [axes for axes in figure.axes if axes.axison]
    assert panels
    for axes in panels:
        for name in "xy":
            texts = ticks(axes, name)
            shared = getattr(axes, f"get_shared_{name}_axes")()
            of_shared = [ticks(a, name) for a in shared.get_siblings(axes)]
            where = f"{axes.get_title()!r}, {name}: {texts}"
            assert max(map(len, of_shared)) >= 1, where
            if texts and all(map(_NUMBER.fullmatch, texts)):
                assert getattr(axes, f"get_{name}label")(), where
                # An axis of whole numbers may have a single one.
                assert len(texts) >= 2 or texts == ["1"], where
        _check_legends(figure, axes, renderer)


def _draw(figure):
    backend = pytest.importorskip("matplotlib.backends.backend_agg")
    renderer = backend.FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    return renderer


def ticks(axes, name):
    """Returns the texts at the ticks of an axis, "x" or "y", in the view."""
    axis = getattr(axes, f"{name}axis")
    low, high = sorted(axis.get_view_interval())
    return [
        tick.label1.get_text()
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        if tick.label1.get_visible()
        and tick.label1.get_text()
        and low <= tick.get_loc() <= high
    ]


def _check_legends(figure, axes, renderer):
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        assert not box.overlaps(axes.get_window_extent(renderer))
    legend = axes.get_legend()
    if legend is not None and axes.patches:
        box = legend.get_window_extent(renderer)
        for patch in axes.patches:
            bar = patch.get_window_extent(renderer)
            assert bar.width * bar.height == 0 or not box.overlaps(bar)
