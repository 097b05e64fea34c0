"""Remarks on plans whose devices have unequal work or memory."""

import math

import numpy as np

from tf_hsm._units import digits
from tf_hsm.tree.arrays import groups_of

# How much more than the mean shard a unit has, or more time than the slowest
# shard the top takes, before it is spoken of.
_LARGE = 1.1
# The share of the work from which the top is spoken of; half of it is usual.
_LARGE_TOP = 0.6


def remarks(plan):
    """Yields remarks on a plan, each a sentence."""
    tree, top = plan.tree, plan.layout.top
    if tree.num_groups == 1:
        where = (
            "each replica has a copy of it"
            if plan.step.on_replicas
            else "all of it is on the device of the body"
        )
        yield (
            f"Nothing lies below the top: the tree is one group, so {where}."
        )
        return
    subtrees = plan.layout.num_units - plan.layout.num_leaf_units
    if subtrees < len(plan.devices):
        what = "replicas" if plan.step.on_replicas else "devices"
        yield (
            f"There are {len(plan.devices):,} {what}, but only {subtrees:,} "
            f"subtree{'s' * (subtrees != 1)}; the other {what} have none."
        )
    work, rows = plan.layout.unit_loads.work, plan.layout.unit_loads.rows
    shares = {
        "work": work / work.sum() if work.sum() > 0 else np.zeros(work.size),
        "rows": rows / rows.sum(),
    }
    sizes = np.maximum(*shares.values()) * len(plan.devices)
    large = np.count_nonzero(sizes > _LARGE)
    if large:
        unit = int(np.argmax(sizes))
        what = max(shares, key=lambda name: shares[name][unit])
        share = shares[what][unit]
        yield _of_unit(plan, unit, f"{_percent(share)} of the {what}")
    if large > 1:
        yield (
            f"{large - 1:,} other{' has' if large == 2 else 's have'} more "
            "than the fair share of a device, too."
        )
    of_top = top.expected_cost(plan.layout.unit_loads.masses)
    of_top /= of_top + work.sum()
    if of_top > _LARGE_TOP and not plan.step.on_replicas:
        yield (
            f"The top has {_percent(of_top)} of the work, which more devices "
            "do not make less."
        )


def binding(step, top, shards):
    """Yields a sentence if the top takes clearly longer than each shard.

    Args:
      step: the `Step`.
      top: the `ShardCost` of the top.
      shards: of the shards.
    """
    slowest = max(shard.milliseconds or 0 for shard in shards)
    if not slowest:
        return
    gathering = 0.0
    if step.on_replicas:
        gathering = 1e3 * top.sent_bytes / step.network
    if top.milliseconds + gathering <= _LARGE * slowest:
        return
    if step.on_replicas:
        yield (
            f"The top binds: each replica takes {digits(top.milliseconds)} ms "
            f"of a step for its own examples, and {digits(gathering)} ms to "
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
        f"the slowest shard {digits(slowest)} ms. About {enough:,} "
        f"device{'s' * (enough != 1)} would be as fast. A tree with smaller "
        "groups near the root has a faster top."
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


def _percent(share):
    return f"{100 * share:.{1 if share < 0.1 else 0}f}%"
