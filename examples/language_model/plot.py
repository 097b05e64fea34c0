"""The training curve as a picture."""

from examples.common import files

_CURVES = {
    "train_perplexity": "training (in the epoch, with dropout)",
    "validation_perplexity": "validation",
    "unigram_perplexity": "unigram",
}


def training_curve(path, history):
    """Draws perplexity over epochs to `path`, a PNG, if matplotlib is there.

    Args:
        path: The path of the picture.
        history: One dict for each epoch, as `run.Job` records them.
    """
    try:
        from matplotlib import figure as figures
    except ImportError:
        return
    figure = figures.Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    epochs = range(1, len(history) + 1)
    for key, label in _CURVES.items():
        values = [entry[key] for entry in history]
        axes.plot(epochs, values, marker="o", label=label)
    axes.set(xlabel="epoch", ylabel="perplexity", yscale="log", xticks=epochs)
    axes.grid(alpha=0.3)
    axes.legend()
    with files.atomic(path) as name:
        figure.savefig(name, dpi=120)
