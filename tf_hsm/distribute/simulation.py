"""Steps of a plan, batch after batch: what each device has to do, and waits."""

import dataclasses

import numpy as np

from tf_hsm._units import digits, of_bytes
from tf_hsm.distribute.planned_step import Step


@dataclasses.dataclass(frozen=True, eq=False)
class Simulation:
    """The work of the devices of a plan in some steps.

    A step is synchronous: it ends when the slowest device is done. Waiting is
    the share of the shards' time in which a device has nothing to do, in the
    mean of all devices.

    Attributes:
      devices: S names.
      batches: `[steps]` int64, the examples in each step.
      examples: `[steps, S]` int64, those that have their label on each device.
      work: `[steps, S]` int64, the rows that they score there.
      touched_rows: `[steps, S]` int64, the rows that any of them scores.
      top_work: `[steps, R]` int64, the rows scored in the top by each part of
        the batch. R is the number of replicas, each of which has a part; else
        1.
      step: the plan's `Step`.
      wire_bytes: `[steps, S]`, the bytes that each device sends and receives;
        None without a width, as are those that follow.
      network_milliseconds: `[steps]`, what the network takes.
      milliseconds: `[steps, S]`, the prediction of the cost model; 0 where a
        device has no example.
      top_milliseconds: `[steps, R]`, of the top.
    """

    devices: tuple[str, ...]
    batches: np.ndarray
    examples: np.ndarray
    work: np.ndarray
    touched_rows: np.ndarray
    top_work: np.ndarray
    step: Step
    wire_bytes: np.ndarray | None = None
    network_milliseconds: np.ndarray | None = None
    milliseconds: np.ndarray | None = None
    top_milliseconds: np.ndarray | None = None

    @property
    def largest_work(self) -> float:
        """The work of the fullest shard, over the work of the mean shard.

        Both are means over all steps, as in `PlanCost.largest_by_chance`; 1
        where there is no work.
        """
        return _largest(self.work)

    @property
    def waiting(self) -> float:
        """The share of the time in which the mean device waits.

        By milliseconds; without a width by work, as if all rows took the same.
        """
        measure = self.work if self.milliseconds is None else self.milliseconds
        return 1 - 1 / _largest(measure)

    @property
    def step_milliseconds(self) -> np.ndarray | None:
        """`[steps]`: the slowest top, the network, and the slowest shard.

        One after the other, as if nothing overlapped.
        """
        if self.milliseconds is None:
            return None
        return (
            self.top_milliseconds.max(1)
            + self.network_milliseconds
            + self.milliseconds.max(1)
        )

    def __str__(self):
        """Returns lines to read."""
        steps, count = self.work.shape
        what, of_top = "device", "in the top"
        if self.step.on_replicas:
            what, of_top = "replica", "in the top by the mean replica"
        lines = [
            f"{steps:,} step{'s' * (steps != 1)} of "
            f"{self.batches.mean():,.0f} examples on {count:,} "
            f"{what}{'s' * (count != 1)}",
            f"  rows scored in a step: {self.top_work.mean():,.0f} {of_top}, "
            f"{self.work.mean():,.0f} in the mean shard, "
            f"{self.work.max(1).mean():,.0f} on the fullest "
            f"({self.largest_work:.3f} times as many)",
        ]
        if self.milliseconds is not None:
            # The body's device, unless a replica, is at the end of all links.
            wire = self.wire_bytes.sum(1).mean()
            if self.step.on_replicas:
                wire /= 2
            lines += [
                f"  on the wire: {of_bytes(wire)} a step, "
                f"{of_bytes(self.wire_bytes.max(1).mean())} on the busiest "
                "link",
                f"  predicted: {digits(self.top_milliseconds.max(1).mean())} "
                "ms for the top, "
                f"{digits(self.network_milliseconds.mean())} ms for "
                "the network, "
                f"{digits(self.milliseconds.max(1).mean())} ms for the slowest "
                f"shard, {digits(self.milliseconds.mean())} ms for the mean "
                f"one: {digits(self.step_milliseconds.mean())} ms a step",
            ]
        lines.append(
            f"  the mean device waits {100 * self.waiting:.1f}% of the time "
            "that the slowest takes"
        )
        return "\n".join(lines)


def _largest(values):
    """Returns the mean of the largest of each step, over the mean of all."""
    mean = values.mean()
    return float(values.max(1).mean() / mean) if mean > 0 else 1.0
