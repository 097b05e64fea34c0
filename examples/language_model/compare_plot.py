"""The comparison of heads as a picture."""

import math

_COLOURS = {"full": "#3c8d40", "sampled": "#8a5a2b", "adaptive": "#d1661c"}
_TREE = "#0b5fa5"
_PANELS = (
    ("held_out_perplexity", "held-out perplexity", "{:.1f}"),
    ("tokens_per_s", "training tokens per second", "{:,.0f}"),
    ("head_ms", "the head, ms in a step", "{:.1f}"),
)


def draw(path, results):
    """Draws a row for each head, the best one above, and a panel per measure.

    Args:
        path: of an SVG, or another picture by its suffix.
        results: name of a head -> what `comparison.train` returned.

    Returns:
        Whether it was drawn; not without matplotlib.
    """
    try:
        import matplotlib
        from matplotlib import figure as figures
    except ImportError:
        print(f"No {path}: matplotlib is not installed.")
        return False

    names = sorted(results, key=lambda n: -results[n]["held_out_perplexity"])
    colours = [
        _COLOURS.get(name.replace(",", " ").split()[0], _TREE) for name in names
    ]
    style = {
        "font.size": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": "heads",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(style):
        figure = figures.Figure(
            figsize=(10, 0.8 + 0.3 * len(names)),
            layout="constrained",
            facecolor="white",
        )
        panels = figure.subplots(1, len(_PANELS), sharey=True)
        for axes, (key, title, text) in zip(panels, _PANELS, strict=True):
            # What was not measured has no bar.
            values = [results[name][key] or math.nan for name in names]
            bars = axes.barh(names, values, color=colours, height=0.6)
            axes.bar_label(bars, [text.format(v) for v in values], padding=3)
            axes.set(xscale="log", xlabel=f"{title} (log scale)")
            known = [v for v in values if not math.isnan(v)] or [1]
            least, most = min(known), max(known)
            # With room for the label of the longest bar.
            axes.set_xlim(least / 2, 3 * most * (most / least) ** 0.5)
            axes.tick_params(axis="x", which="both", labelbottom=False)
            axes.tick_params(axis="y", length=0)
        figure.savefig(path, metadata={"Creator": None, "Date": None})
    return True
