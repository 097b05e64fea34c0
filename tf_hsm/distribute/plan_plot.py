"""The picture of `Plan.plot`."""

import numpy as np

from tf_hsm._units import of_bytes
from tf_hsm.distribute import figures


def plot_plan(plan, path):
    """See `Plan.plot`."""
    cost = plan.cost
    with figures.figure("Plan.plot", (9, 3.8), path) as figure:
        shares, top = figure.subplots(1, 2, width_ratios=[3, 1])
        count = len(cost.shards)
        figure.suptitle(_title(plan), fontsize=10)
        devices = np.arange(count)
        for shift, values, colour, label in (
            (-0.2, [s.work_share for s in cost.shards], figures.BLUE, "work"),
            (0.2, [s.rows_share for s in cost.shards], figures.ORANGE, "rows"),
        ):
            shares.bar(
                devices + shift,
                100 * np.array(values),
                width=0.4,
                color=colour,
                label=f"of the {label}",
            )
        shares.axhline(
            100 / count, color=figures.GREY, linewidth=1, label="fair share"
        )
        title = "shares of what lies below the top"
        figures.finish(shares, title, "device", "share, %")
        figures.of_devices(shares, count)
        if count <= 8:
            shares.set_xticks(devices, [s.device for s in cost.shards])
            shares.tick_params(axis="x", labelrotation=20)
        # Above the bars, where nothing is hidden.
        shares.set_ylim(0, 1.3 * shares.get_ylim()[1])
        shares.legend(frameon=False, loc="upper left", ncols=3)
        _draw_top(top, cost)
    return figure


def _title(plan):
    cost = plan.cost
    text = (
        f"{plan.tree.num_classes:,} classes over {len(cost.shards):,} devices; "
        f"largest over mean: {cost.largest_work:.3f} of the work, "
        f"{cost.largest_rows:.3f} of the rows"
    )
    if cost.largest_by_chance is not None:
        text += f"; {cost.largest_by_chance:.3f} by chance in a step"
    size = [s.bytes for s in cost.shards]
    if None not in size:
        text += f"\n{of_bytes(max(size))} on the fullest device"
        of_it = "of it " if plan.step.on_replicas else ""
        text += f", {of_it}{of_bytes(cost.top.bytes)} for the top"
    return text


def _draw_top(axes, cost):
    """Draws the rows that an example scores: in the top, and below it."""
    below = sum(s.work for s in cost.shards)
    names = ["top", "mean\nshard", "largest\nshard"]
    values = [
        cost.top.work,
        below / len(cost.shards),
        max(s.work for s in cost.shards),
    ]
    axes.bar(names, values, color=[figures.GREEN, figures.BLUE, figures.BLUE])
    figures.finish(axes, "rows scored per example", "", "rows")
