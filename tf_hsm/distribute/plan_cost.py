"""The cost of a step on each device of a plan, and its balance."""

import dataclasses
import math

import numpy as np

from tf_hsm.distribute import plan_report
from tf_hsm.distribute.planned_step import Step

_POINTS = 2000
# erf is not in NumPy.
_GRID = np.linspace(-9, 9, 4001)
_NORMAL = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in _GRID])


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
      bytes: of weights, biases and slots; on a replica with the bytes of its
        copy of the top. None without a width.
      touched_rows: the rows that a batch touches; None without a batch.
      sent_bytes: the bytes that it sends in a step. None without a batch or a
        width, as are the attributes below.
      received_bytes: the bytes that it receives in a step.
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
    sent_bytes: float | None
    received_bytes: float | None
    milliseconds: float | None

    @property
    def wire_bytes(self) -> float | None:
        """The bytes that the device sends and receives in a step."""
        if self.sent_bytes is None:
            return None
        return self.sent_bytes + self.received_bytes


@dataclasses.dataclass(frozen=True)
class PlanCost:
    """The means of one step of a plan, where labels are drawn by its counts.

    Attributes:
      shards: a `ShardCost` for each device.
      top: the `ShardCost` of the top, which all examples pass. Its classes and
        subtrees lie directly below the top, and its shares are shares of the
        whole tree. Over replicas, its touched rows and milliseconds are for the
        part of the batch that one replica has, and its bytes are the bytes of
        one copy. Its bytes sent are the gradients of the top, which each
        replica sends among its own bytes.
      largest_work: the largest work of a shard over the mean.
      largest_rows: the largest number of rows of a shard over the mean.
      largest_by_chance: the work of the fullest shard in the mean of the steps,
        over the mean of all shards; None without a batch. It is above
        `largest_work`, since labels are drawn.
      wire_bytes: the bytes that all devices send in a step, the device of the
        body among them, without padding. None without a batch or a width, as
        are the numbers below.
      wire_bytes_per_example: the bytes that travel for an example whose label
        is in the shard of another device.
      parameter_bytes: the bytes that would travel instead, if the devices sent
        touched rows and received their gradients.
      wire_milliseconds: what the network takes: for the device of the body, or
        for the replica that sends or receives the most.
      milliseconds: of a step: the top, the network and the slowest shard, as if
        nothing overlapped.
      worst_milliseconds: of a step whose labels are all in one shard, the
        slowest; at most, as the step may touch fewer rows.
      remarks: sentences that say what is not even, and why; and whether the
        top takes longer than the slowest shard.
      padding: how many times `wire_bytes_per_example` an example takes between
        processes, which pad all messages of a step to the largest: the mean.
        None where no replica sends examples to another.
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
    milliseconds: float | None
    worst_milliseconds: float | None
    remarks: tuple[str, ...]
    padding: float | None
    step: Step


def plan_cost(plan):
    """Returns the `PlanCost` of a plan."""
    step, loads = plan.step, plan.layout.unit_loads
    top = _top_cost(plan)
    # As the masses of a shard: of a shard with all units nothing is left.
    below = float(loads.masses[plan.layout.num_leaf_units :].sum())
    shards = tuple(
        _shard_cost(plan, shard, top, below) for shard in plan.shards
    )
    work = [shard.work for shard in shards]
    # What needs a batch, or a width too, is None without it.
    costs = dict.fromkeys(field.name for field in dataclasses.fields(PlanCost))
    if step.batch is not None:
        squares = [loads.squares[_units_of(s)].sum() for s in plan.shards]
        means = step.batch * np.array(work)
        largest = expected_largest(means, step.batch * np.array(squares))
        costs["largest_by_chance"] = _over_mean(means, largest)
        if step.width is not None:
            costs.update(_step_costs(plan, top, shards, below))
        shares = np.array([shard.examples_share for shard in shards])
        if step.on_replicas and len(shards) > 1 and below > 0:
            costs["padding"] = _padding(step.batch / len(shards), shares)
    costs.update(
        shards=shards,
        top=top,
        largest_work=_over_mean(work, max(work)),
        largest_rows=_over_mean(
            [s.rows for s in shards], max(s.rows for s in shards)
        ),
        remarks=tuple(plan_report.remarks(plan, top, shards)),
        step=step,
    )
    return PlanCost(**costs)


def _step_costs(plan, top, shards, below):
    """Returns the fields of a `PlanCost` that need a batch and a width."""
    step, num_classes = plan.step, plan.tree.num_classes
    touched = sum(s.touched_rows for s in shards)
    sent = sum(s.sent_bytes for s in shards)
    any_below = below > 0
    if step.on_replicas:
        network = max(
            step.exchange_milliseconds(*examples, num_classes)
            for examples in (
                _exchanged(plan, s.examples_share, below) for s in shards
            )
        )
        summing = 1e3 * top.sent_bytes / step.network
        worst = step.exchange_milliseconds(
            *_exchanged(plan, any_below, any_below), num_classes
        )
        network, worst = network + summing, worst + summing
    else:
        sent += sum(s.received_bytes for s in shards)
        network = step.wire_milliseconds(sent)
        worst = step.wire_milliseconds(
            step.wire_bytes(step.batch * any_below, num_classes)
        )
    return {
        "wire_bytes": sent,
        "wire_bytes_per_example": step.wire_bytes(1, num_classes),
        "parameter_bytes": step.parameter_bytes(touched),
        "wire_milliseconds": network,
        "milliseconds": top.milliseconds
        + network
        + max(s.milliseconds for s in shards),
        "worst_milliseconds": top.milliseconds
        + worst
        + max(_worst_milliseconds(step, s) for s in shards),
    }


def _padding(examples, shares):
    """The mean of the largest message of a step, over the mean message.

    Args:
      examples: how many each replica has.
      shares: `[W]`, the share of them that each replica is sent.
    """
    count = max(round(examples), 1)
    means = count * shares[shares > 0, np.newaxis]
    most = means.max()
    end = min(count, np.ceil(most + 9 * np.sqrt(most) + 20))
    # Binomial laws, as if all messages were independent.
    numbers = np.arange(1, end + 1)
    ways = np.cumsum(np.log((count - numbers + 1) / numbers))
    odds = np.minimum(means / count, 1 - 1e-15)
    none = count * np.log1p(-odds)
    laws = np.exp(ways + none + numbers * np.log(odds / (1 - odds)))
    at_most = np.cumsum(np.concatenate([np.exp(none), laws], 1), 1)
    largest = np.sum(1 - np.prod(at_most, 0) ** shares.size)
    return float(largest * shares.size / means.sum())


def _worst_milliseconds(step, shard):
    """Returns the milliseconds of a shard that has all labels, at most."""
    if not shard.examples_share:
        return 0.0
    scored = step.batch * shard.work / shard.examples_share
    return float(step.milliseconds(scored, min(shard.rows, scored)))


def _exchanged(plan, share, below):
    """Returns how many examples leave a device, and how many arrive there.

    `share` of the batch has its label in the device's shard, `below` in any.
    """
    own = 0.0
    if plan.step.on_replicas:
        own = plan.step.batch / len(plan.devices)
    return own * max(below - share, 0.0), (plan.step.batch - own) * share


def _shard_cost(plan, shard, top, below):
    """Returns the `ShardCost` of a shard."""
    step, layout = plan.step, plan.layout
    here = layout.unit_loads.map(lambda x: float(x[_units_of(shard)].sum()))
    rows = shard.num_rows // (2 if plan.tree.pinned else 1)
    rows_below = plan.tree.num_weight_rows - layout.top.num_weight_rows
    work_below = layout.unit_loads.work.sum()
    size = sent = received = milliseconds = None
    if step.width is not None:
        size = step.bytes_of(rows) + step.on_replicas * top.bytes
        if step.batch is not None:
            leaving, arriving = _exchanged(plan, here.masses, below)
            num_classes = plan.tree.num_classes
            sent = step.sent_bytes(leaving, arriving, num_classes)
            received = step.sent_bytes(arriving, leaving, num_classes)
            sent, received = sent + top.sent_bytes, received + top.sent_bytes
            milliseconds = 0.0
            if here.work > 0:
                scored = step.batch * here.work
                milliseconds = float(step.milliseconds(scored, here.touched))
    return ShardCost(
        device=shard.device,
        subtrees=shard.num_units,
        classes=shard.num_classes,
        rows=rows,
        rows_share=rows / max(rows_below, 1),
        work=here.work,
        work_share=here.work / work_below if work_below > 0 else 0.0,
        examples_share=here.masses,
        bytes=size,
        touched_rows=here.touched,
        sent_bytes=sent,
        received_bytes=received,
        milliseconds=milliseconds,
    )


def _top_cost(plan):
    """Returns the `ShardCost` of the top."""
    step, top = plan.step, plan.layout.top
    masses = plan.layout.unit_loads.masses
    work, touched = top.expected_cost(masses), None
    size = sent = milliseconds = None
    if step.width is not None:
        size = step.bytes_of(top.num_weight_rows)
    replicas = len(plan.devices) if step.on_replicas else 1
    if step.batch is not None:
        batch = -(-step.batch // replicas)
        touched = top.expected_cost(masses, batch=batch, width=1).touched_rows
        if step.width is not None:
            milliseconds = float(step.milliseconds(batch * work, touched))
            sent, _ = step.top_gradient_bytes(
                top.num_weight_rows, touched, replicas
            )
    return ShardCost(
        device="",
        subtrees=plan.layout.num_units - plan.layout.num_leaf_units,
        classes=plan.layout.num_leaf_units,
        rows=top.num_weight_rows,
        rows_share=top.num_weight_rows / plan.tree.num_weight_rows,
        work=work,
        work_share=work / (work + plan.layout.unit_loads.work.sum()),
        examples_share=1.0,
        bytes=size,
        touched_rows=touched,
        sent_bytes=sent,
        received_bytes=sent,
        milliseconds=milliseconds,
    )


def _units_of(shard):
    """Returns the slice of the units of a shard."""
    return slice(shard.first_unit, shard.first_unit + shard.num_units)


def _over_mean(values, largest):
    """Returns the largest over the mean of values; 1 if there is nothing."""
    total = np.sum(values)
    return float(largest * len(values) / total) if total > 0 else 1.0


def expected_largest(means, squares):
    """Returns the mean of the largest of independent sums, a float.

    Sum i has a random number of terms, by Poisson's law, and is taken to be a
    multiple of such a number itself. Its law is approximated as the law of a
    chi-square variable is by Wilson and Hilferty (1931): off by less than 1%
    from a few terms per sum on. Where terms are many, the result is near
    `mean + sqrt(2 ln S * squares)`, and below it.

    A batch has a fixed number of examples, so that one shard has fewer where
    another has more; the difference of the largest and the mean is the same.

    Args:
      means: `[S]`, of each sum.
      squares: `[S]`, the sum of the squares of its terms, in the mean: its
        variance.
    """
    means, squares = (np.asarray(x, np.float64) for x in (means, squares))
    means, squares = means[means > 0], squares[means > 0]
    if means.size < 2:
        return float(means.sum())
    scales = squares / means
    numbers = means / scales
    deviations = np.sqrt(squares)
    begin = max((means - 8 * deviations).max(), 0.0)
    end = (means + 8 * deviations + 8 * scales).max()
    points = np.linspace(begin, end, _POINTS)
    below = np.ones(_POINTS)
    for scale, number in zip(scales, numbers, strict=True):
        # P(n <= k): a Gamma variable of shape k + 1 lies above `number`.
        shape = points / scale + 0.5
        third = 1 / (9 * shape)
        normal = (1 - third - np.cbrt(number / shape)) / np.sqrt(third)
        below *= np.interp(normal, _GRID, _NORMAL)
    above = 1 - below
    area = above.sum() - (above[0] + above[-1]) / 2
    return float(begin + area * (points[1] - points[0]))
