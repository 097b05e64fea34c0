"""Plans: which part of a tree is on which device."""

import dataclasses
import functools
import zlib
from collections.abc import Iterable

import numpy as np

from tf_hsm import _checks
from tf_hsm.distribute.below import SubtreeLoads, below_groups, below_units
from tf_hsm.distribute.cut import cut
from tf_hsm.distribute.plan_cost import PlanCost, plan_cost
from tf_hsm.distribute.plan_devices import (
    check_devices,
    devices_of_replicas,
    is_replicas,
)
from tf_hsm.distribute.plan_layout import PlanLayout, Shard
from tf_hsm.distribute.plan_report import report
from tf_hsm.distribute.planned_step import Step
from tf_hsm.tree import Tree, files
from tf_hsm.tree.immutable import Immutable
from tf_hsm.tree.tree import check_one_tree

_VERSION = 1  # of the config
# Fields of a step in configs of earlier versions.
_RENAMED = {"dim": "width", "memory": "bandwidth"}


class Plan(Immutable):
    """A tree that is cut into a top and subtrees, and devices for these.

    The top is a small tree beside the body of the model, and all examples pass
    it. Where the devices are replicas, each has a copy of the top. The classes
    of the top are the units: classes whose leaves are in it, and subtrees.
    Units stand in one order, which does not depend on the devices; each device
    has an interval of them. So the rows below the top stand in one order too,
    of which each device has a slice, and what was trained on some devices can
    be loaded on any other number of them. `on` makes the plan for these.

    Attributes:
      tree: the `tf_hsm.Tree`.
      devices: a tuple of names of devices, one for each shard.
      step: the `Step` that it is for.
      layout: the `PlanLayout`, arrays that say where each row and class stands;
        the heads need it, users do not.
    """

    def __init__(
        self,
        tree,
        devices,
        *,
        unit_rows,
        unit_loads,
        first_units=None,
        step=None,
    ):
        """Checks and copies what a plan is made of.

        Args:
          tree: a `tf_hsm.Tree`.
          devices: as in `tf_hsm.distribute.plan`.
          unit_rows: `[U]`, the row of the tree of each unit; the leaves that
            are in the top come first.
          unit_loads: `[U]`, the `SubtreeLoads` of each unit.
          first_units: `[S + 1]`, the first unit of each device, and U; None
            spreads the units over the devices evenly.
          step: the `Step` that the plan is for; None: a default one.

        Raises:
          ValueError: an argument is none of these; the message names it.
        """
        check_one_tree(tree)
        step = Step() if step is None else step
        if is_replicas(devices):
            devices = devices_of_replicas()
            step = dataclasses.replace(step, on_replicas=True)
        own = self.__dict__
        own["tree"] = tree
        own["devices"] = check_devices(devices)
        own["step"] = step
        own["layout"] = PlanLayout(
            tree,
            self.devices,
            unit_rows=unit_rows,
            unit_loads=unit_loads,
            first_units=first_units,
        )

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The contents of each device."""
        return self.layout.shards

    @functools.cached_property
    def cost(self) -> PlanCost:
        """The cost of a step on each device, and the balance of the costs."""
        return plan_cost(self)

    def on(self, devices) -> "Plan":
        """Returns the plan of the same cut for other devices.

        Args:
          devices: as in `tf_hsm.distribute.plan`. A number of devices stands
            for replicas if the devices of this plan are replicas.
        """
        step = self.step
        if isinstance(devices, Iterable):  # names, or "replicas"
            step = dataclasses.replace(step, on_replicas=False)
        return Plan(
            self.tree,
            devices,
            unit_rows=self.layout.unit_rows,
            unit_loads=self.layout.unit_loads,
            step=step,
        )

    def weight_rows_of(self, shard=None) -> np.ndarray:
        """Returns the rows of the tree's weights that a part has, `[n]`.

        They are the rows of the tree; for a pinned tree its groups, as each
        group has one row of weights.

        Args:
          shard: one of `shards`; None: the top.
        """
        layout = self.layout
        rows = layout.top_rows if shard is None else layout.rows_of(shard)
        return rows[::2] // 2 if self.tree.pinned else rows

    def get_config(self) -> dict:
        """Returns all but the tree as a dict that JSON can hold."""
        return {
            "version": _VERSION,
            "devices": list(self.devices),
            "unit_rows": files.pack(self.layout.unit_rows),
            "unit_loads": self.layout.unit_loads.map(_pack)._asdict(),
            "first_units": self.layout.first_units.tolist(),
            "step": self.step.get_config(),
        }

    @classmethod
    def from_config(cls, config: dict, tree: Tree) -> "Plan":
        """Makes the plan of a tree that `get_config` described.

        Raises:
          ValueError: the config is malformed, or one of another tree.
        """
        try:
            if config["version"] != _VERSION:
                raise ValueError(
                    f"it has version {config['version']!r}; this tf_hsm reads "
                    f"version {_VERSION}"
                )
            loads = SubtreeLoads(**config["unit_loads"]).map(_unpack)
            step = {_RENAMED.get(k, k): v for k, v in config["step"].items()}
            arguments = {
                "devices": config["devices"],
                "unit_rows": files.unpack(config["unit_rows"]),
                "unit_loads": loads,
                "first_units": config["first_units"],
                "step": Step.from_config(step),
            }
        except (
            ValueError,
            TypeError,
            LookupError,
            OverflowError,
            AttributeError,
            zlib.error,
        ) as error:
            raise ValueError(
                f"not a config of tf_hsm.distribute.Plan.get_config: {error!r}"
            ) from error
        return cls(tree, **arguments)

    def __str__(self):
        """Returns a text: the top, each shard, the step, what is uneven."""
        return report(self)

    def __repr__(self):
        """Names the sizes."""
        return (
            f"Plan({self.tree!r}, devices={list(self.devices)}, "
            f"num_units={self.layout.num_units})"
        )

    def __hash__(self):
        """Hashes tree, devices and cut."""
        return hash((self.tree, self.devices, self.layout.unit_rows.tobytes()))

    def __eq__(self, other):
        """Compares tree, devices and what each of them has."""
        if not isinstance(other, Plan):
            return NotImplemented
        return (
            self.tree == other.tree
            and self.devices == other.devices
            and np.array_equal(self.layout.unit_rows, other.layout.unit_rows)
            and np.array_equal(
                self.layout.first_units, other.layout.first_units
            )
        )

    def __reduce__(self):
        """Pickles what the constructor takes."""
        make = functools.partial(
            type(self),
            unit_rows=self.layout.unit_rows,
            unit_loads=self.layout.unit_loads,
            first_units=self.layout.first_units,
            step=self.step,
        )
        return make, (self.tree, self.devices)


def plan(
    tree,
    devices=None,
    *,
    replicas=None,
    counts=None,
    batch=None,
    width=None,
    top=256,
    slots=1,
    dtype="float32",
    network=1.25e9,
    bandwidth=None,
    cost_model=None,
) -> Plan:
    """Cuts a tree into subtrees of like size, and spreads them over devices.

    The cut depends on the tree, `counts` and `top` alone. So `plan.on` other
    devices is the same model, and can load what was trained on these. All but
    these three arguments and the devices are for what the plan says of a step:
    `print(plan)`, `plan.cost`.

    >>> from tf_hsm.distribute import plan
    >>> cut = plan(Tree.two_level(1_000_000), ["GPU:0", "GPU:1"])
    >>> [(shard.num_units, shard.num_rows) for shard in cut.shards]
    [(500, 500000), (500, 500000)]
    >>> print(plan(tree, replicas=8, batch=4096, width=512))

    Devices get like shares of the work, the rows that an example scores in the
    mean (`Tree.expected_cost`), and of the rows. What is large and cannot be
    cut, as a group, is said in a sentence (`plan.cost.remarks`).

    Args:
      tree: a `tf_hsm.Tree`.
      devices: a list of names of devices, as `tf.device` takes them, one for
        each shard; or how many there are, to plan on paper. One more device
        has the body and the top. "replicas" stands for the replicas of the
        current strategy, as in a layer with `devices="replicas"`.
      replicas: in place of `devices`, how many replicas there are, to plan a
        layer with `devices="replicas"` on paper: each replica has one shard and
        a copy of the top, and computes the body for its part of the batch.
      counts: `[N]`, how often each class is the label; when None, the counts of
        the tree, or all alike if it has none.
      batch: the examples in a step, of all replicas together.
      width: D, the width of the inputs.
      top: about how many subtrees there are to spread, if the tree has so many.
        Those with more than 1 / top of the work or of the rows are cut, as far
        as that keeps the top, which all examples pass, below `16 top` rows or
        the root's group.
      slots: how many numbers the optimizer has for each weight: 0 for SGD, 1
        for Adagrad, RMSprop and Lion, 2 for LazyAdam; 0 is near for
        RowwiseAdagrad.
      dtype: of weights and inputs.
      network: bytes a second into, and out of, the device of the body, or each
        replica.
      bandwidth: bytes a second that each device reads from its memory or writes
        to it; None for the rate of the cost model.
      cost_model: a `tf_hsm.CostModel` of one device; by default one of two
        cores.

    Returns:
      A `Plan`.

    Raises:
      TypeError: `tree` is no Tree, a name of a device is no str, or
        `cost_model` is something else.
      ValueError: there is no device; both `devices` and `replicas` are given,
        or neither; a count is negative, infinite or NaN, or all are zero; or a
        number is out of its range.
    """
    check_one_tree(tree)
    if (devices is None) == (replicas is None):
        raise ValueError("give either devices or replicas")
    if replicas is not None:
        devices = _checks.check_int("replicas", replicas, 1)
    top = _checks.check_int("top", top, 1)
    step = Step.of(
        bandwidth,
        cost_model,
        batch=batch,
        width=width,
        slots=slots,
        dtype=dtype,
        network=network,
        on_replicas=replicas is not None,
    )
    counts = tree._counts_or_own(counts)
    if counts is not None:
        counts = _checks.check_counts(counts, tree.num_classes)
    below = below_groups(tree, counts, step.batch)
    units = cut(tree, below.rows, below.work, top)
    loads = below_units(tree, below, counts, units)
    return Plan(tree, devices, unit_rows=units, unit_loads=loads, step=step)


def _pack(numbers):
    return files.pack(np.ascontiguousarray(numbers).view(np.int64))


def _unpack(field):
    return files.unpack(field).view(np.float64)
