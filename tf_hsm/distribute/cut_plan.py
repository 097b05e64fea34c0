"""A plan: which part of a tree is on which device."""

import dataclasses
import functools
from collections.abc import Iterable

import numpy as np

from tf_hsm.distribute import plan_config
from tf_hsm.distribute.plan_cost import PlanCost, plan_cost
from tf_hsm.distribute.plan_devices import (
    REPLICAS,
    check_devices,
    devices_of_replicas,
)
from tf_hsm.distribute.plan_layout import PlanLayout
from tf_hsm.distribute.plan_report import report
from tf_hsm.distribute.planned_step import Step
from tf_hsm.distribute.shard import Shard
from tf_hsm.tree import Tree
from tf_hsm.tree.immutable import Immutable
from tf_hsm.tree.tree import check_one_tree


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
        if isinstance(devices, str) and devices == REPLICAS:
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
        return self.layout.weight_rows_of(shard)

    def get_config(self) -> dict:
        """Returns all but the tree as a dict that JSON can hold."""
        return plan_config.to_config(self)

    @classmethod
    def from_config(cls, config: dict, tree: Tree) -> "Plan":
        """Makes the plan of a tree that `get_config` described.

        Raises:
          ValueError: the config is malformed, or one of another tree.
        """
        return cls(tree, **plan_config.from_config(config))

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
