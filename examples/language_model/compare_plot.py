"""The comparison of heads as a picture."""

import numpy as np

_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def curves(path, results):
    """Draws the validation perplexity over the minutes of training.

    A line shows the median over the seeds of a head, and a band the range.
    Without matplotlib there is no picture.

    Args:
        path: The file to write; its suffix says its format.
        results: Name of a head -> a list of results of `comparison.train`.
    """
    try:
        import matplotlib
        from matplotlib import figure as figures
        from matplotlib import ticker
    except ImportError:
        print(f"No {path}: matplotlib is not installed.")
        return
    with matplotlib.rc_context(_STYLE):
        figure = figures.Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        lines = {
            name: _lines([run["curve"] for run in runs])
            for name, runs in results.items()
        }
        # As the lines end, the worst one above.
        for name in sorted(lines, key=lambda name: -lines[name][2][-1]):
            minutes, low, middle, high = lines[name]
            colour = f"C{list(results).index(name) % 10}"
            label = f"{name}: {middle[-1]:.1f}"
            axes.plot(minutes, middle, label=label, color=colour)
            axes.fill_between(
                minutes, low, high, color=colour, alpha=0.2, linewidth=0
            )
        # The first point, before any step, would take all the room.
        runs = [run for runs in results.values() for run in runs]
        highest = max(run["curve"][1][1] for run in runs)
        lowest = min(min(low) for _, low, _, _ in lines.values())
        axes.set(
            xlabel="minutes of training",
            ylabel="validation perplexity (log scale)",
            yscale="log",
            ylim=(0.95 * lowest, 1.05 * highest),
        )
        for axis_format in (
            axes.yaxis.set_major_formatter,
            axes.yaxis.set_minor_formatter,
        ):
            axis_format(ticker.StrMethodFormatter("{x:g}"))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        figure.savefig(path, dpi=150)


def _lines(curves):
    """Minutes, and the least, middle and greatest value of some curves."""
    # Each has its own times; all begin at zero.
    end = min(curve[-1][0] for curve in curves)
    seconds = np.linspace(0, end, 100)
    values = [np.interp(seconds, *np.transpose(curve)) for curve in curves]
    return seconds / 60, *np.quantile(values, [0, 0.5, 1], axis=0)
