"""The common style of the pictures of this package."""

import contextlib
import os

BLUE, ORANGE, GREEN, GREY = "#0b5fa5", "#d1661c", "#3c8d40", "#999999"
_STYLE = {
    "font.size": 9,
    # Letters as text: a tenth of the size.
    "svg.fonttype": "none",
    "svg.hashsalt": "tf_hsm.distribute",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@contextlib.contextmanager
def figure(who, size, path):
    """Yields a new figure, in the style; then writes it to `path`.

    Args:
      who: what needs matplotlib, for the message if it is not there.
      size: width and height, in inches.
      path: the file to write, or None.

    Raises:
      ImportError: matplotlib, an optional extra, is not installed.
      ValueError: it knows no format of the suffix of `path`.
    """
    try:
        import matplotlib
        from matplotlib import figure as figures
    except ImportError as error:
        raise ImportError(
            f"{who} needs matplotlib: pip install matplotlib, or tf_hsm with "
            "its extra, tf_hsm[plot]"
        ) from error
    with matplotlib.rc_context(_STYLE):
        result = figures.Figure(
            figsize=size, layout="constrained", facecolor="white"
        )
        if path is not None:
            _check_suffix(result, os.fspath(path))
        yield result
        if path is not None:
            # No date: one plan makes one file.
            is_svg = os.fspath(path).lower().endswith(".svg")
            metadata = {"Creator": None, "Date": None} if is_svg else None
            result.savefig(path, dpi=150, metadata=metadata)


def finish(axes, title, xlabel, ylabel):
    """Gives axes their title, their labels, and a grid behind all else."""
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)


def of_devices(axes, count):
    """Gives the x axis the numbers of devices, which are integers."""
    axes.set_xlim(-0.6, count - 0.4)
    axes.xaxis.get_major_locator().set_params(integer=True)


def _check_suffix(result, path):
    suffix = os.path.splitext(path)[1][1:].lower()
    known = sorted(result.canvas.get_supported_filetypes())
    if suffix not in known:
        raise ValueError(
            f"path is {path!r}; its suffix must be one of {', '.join(known)}"
        )
