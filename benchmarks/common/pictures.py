"""Pictures of figures, in one style."""

import io
import pathlib

_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def write(path, size, draw):
    """Draws and writes a PNG picture of at most 64 colours.

    The background is opaque, and the same figures make the same file.

    Args:
      path: the file to write, a .png. Its folder is made if it does not exist.
      size: the width and the height in inches.
      draw: a function that draws on a `matplotlib.figure.Figure`.

    Returns:
      The path; or None if matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib import figure as figures
        from PIL import Image
    except ImportError:
        return None

    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_STYLE):
        figure = figures.Figure(
            figsize=size, layout="constrained", facecolor="white"
        )
        draw(figure)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=130)
    # A palette makes the file a quarter as large.
    picture = Image.open(drawn).convert("RGB")
    picture.quantize(64, kmeans=1, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    return path


def log_ticks(axis):
    """Makes an axis logarithmic, with ticks such as 10, 20, 50 and 100.

    Where the data span more than three decades, the ticks are powers of ten.

    Args:
      axis: `axes.xaxis` or `axes.yaxis`.
    """
    from matplotlib import ticker

    set_scale = getattr(axis.axes, f"set_{axis.axis_name}scale")
    set_scale("log")
    low, high = axis.get_data_interval()
    is_wide = 0 < 1000 * low < high
    axis.set_major_locator(
        ticker.LogLocator(subs=(1,) if is_wide else (1, 2, 5))
    )
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_locator(ticker.NullLocator())
