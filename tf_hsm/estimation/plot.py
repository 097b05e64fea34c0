"""The pictures of `Estimate.plot` and `Comparison.plot`."""

from tf_hsm._units import digits, of_bytes, short
from tf_hsm.distribute import figures

_RED, _VIOLET = "#b03a48", "#7a5ea8"
_MEMORY = (
    ("parameters", "parameter_bytes", figures.BLUE),
    ("slots", "slot_bytes", _VIOLET),
    ("arrays of trees", "constant_bytes", figures.GREY),
    ("gradients", "gradient_bytes", figures.ORANGE),
    ("saved", "saved_bytes", figures.GREEN),
)
_TIME = (
    ("forward", figures.BLUE),
    ("backward", figures.ORANGE),
    ("optimizer", _VIOLET),
)
_MAX_PARTS = 14  # bars; the smallest others are one


def plot_estimate(estimate, path):
    """See `Estimate.plot`."""
    rows = min(len(estimate.parts), _MAX_PARTS)
    height = 2.8 + 0.28 * rows
    with figures.figure("Estimate.plot", (11, height), path) as figure:
        sizes, times, roofline = figure.subplots(
            1, 3, width_ratios=[1.3, 1, 1.1]
        )
        figure.suptitle(_title(estimate), fontsize=10)
        _draw_memory(sizes, estimate)
        _draw_time(times, estimate)
        _draw_roofline(roofline, estimate)
    return figure


def plot_comparison(comparison, path):
    """See `Comparison.plot`."""
    estimates = list(comparison)[::-1]
    height = 1.8 + 0.35 * len(estimates)
    with figures.figure("Comparison.plot", (9, height), path) as figure:
        sizes, times = figure.subplots(1, 2, sharey=True)
        names = [e.name for e in estimates]
        unit, size = _byte_unit(e.peak_bytes for e in estimates)
        _bars(
            sizes,
            names,
            [
                (
                    "beside the parameters",
                    [e.peak_bytes / size for e in estimates],
                    figures.ORANGE,
                    None,
                ),
                (
                    "parameters",
                    [e.parameter_bytes / size for e in estimates],
                    figures.BLUE,
                    None,
                ),
            ],
        )
        for place, estimate in enumerate(estimates):
            peak = estimate.peak_bytes
            _label(sizes, peak / size, place, of_bytes(peak))
        memory = estimates[0].memory
        if memory is not None:
            label = of_bytes(memory)
            sizes.axvline(memory / size, color=_RED, linewidth=1, label=label)
        _finish(sizes, "peak memory", unit, log=_is_wide(estimates))
        milliseconds = [e.milliseconds for e in estimates]
        _bars(times, names, [("ms", milliseconds, figures.BLUE, None)])
        for place, value in enumerate(milliseconds):
            _label(times, value, place, f"{digits(value)} ms")
        is_wide = max(milliseconds) > 30 * min(milliseconds)
        _finish(times, "time of a step", "ms", log=is_wide)
        # Below, where it hides no bar.
        handles, labels = sizes.get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=3,
            frameon=False,
            fontsize=7,
        )
    return figure


def _title(estimate):
    text = (
        f"{estimate.name}: peak {of_bytes(estimate.peak_bytes)}, "
        f"{digits(estimate.milliseconds)} ms a step on {estimate.machine.name}"
    )
    if estimate.memory is not None:
        fits = "fits in" if estimate.fits else "does not fit in"
        text += f"; {fits} {of_bytes(estimate.memory)}"
    return text


def _draw_memory(axes, estimate):
    parts, names = _largest(
        estimate.parts,
        lambda p: sum(getattr(p, name) for _, name, _ in _MEMORY),
    )
    unit, size = _byte_unit(
        sum(getattr(p, name) for p in few for _, name, _ in _MEMORY)
        for few in parts
    )
    begin, series = [0.0] * len(parts), []
    for label, name, colour in _MEMORY:
        values = [sum(getattr(p, name) for p in few) / size for few in parts]
        if any(values):
            series.append((label, values, colour, begin))
            begin = [a + b for a, b in zip(begin, values, strict=True)]
    _bars(axes, names, series)
    _finish(axes, "memory by part", unit)
    _legend_below(axes)


def _draw_time(axes, estimate):
    milliseconds = {
        id(part): [1000 * s for s in seconds]
        for part, seconds in zip(estimate.parts, estimate.seconds, strict=True)
    }
    parts, names = _largest(estimate.parts, lambda p: sum(milliseconds[id(p)]))
    begin, series = [0.0] * len(parts), []
    for i, (label, colour) in enumerate(_TIME):
        values = [sum(milliseconds[id(p)][i] for p in few) for few in parts]
        series.append((label, values, colour, begin))
        begin = [a + b for a, b in zip(begin, values, strict=True)]
    _bars(axes, names, series)
    _finish(axes, "time by part", "ms")
    _legend_below(axes)


def _draw_roofline(axes, estimate):
    """FLOP/s of each part over its FLOP per byte, below what a machine can."""
    machine = estimate.machine
    peak = machine.rate(estimate.setting.compute_dtype)
    bandwidth = machine.read_write
    ridge = peak / bandwidth
    points = []
    for part, seconds in zip(estimate.parts, estimate.seconds, strict=True):
        work = part.forward + part.backward
        if work.flops and work.bytes and sum(seconds[:2]):
            rate = work.flops / sum(seconds[:2])
            points.append((part.name, work.flops / work.bytes, rate))
    ends = [ridge / 100, ridge * 100, *(x for _, x, _ in points)]
    xs = [min(ends) / 2, ridge, max(ends) * 2]
    ys = [min(peak, x * bandwidth) for x in xs]
    axes.loglog(xs, ys, color=figures.GREY, linewidth=1)
    names = {}
    for name, x, y in points:
        axes.plot(x, y, "o", color=figures.BLUE, markersize=4)
        # Layers that are alike lie upon each other.
        names.setdefault((f"{x:.2g}", f"{y:.2g}"), (x, y, []))[2].append(name)
    for x, y, of_point in names.values():
        axes.annotate(
            _shortened(of_point),
            (x, y),
            fontsize=6,
            textcoords="offset points",
            xytext=(4, -7),
        )
    axes.set_title(
        f"roofline: {short(peak)}FLOP/s, {of_bytes(bandwidth)}/s", fontsize=9
    )
    axes.set_xlabel("FLOP per byte moved")
    axes.set_ylabel("FLOP/s")
    axes.grid(color="#e3e3e3", linewidth=0.6)


def _shortened(names):
    """Returns two names, or one and how many more there are, as a text."""
    if len(names) <= 2:
        return ", ".join(names)
    return f"{names[0]} and {len(names) - 1} more"


def _largest(parts, size):
    """Returns groups of parts, the last of those that are too many, and names.

    In the order of the parts, from the bottom up.
    """
    kept = sorted(parts, key=size, reverse=True)[:_MAX_PARTS]
    kept = {id(part) for part in kept}
    groups = [[part] for part in parts if id(part) in kept]
    names = [part.name for part in parts if id(part) in kept]
    others = [part for part in parts if id(part) not in kept]
    if others:
        groups.append(others)
        names.append(f"{len(others)} others")
    return groups[::-1], names[::-1]


def _bars(axes, names, series):
    places = range(len(names))
    for label, values, colour, begin in series:
        axes.barh(
            places, values, left=begin, color=colour, label=label, height=0.7
        )
    axes.set_yticks(list(places), names)


def _label(axes, value, place, text):
    axes.annotate(
        text,
        (value, place),
        textcoords="offset points",
        xytext=(3, -3),
        fontsize=7,
    )


def _legend_below(axes):
    """Puts the legend below the label of the x axis, where it hides no bar."""
    from matplotlib import transforms

    inches = axes.get_figure().dpi_scale_trans
    below = transforms.ScaledTranslation(0, -0.4, inches)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=axes.transAxes + below,
        ncols=3,
        frameon=False,
        fontsize=7,
    )


def _byte_unit(values):
    """Returns the name and the bytes of the unit for the largest of values."""
    most = max(values)
    for name, size in (("GB", 1e9), ("MB", 1e6)):
        if most >= size:
            return name, size
    return "kB", 1e3


def _is_wide(estimates):
    peaks = [e.peak_bytes for e in estimates]
    return max(peaks) > 30 * max(min(peaks), 1)


def _finish(axes, title, unit, log=False):
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(unit)
    if log:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.grid(axis="x", color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.15)
