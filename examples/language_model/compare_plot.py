"""The comparison of heads as a picture."""

_COLOURS = {"full": "#3c8d40", "sampled": "#8a5a2b", "adaptive": "#d1661c"}


def draw(path, results):
    """Draws perplexity over tokens per second, a point for each head.

    Args:
        path: of an SVG, or another picture by its suffix.
        results: name of a head -> what `compare.train` returned.

    Returns:
        Whether it was drawn; not without matplotlib.
    """
    try:
        import matplotlib
        from matplotlib import figure as figures
        from matplotlib import ticker
    except ImportError:
        print(f"No {path}: matplotlib is not installed.")
        return False

    style = {
        "font.size": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": "heads",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(style):
        figure = figures.Figure(
            figsize=(7, 4.2), layout="constrained", facecolor="white"
        )
        axes = figure.subplots()
        for name, result in results.items():
            place = (result["tokens_per_s"], result["held_out_perplexity"])
            colour = _COLOURS.get(name.split()[0].strip(","), "#0b5fa5")
            axes.plot(*place, "o", color=colour)
            axes.annotate(
                name,
                place,
                xytext=(5, 3),
                textcoords="offset points",
                color=colour,
            )
        axes.set(
            xlabel="training tokens per second",
            ylabel="held-out perplexity",
            xscale="log",
            yscale="log",
        )
        for axis in (axes.xaxis, axes.yaxis):
            for which in (axis.set_major_formatter, axis.set_minor_formatter):
                which(ticker.StrMethodFormatter("{x:,.0f}"))
        axes.margins(x=0.2)
        axes.grid(alpha=0.3)
        figure.savefig(path, metadata={"Creator": None, "Date": None})
    return True
