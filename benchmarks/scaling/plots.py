"""A sweep as a picture: time over what was varied, both on log axes."""

import pathlib

from benchmarks.common import pictures
from benchmarks.scaling import report, sweeps

# Name in the results -> (name in the legend, colour, line, marker).
_CURVES = {
    "ours": ("tf_hsm", "#0b5fa5", "-", "o"),
    "gather": ("gather", "#d1661c", "-", "s"),
    "full": ("full softmax", "#3c8d40", "-", "^"),
    "floor": ("floor of the machine", "#555555", "--", None),
}
_GUIDE = {"color": "#999999", "linestyle": ":", "linewidth": 1}
# Where there are several curves of one name.
_MARKERS = "oDvP"


def draw(folder, name, sweep, case, points):
    """Writes `<name>.png` with one panel for each phase.

    Args:
      folder: where to write it.
      name: the name of the sweep.
      sweep: a `Sweep`.
      case: the `Case` that is varied.
      points: the `Point`s that were measured.

    Returns:
      The path; or None, where matplotlib is not installed.
    """

    def draw_panels(figure):
        panels = figure.subplots(1, len(sweeps.PHASES), sharey=True)
        for axes, phase in zip(panels, sweeps.PHASES, strict=True):
            _draw_panel(axes, phase, sweep, points)
        panels[0].set_ylabel("milliseconds a step")
        figure.suptitle(sweep.title(case), fontsize=9)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=3 if points[0].curve else 5,
            frameon=False,
        )

    path = pathlib.Path(folder, f"{name}.png")
    return pictures.write(path, (8, 3.6), draw_panels)


def _draw_panel(axes, phase, sweep, points):
    from matplotlib import ticker

    axes.set(xscale="log", yscale="log", xlabel=sweep.axis)
    axes.set_title(report.TITLES[phase], fontsize=9)
    curves = list(dict.fromkeys(point.curve for point in points))
    for name in (*sweep.implementations, "floor"):
        label, colour, line, marker = _CURVES[name]
        for number, curve in enumerate(curves):
            axes.plot(
                *_measured(points, curve, name, phase),
                color=colour,
                linestyle=line,
                marker=marker and (_MARKERS[number] if number else marker),
                markersize=4,
                linewidth=1.4,
                alpha=1 - 0.5 * number / len(curves),
                label=f"{label}, {curve}" if curve else label,
            )
    if sweep.guide:
        _draw_guides(axes, phase, sweep.guide, points, curves)
    ticks = sorted({point.x for point in points})
    axes.xaxis.set_major_locator(ticker.FixedLocator(ticks))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(_short))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)


def _draw_guides(axes, phase, guide, points, curves):
    """Draws the expected slope through the last point of ours."""
    label, power = guide
    for curve in curves:
        x, ms = _measured(points, curve, "ours", phase)
        axes.plot(
            x,
            [ms[-1] * (at / x[-1]) ** power for at in x],
            label=label if curve == curves[0] else None,
            zorder=1,
            **_GUIDE,
        )


def _measured(points, curve, name, phase):
    """Returns what was varied, and milliseconds: two lists."""
    pairs = [
        (p.x, report.milliseconds(p, name, phase))
        for p in points
        if p.curve == curve
    ]
    pairs = [(x, ms) for x, ms in pairs if ms is not None]
    return [x for x, _ in pairs], [ms for _, ms in pairs]


def _short(number, _):
    """1000 as 1k, 3000000 as 3M, but 1024 as it is."""
    for unit, size in (("M", 10**6), ("k", 10**3)):
        if number and number % size == 0:
            return f"{number / size:g}{unit}"
    return f"{number:g}"
