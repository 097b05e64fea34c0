"""The figures of devices, servers and peers as one picture."""

import pathlib

from benchmarks.common import pictures

_BLUE, _ORANGE, _GREEN, _GREY = "#0b5fa5", "#d1661c", "#3c8d40", "#555555"
_KINDS = {
    "uniform": ("uniform labels", _BLUE),
    "zipf": ("zipf labels, counts known", _GREEN),
    "one_shard": ("all labels on one device", _ORANGE),
}


def draw(folder, sizes, entries):
    """Writes `measured.png` with a panel for each question.

    Args:
      folder: where to write it.
      sizes: `steps.Sizes` of devices and servers.
      entries: kind -> the list of entries of the JSON file.

    Returns:
      The path; or None, where matplotlib is not installed.
    """

    def draw_panels(figure):
        time, wire, peers = figure.subplots(1, 3)
        _draw_devices(time, entries["devices"])
        _draw_servers(wire, entries["servers"], sizes)
        _draw_peers(peers, entries["peers"][0])

    path = pathlib.Path(folder, "measured.png")
    return pictures.write(path, (10, 3.4), draw_panels)


def _draw_devices(axes, entries):
    axes.set_title("a step on virtual devices", fontsize=9)
    for entry in entries:
        label, colour = _KINDS[entry["labels"]]
        points = {
            int(name): result["x_one"]
            for name, result in entry["times"].items()
            if name.isdigit()
        }
        axes.plot(
            points.keys(),
            points.values(),
            marker="o",
            markersize=4,
            linewidth=1.4,
            color=colour,
            label=label,
        )
    axes.axhline(1, color=_GREY, linewidth=1, linestyle="--")
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(points), [str(count) for count in points])
    axes.minorticks_off()
    axes.set_ylim(0, 1.4)
    axes.set(xlabel="devices", ylabel="time, x one variable")
    axes.legend(frameon=False, fontsize=8, loc="lower left")


def _draw_servers(axes, entries, sizes):
    axes.set_title(
        f"a step on servers, batch of {sizes.batch:,} x {sizes.width}",
        fontsize=9,
    )
    for classes, colour, shift in zip(
        sorted({entry["classes"] for entry in entries}),
        (_BLUE, _GREEN),
        (-0.2, 0.2),
        strict=True,
    ):
        chosen = [entry for entry in entries if entry["classes"] == classes]
        axes.bar(
            [number + shift for number in range(len(chosen))],
            [entry["on_servers"]["bytes"] / 1e6 for entry in chosen],
            0.4,
            color=colour,
            label=f"{classes:,} classes",
        )
        axes.set_xticks(
            range(len(chosen)), [str(entry["servers"]) for entry in chosen]
        )
    bound = entries[0]["on_servers"]["bound"] / 1e6
    axes.axhline(
        bound, color=_ORANGE, linewidth=1.2, linestyle="--", label="bound"
    )
    axes.set(xlabel="servers", ylabel="MB, counted", ylim=(0, 1.5 * bound))
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _draw_peers(axes, entry):
    sizes = entry["sizes"]
    axes.set_title(
        f"peers, {sizes['classes']:,} classes, batch of "
        f"{sizes['batch']:,} x {sizes['width']}",
        fontsize=9,
    )
    axes.set_xlabel("MB exchanged in a step")
    bars = {
        "2 servers": entry["servers"]["servers"],
        "rows fetched": entry["servers"]["fetching"],
        "mirrored, sparse": entry["here"]["mirrored, sparse"],
        "mirrored, dense": entry["here"]["mirrored, dense"],
    }
    sent = [result["bytes"] / 1e6 for result in bars.values()]
    drawn = axes.barh(
        list(bars), sent, color=[_BLUE, _ORANGE, _GREY, _GREY], log=True
    )
    axes.bar_label(drawn, [f"{number:,.3g}" for number in sent], padding=3)
    axes.set_xlim(0.1, 10 * max(sent))
    axes.invert_yaxis()
