"""What a step costs on each device of a plan, and how even that is."""

import dataclasses

import numpy as np

from tf_hsm.distribute import uneven
from tf_hsm.distribute.chance import expected_largest
from tf_hsm.distribute.step import Step


@dataclasses.dataclass(frozen=True)
class ShardCost:
    """The means of one step on one device.

    Attributes:
      device: its name.
      subtrees: how many it has.
      classes: how many are below them.
      rows: how many rows of the weights it has.
      rows_share: their share of the rows of all shards.
      work: the rows that an example of the batch scores there, in the mean of
        all examples.
      work_share: its share of the work of all shards.
      examples_share: the share of the batch whose label is there.
      bytes: of weights, biases and slots; None without a width.
      touched_rows: the rows that a batch touches; None without a batch.
      wire_bytes: those that go there and come back; None without both, as is
      milliseconds: the prediction of the cost model for a call; 0 where there
        is nothing to do.
    """

    device: str
    subtrees: int
    classes: int
    rows: int
    rows_share: float
    work: float
    work_share: float
    examples_share: float
    bytes: float | None
    touched_rows: float | None
    wire_bytes: float | None
    milliseconds: float | None


@dataclasses.dataclass(frozen=True)
class PlanCost:
    """The means of one step of a plan, where labels are drawn by its counts.

    Attributes:
      shards: a `ShardCost` for each device.
      top: that of the top, which all examples pass; its classes and subtrees
        are those directly below it, and its shares those of the whole tree.
      largest_work: the largest work of a shard over the mean.
      largest_rows: the largest number of rows of a shard over the mean.
      largest_by_chance: the work of the fullest shard in the mean of the steps,
        over the mean of all shards; None without a batch. It is above
        `largest_work`, since labels are drawn.
      wire_bytes: those that leave the device of the body or come back; None
        without batch and width, as are those that follow.
      wire_bytes_per_example: of those whose label is below the top.
      parameter_bytes: those that would travel instead, if touched rows were
        fetched from the devices and their gradients sent there.
      wire_milliseconds: what the network takes for `wire_bytes`.
      remarks: sentences that say what is not even, and why; and whether the
        top takes longer than the slowest shard.
      step: the `Step`.
    """

    shards: tuple[ShardCost, ...]
    top: ShardCost
    largest_work: float
    largest_rows: float
    largest_by_chance: float | None
    wire_bytes: float | None
    wire_bytes_per_example: float | None
    parameter_bytes: float | None
    wire_milliseconds: float | None
    remarks: tuple[str, ...]
    step: Step


def plan_cost(plan):
    """Returns the `PlanCost` of a plan."""
    step, loads = plan.step, plan.layout.unit_loads
    num_classes = plan.tree.num_classes
    total = {
        "rows": plan.tree.num_weight_rows - plan.layout.top.num_weight_rows,
        "work": loads.work.sum(),
    }
    shards = []
    for shard in plan.shards:
        units = slice(shard.first_unit, shard.first_unit + shard.num_units)
        here = loads.map(lambda x, units=units: float(x[units].sum()))
        shards.append(
            _cost(
                step,
                here,
                total,
                num_classes,
                device=shard.device,
                subtrees=shard.num_units,
                classes=shard.num_classes,
                rows=shard.num_rows // (2 if plan.tree.pinned else 1),
            )
        )
    top = _top_cost(plan, total)
    chance = None
    if step.batch is not None:
        squares = _sums(plan, loads.squares)
        means = step.batch * _sums(plan, loads.work)
        largest = expected_largest(means, step.batch * squares)
        chance = _over_mean(largest, means.sum(), len(shards))
    wire = fetched = per_example = wire_ms = None
    if step.batch is not None and step.width is not None:
        wire = sum(s.wire_bytes for s in shards)
        per_example = step.wire_bytes(1, num_classes)
        fetched = step.parameter_bytes(sum(s.touched_rows for s in shards))
        wire_ms = step.wire_milliseconds(wire)
    return PlanCost(
        shards=tuple(shards),
        top=top,
        largest_work=_over_mean(
            max(s.work for s in shards), total["work"], len(shards)
        ),
        largest_rows=_over_mean(
            max(s.rows for s in shards), total["rows"], len(shards)
        ),
        largest_by_chance=chance,
        wire_bytes=wire,
        wire_bytes_per_example=per_example,
        parameter_bytes=fetched,
        wire_milliseconds=wire_ms,
        remarks=(*uneven.remarks(plan), *uneven.binding(step, top, shards)),
        step=step,
    )


def _cost(step, here, total, num_classes, **facts):
    """Returns a `ShardCost`, of the sums of the loads of a shard."""
    wire = milliseconds = None
    if step.batch is not None and step.width is not None:
        wire = step.wire_bytes(step.batch * here.masses, num_classes)
        milliseconds = 0.0
        if here.work > 0:
            milliseconds = float(
                step.milliseconds(step.batch * here.work, here.touched)
            )
    return ShardCost(
        rows_share=facts["rows"] / max(total["rows"], 1),
        work=here.work,
        work_share=here.work / total["work"] if total["work"] > 0 else 0.0,
        examples_share=here.masses,
        bytes=None if step.width is None else step.bytes_of(facts["rows"]),
        touched_rows=here.touched,
        wire_bytes=wire,
        milliseconds=milliseconds,
        **facts,
    )


def _top_cost(plan, total):
    """Returns the `ShardCost` of the top."""
    step, top = plan.step, plan.layout.top
    masses = plan.layout.unit_loads.masses
    work, touched, milliseconds = top.expected_cost(masses), None, None
    if step.batch is not None:
        cost = top.expected_cost(masses, batch=step.batch, width=1)
        touched = cost.touched_rows
        if step.width is not None:
            milliseconds = float(step.milliseconds(step.batch * work, touched))
    return ShardCost(
        device="",
        subtrees=plan.layout.num_units - plan.layout.num_leaf_units,
        classes=plan.layout.num_leaf_units,
        rows=top.num_weight_rows,
        rows_share=top.num_weight_rows / plan.tree.num_weight_rows,
        work=work,
        work_share=work / (work + total["work"]),
        examples_share=1.0,
        bytes=None
        if step.width is None
        else step.bytes_of(top.num_weight_rows),
        touched_rows=touched,
        wire_bytes=None if milliseconds is None else 0.0,
        milliseconds=milliseconds,
    )


def _sums(plan, values):
    """Returns the sum of what the units of each shard have, `[S]`."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.diff(sums[plan.layout.first_units])


def _over_mean(largest, total, count):
    """Returns the largest over the mean; 1 where nothing is there."""
    return float(largest * count / total) if total > 0 else 1.0
