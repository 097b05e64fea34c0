"""The comparison of heads as pictures."""

import math

from examples.language_model import compare_table

_COLOURS = 10  # of matplotlib, C0 to C9
_PANELS = (
    ("test_perplexity", "test perplexity", "{:.1f}"),
    ("tokens_per_s", "training tokens per second", "{:,.0f}"),
    ("head_ms", "the head, ms in a step", "{:.1f}"),
)
_STYLE = {
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "heads",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def bars(path, results):
    """Draws a row for each head, the best one above, and a panel per measure.

    Args:
        path: of an SVG, or another picture by its suffix.
        results: name of a head -> a list of what `comparison.train` returned.

    Returns:
        Whether it was drawn; not without matplotlib.
    """
    medians = {
        name: {key: compare_table.median(runs, key) for key, *_ in _PANELS}
        for name, runs in results.items()
    }
    names = sorted(medians, key=lambda n: -medians[n]["test_perplexity"])
    colours = [_colour(name, results) for name in names]

    def draw(figure):
        from matplotlib import ticker

        panels = figure.subplots(1, len(_PANELS), sharey=True)
        for axes, (key, title, text) in zip(panels, _PANELS, strict=True):
            # What was not measured has no bar.
            values = [medians[name][key] or math.nan for name in names]
            drawn = axes.barh(names, values, color=colours, height=0.6)
            axes.bar_label(drawn, [text.format(v) for v in values], padding=3)
            axes.set(xscale="log", xlabel=f"{title} (log scale)")
            known = [v for v in values if not math.isnan(v)] or [1]
            least, most = min(known), max(known)
            # With room for the label of the longest bar.
            axes.set_xlim(least / 2, 3 * most * (most / least) ** 0.5)
            axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 3)))
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
            axes.tick_params(axis="y", length=0)

    return _draw(path, (10, 0.8 + 0.3 * len(names)), draw)


def curves(path, results):
    """Draws the validation perplexity over the minutes of training.

    A line for each head, the median over the seeds, and the band between the
    least and the greatest. Arguments and result are those of `bars`.
    """

    def draw(figure):
        from matplotlib import ticker

        axes = figure.subplots()
        ends, lowest = [], math.inf
        for name, runs in results.items():
            minutes, lines = _lines([run["curve"] for run in runs])
            low, middle, high = lines
            colour = _colour(name, results)
            axes.plot(minutes, middle, label=name, color=colour)
            if len(runs) > 1:
                axes.fill_between(
                    minutes, low, high, color=colour, alpha=0.2, linewidth=0
                )
            ends.append((middle[-1], name))
            lowest = min(lowest, *low)
        # The first one, before any step, would take all the room.
        highest = max(
            run["curve"][1][1] for runs in results.values() for run in runs
        )
        axes.set(
            xlabel="minutes of training",
            ylabel="validation perplexity (log scale)",
            yscale="log",
            ylim=(0.95 * lowest, 1.05 * highest),
        )
        for which in (
            axes.yaxis.set_major_formatter,
            axes.yaxis.set_minor_formatter,
        ):
            which(ticker.StrMethodFormatter("{x:g}"))
        axes.grid(alpha=0.3)
        handles, labels = axes.get_legend_handles_labels()
        # As the lines end, the worst one above.
        order = sorted(range(len(ends)), key=lambda i: -ends[i][0])
        axes.legend(
            [handles[i] for i in order],
            [f"{labels[i]}: {ends[i][0]:.1f}" for i in order],
            frameon=False,
        )

    return _draw(path, (8, 5), draw)


def _lines(curves):
    """Minutes, and the least, middle and greatest value of some curves."""
    import numpy as np

    # Each has its own times; all begin at zero.
    end = min(curve[-1][0] for curve in curves)
    seconds = np.linspace(0, end, 100)
    values = [np.interp(seconds, *np.transpose(curve)) for curve in curves]
    return seconds / 60, np.quantile(values, [0, 0.5, 1], axis=0)


def _colour(name, results):
    """The colour of a head in all pictures of its results."""
    return f"C{list(results).index(name) % _COLOURS}"


def _draw(path, size, draw):
    """Has `draw(figure)` draw a picture; returns whether it could."""
    try:
        import matplotlib
        from matplotlib import figure as figures
    except ImportError:
        print(f"No {path}: matplotlib is not installed.")
        return False

    with matplotlib.rc_context(_STYLE):
        figure = figures.Figure(
            figsize=size, layout="constrained", facecolor="white"
        )
        draw(figure)
        figure.savefig(path, metadata={"Creator": None, "Date": None})
    return True
