"""The training curve as a picture."""

from examples.language_model import checkpoint


def training_curve(path, history):
    """Draws perplexity over epochs to `path`, a PNG; says so if it cannot.

    Args:
        path: where to write, atomically.
        history: one dict per epoch, as `train` records them.
    """
    try:
        import matplotlib
    except ImportError:
        print(f"No {path}: matplotlib is not installed.")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    epochs = [entry["epoch"] for entry in history]
    for key, label in (
        ("train_perplexity", "training (during the epoch, with dropout)"),
        ("held_out_perplexity", "held out"),
    ):
        values = [entry[key] for entry in history]
        axes.plot(epochs, values, marker="o", label=label)
        axes.annotate(
            f"{values[-1]:.1f}",
            (epochs[-1], values[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    unigram = history[-1]["unigram_perplexity"]
    axes.axhline(
        unigram, color="gray", linestyle="--", label=f"unigram ({unigram:.0f})"
    )
    axes.set(xlabel="epoch", ylabel="perplexity", yscale="log")
    for which in (
        axes.yaxis.set_major_formatter,
        axes.yaxis.set_minor_formatter,
    ):
        which(ticker.StrMethodFormatter("{x:g}"))
    axes.margins(x=0.1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend()
    with checkpoint.atomic(path) as name:
        figure.savefig(name, dpi=120)
    pyplot.close(figure)
