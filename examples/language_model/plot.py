"""The training curve as a picture."""

from examples.common import files


def training_curve(path, history):
    """Draws perplexity over epochs to `path`, a PNG; says so if it cannot.

    Args:
        path: where to write, atomically.
        history: one dict per validation, as `run.Job` records them.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print(f"No {path}: matplotlib is not installed.")
        return
    with files.atomic(path) as name:
        figure(history).savefig(name, dpi=120)


def figure(history):
    """The picture, a `matplotlib.figure.Figure`."""
    from matplotlib import figure as figures
    from matplotlib import ticker

    result = figures.Figure(figsize=(7, 4.5), layout="constrained")
    axes = result.subplots()
    epochs = [entry["epoch"] for entry in history]
    last = history[-1]
    curves = {
        "train_perplexity": "training (in the epoch, with dropout)",
        "validation_perplexity": "validation",
    }
    # The one that ends higher is named above its end, the other below, for
    # they may end at the same place.
    higher = max(curves, key=last.get)
    for key, label in curves.items():
        values = [entry[key] for entry in history]
        axes.plot(epochs, values, marker="o", label=label)
        points, alignment = (3, "bottom") if key == higher else (-3, "top")
        axes.annotate(
            f"{values[-1]:.1f}",
            (epochs[-1], values[-1]),
            xytext=(6, points),
            textcoords="offset points",
            va=alignment,
        )
    # The validations that end an epoch.
    unigram = [e["unigram_perplexity"] for e in history if e["ends_epoch"]]
    if unigram:
        axes.axhline(
            unigram[0],
            color="gray",
            linestyle="--",
            label=f"unigram ({unigram[0]:.0f})",
        )
    axes.set(xlabel="epoch", ylabel="perplexity", yscale="log")
    for which in (
        axes.yaxis.set_major_formatter,
        axes.yaxis.set_minor_formatter,
    ):
        which(ticker.StrMethodFormatter("{x:g}"))
    axes.margins(x=0.1, y=0.1)
    axes.xaxis.set_major_locator(
        ticker.MaxNLocator(integer=True, min_n_ticks=1)
    )
    axes.grid(alpha=0.3)
    result.legend(loc="outside upper center", ncols=3, frameon=False)
    return result
