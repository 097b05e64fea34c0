"""The text of a plan, with remarks on what is uneven."""

import math

import numpy as np

from tf_hsm._units import digits, of_bytes, table
from tf_hsm.tree.arrays import groups_of

_MAX_LINES = 16
# How much more than the mean shard a unit has, or more time than the slowest
# shard the top takes, before it is spoken of.
_LARGE = 1.1
# The share of the work from which the top is spoken of; half of it is usual.
_LARGE_TOP = 0.6


def report(plan):
    """Returns lines: the top, each shard, the step, what is uneven."""
    cost = plan.cost
    top, what, where = cost.top, "device", ""
    if plan.step.on_replicas:
        what, where = "replica", ", a copy on each replica"
    size = "" if top.bytes is None else f", {of_bytes(top.bytes)}"
    lines = [
        f"Plan of {plan.tree.num_classes:,} classes over "
        f"{_of(len(plan.devices), what)}",
        f"  the top, which all examples pass: {top.rows:,} rows{size}{where}; "
        f"{top.work:,.1f} rows per example, {_percent(top.work_share)} of the "
        "work",
        f"  below it: {_of(top.subtrees, 'subtree')}; "
        f"{sum(s.rows for s in cost.shards):,} rows, "
        f"{sum(s.work for s in cost.shards):,.1f} rows per example",
    ]
    lines += _of_shards(cost) if top.subtrees else []
    return "\n".join(lines + [f"  {remark}" for remark in cost.remarks])


def _of_shards(cost):
    step = cost.step
    rows = [_shard_row(cost, shard) for shard in cost.shards[:_MAX_LINES]]
    lines = ["  " + line for line in table(rows)]
    if len(cost.shards) > _MAX_LINES:
        lines.append(f"  … {len(cost.shards) - _MAX_LINES:,} more")
    lines.append(
        f"  largest over mean: {cost.largest_work:.3f} of the work, "
        f"{cost.largest_rows:.3f} of the rows"
    )
    if step.batch is not None:
        lines.append(
            f"  by chance, the fullest shard of a step with {step.batch:,} "
            f"examples has {cost.largest_by_chance:.3f} times the mean work; "
            "a synchronous step waits for it"
        )
    if cost.wire_bytes is not None:
        gradients, what = "", "h, dx, label, its weight, loss"
        if step.on_replicas:
            what += ", its gradient"
            if cost.padding is not None:
                what += f"; x {cost.padding:.2f} padded, between processes"
            gradients = (
                f"; each replica sends {of_bytes(cost.top.sent_bytes)} "
                "for the gradients of the top"
            )
        lines += [
            f"  on the wire: {cost.wire_bytes_per_example:,} bytes per example "
            f"({what}), {of_bytes(cost.wire_bytes)} a step, "
            f"{digits(cost.wire_milliseconds)} ms at "
            f"{of_bytes(step.network)}/s each way{gradients}; touched rows and "
            f"their gradients would be {of_bytes(cost.parameter_bytes)}",
            f"  predicted: {digits(cost.top.milliseconds)} ms for the top, "
            f"{digits(max(s.milliseconds for s in cost.shards))} ms for the "
            f"slowest shard, {digits(cost.milliseconds)} ms a step; "
            f"{digits(cost.worst_milliseconds)} ms if all labels are in one "
            "shard",
        ]
    return lines


def _shard_row(cost, shard):
    """Returns the cells of a shard, by the titles of their columns."""
    row = {
        "device": shard.device,
        "subtrees": f"{shard.subtrees:,}",
        "classes": f"{shard.classes:,}",
        "rows": f"{shard.rows:,}",
        "of rows": _percent(shard.rows_share),
        "of work": _percent(shard.work_share),
        "of labels": _percent(shard.examples_share),
    }
    if cost.step.width is not None:
        row["bytes"] = of_bytes(shard.bytes)
    if cost.wire_bytes is not None:
        if cost.step.on_replicas:
            row["sent"] = of_bytes(shard.sent_bytes)
            row["received"] = of_bytes(shard.received_bytes)
        else:
            row["wire"] = of_bytes(shard.wire_bytes)
        row["ms"] = digits(shard.milliseconds)
    return row


def _percent(share):
    return f"{100 * share:.3g}%" if share < 1 else "100%"


def _of(number, what):
    return f"{number:,} {what}" + "s" * (number != 1)


def remarks(plan, top, shards):
    """Yields sentences on a plan, from the `ShardCost`s of top and shards."""
    on_replicas = plan.step.on_replicas
    if plan.tree.num_groups == 1:
        where = "all of it is on the device of the body"
        if on_replicas:
            where = "each replica has a copy of it"
        yield (
            f"Nothing lies below the top: the tree is one group, so {where}."
        )
        return
    if top.subtrees < len(shards):
        what = "replicas" if on_replicas else "devices"
        yield (
            f"There are {len(shards):,} {what}, but only "
            f"{_of(top.subtrees, 'subtree')}; the other {what} have none."
        )
    work, rows = plan.layout.unit_loads.work, plan.layout.unit_loads.rows
    shares = {
        "work": work / work.sum() if work.sum() > 0 else np.zeros(work.size),
        "rows": rows / rows.sum(),
    }
    sizes = np.maximum(*shares.values()) * len(shards)
    large = np.count_nonzero(sizes > _LARGE)
    if large:
        unit = int(np.argmax(sizes))
        what = max(shares, key=lambda name: shares[name][unit])
        share = shares[what][unit]
        yield _of_unit(plan, unit, f"{_share(share)} of the {what}")
    if large > 1:
        yield (
            f"{large - 1:,} other{' has' if large == 2 else 's have'} more "
            "than the fair share of a device, too."
        )
    if top.work_share > _LARGE_TOP and not on_replicas:
        yield (
            f"The top has {_share(top.work_share)} of the work, which more "
            "devices do not make less."
        )
    yield from _binding(plan.step, top, shards)


def _binding(step, top, shards):
    """Yields a sentence if the top takes clearly longer than each shard."""
    slowest = max(shard.milliseconds or 0 for shard in shards)
    if not slowest:
        return
    summing = 0.0
    if step.on_replicas:
        summing = 1e3 * top.sent_bytes / step.network
    if top.milliseconds + summing <= _LARGE * slowest:
        return
    if step.on_replicas:
        yield (
            f"The top binds: each replica takes {digits(top.milliseconds)} ms "
            f"of a step for its own examples, and {digits(summing)} ms to "
            f"exchange the gradients of the top; the slowest shard takes "
            f"{digits(slowest)} ms. A smaller `top`, or a tree with smaller "
            "groups near the root, makes the top faster."
        )
        return
    call = float(step.milliseconds(0, 0))  # which each device has
    ratio = (slowest - call) / (top.milliseconds - call)
    enough = max(1, math.ceil(len(shards) * ratio))
    yield (
        f"The top binds: it takes {digits(top.milliseconds)} ms of a step, and "
        f"the slowest shard {digits(slowest)} ms. About "
        f"{_of(enough, 'device')} would be as fast. A tree with smaller groups "
        "near the root has a faster top."
    )


def _of_unit(plan, unit, share):
    """Says why a unit has so much."""
    tree = plan.tree
    row = int(plan.layout.unit_rows[unit])
    name = f"row {row}"
    if tree.names is not None and tree.names[row]:
        name = f"{str(tree.names[row])!r} (row {row})"
    groups = np.flatnonzero(plan.layout.group_units == unit)
    fanouts = np.diff(tree.group_offsets)[groups]
    if groups.size == 1:
        return (
            f"One group of {fanouts[0]:,} rows, that below {name}, has {share} "
            "below the top; it cannot be cut."
        )
    text = (
        f"The subtree below {name}, of {fanouts.sum():,} rows in "
        f"{groups.size:,} groups, has {share} below the top"
    )
    widest = int(fanouts.max())
    if 2 * widest > fanouts.sum():
        return f"{text}; its group of {widest:,} rows cannot be cut."
    above = groups_of(tree.group_offsets, tree.group_parents[groups])
    if (np.bincount(above) < 2).all():
        return f"{text}; it is a chain, which cannot be spread."
    return f"{text}; a larger `top` may cut it."


def _share(share):
    return f"{100 * share:.{1 if share < 0.1 else 0}f}%"
