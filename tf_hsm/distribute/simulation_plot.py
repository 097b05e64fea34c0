"""The picture of `Simulation.plot`."""

import numpy as np

from tf_hsm.distribute import figures


def plot_simulation(simulation, path):
    """See `Simulation.plot`."""
    measure, what = simulation.work, "rows scored in a step"
    if simulation.milliseconds is not None:
        measure, what = simulation.milliseconds, "ms in a step"
    with figures.figure("Simulation.plot", (9, 3.4), path) as figure:
        left, right = figure.subplots(1, 2)
        steps, count = measure.shape
        figure.suptitle(
            f"{steps:,} steps of {simulation.batches.mean():,.0f} examples: "
            f"the mean device waits {100 * simulation.waiting:.1f}% of the "
            "time that the slowest takes",
            fontsize=10,
        )
        _draw_devices(left, measure)
        title = "each device: least, mean, most"
        figures.finish(left, title, "device", what)
        figures.of_devices(left, count)
        _draw_steps(right, measure)
        figures.finish(right, "all steps", what, "steps")
        left.set_ylim(0, 1.25 * left.get_ylim()[1])
        left.legend(frameon=False, loc="upper left", ncols=2)
        right.set_ylim(0, 1.25 * right.get_ylim()[1])
        right.legend(frameon=False, loc="upper left", ncols=2)
    return figure


def _draw_devices(axes, measure):
    means = measure.mean(0)
    devices = np.arange(means.size)
    axes.bar(devices, means, width=0.8, color=figures.BLUE, alpha=0.6)
    axes.vlines(
        devices,
        measure.min(0),
        measure.max(0),
        color=figures.BLUE,
        linewidth=1.2,
    )
    axes.axhline(
        measure.max(1).mean(),
        color=figures.ORANGE,
        linewidth=1,
        label="slowest of each step",
    )
    axes.axhline(
        means.mean(), color=figures.GREY, linewidth=1, label="mean of all"
    )


def _draw_steps(axes, measure):
    slowest, means = measure.max(1), measure.mean(1)
    low, high = means.min(), slowest.max()
    edges = np.linspace(low, high if high > low else low + 1, 41)
    for values, colour, label in (
        (means, figures.GREY, "mean device"),
        (slowest, figures.ORANGE, "slowest device"),
    ):
        axes.hist(values, edges, color=colour, alpha=0.7, label=label)
