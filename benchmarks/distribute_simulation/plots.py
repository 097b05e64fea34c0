"""The picture: how long devices wait, and what a step costs on paper."""

from benchmarks.common import pictures

_COLOURS = {"uniform": "#0b5fa5", "zipf": "#d1661c", "worst": "#777777"}
_STYLES = ("-", "--", ":")
# Attribute of a `Point`, label, colour, line.
_PARTS = (
    ("top", "top", "#3c8d40", "--"),
    ("network", "network", "#8e5aa8", "--"),
    ("slowest", "slowest shard", "#0b5fa5", "--"),
    ("total", "a step", "#222222", "-"),
    ("total_of_worst", "a step, all labels in one shard", "#d1661c", "-"),
)


def draw(path, waitings, points):
    """Writes the picture; the same numbers make the same file.

    Args:
      path: the file to write.
      waitings: `Waiting`s.
      points: depth -> list of `Point`s.

    Returns:
      The path; or None, where matplotlib is not installed.
    """

    def draw_panels(figure):
        left, *others = figure.subplots(1, 1 + len(points))
        _draw_waiting(left, waitings)
        for axes, (depth, of_depth) in zip(others, points.items(), strict=True):
            _draw_points(axes, depth, of_depth)
        others[-1].sharey(others[0])
        legend = others[0].legend(
            loc="upper left",
            bbox_to_anchor=(0, -0.16),
            ncols=3,
            frameon=False,
            fontsize=8,
        )
        # It may reach below the next panel.
        legend.set_in_layout(False)

    return pictures.write(path, (10.5, 4.4), draw_panels)


def _draw_waiting(axes, waitings):
    batches = list(dict.fromkeys(w.batch for w in waitings))
    for labels in dict.fromkeys(w.labels for w in waitings):
        for batch, line in zip(batches, _STYLES, strict=False):
            here = [
                w for w in waitings if (w.labels, w.batch) == (labels, batch)
            ]
            axes.plot(
                [w.shards for w in here],
                [100 * w.waiting for w in here],
                color=_COLOURS[labels],
                linestyle=line,
                label=labels if labels == "worst" else f"{labels}, {batch:,}",
            )
            if labels == "worst":
                break  # The others lie upon it.
    axes.set_ylim(0, 100)
    _finish(axes, "how long the mean shard waits", "share of a step, %")
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=2,
        frameon=False,
        fontsize=8,
    )


def _draw_points(axes, depth, points):
    for name, label, colour, line in _PARTS:
        axes.plot(
            [p.shards for p in points],
            [getattr(p, name) for p in points],
            color=colour,
            linestyle=line,
            label=label,
        )
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,g}")
    _finish(axes, f"on paper, {depth} levels", "ms")


def _finish(axes, title, ylabel):
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("shards")
    axes.set_ylabel(ylabel)
    axes.set_title(title, fontsize=9)
    axes.grid(color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)
