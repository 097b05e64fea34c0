"""A plan: which part of a tree is on which device."""

import functools

import numpy as np

from tf_hsm.distribute import plan_config, units
from tf_hsm.distribute.devices import check_devices
from tf_hsm.distribute.intervals import intervals
from tf_hsm.distribute.plan_cost import PlanCost, plan_cost
from tf_hsm.distribute.plan_plot import plot_plan
from tf_hsm.distribute.plan_report import report
from tf_hsm.distribute.shard import Shard
from tf_hsm.distribute.simulate import simulate
from tf_hsm.distribute.simulation import Simulation
from tf_hsm.distribute.step import Step
from tf_hsm.tree import Tree
from tf_hsm.tree.arrays import TreeArrays
from tf_hsm.tree.forest import Forest
from tf_hsm.tree.immutable import Immutable


class Plan(Immutable):
    """A tree that is cut into a top and subtrees, and devices for these.

    The top is a small tree beside the body of the model, and all examples pass
    it. Its classes are the units: classes whose leaves are in it, and subtrees.
    Units stand in one order, which does not depend on the devices; each device
    has an interval of them. So the rows below the top stand in one order too,
    of which each device has a slice, and what was trained on some devices can
    be loaded on any other number of them. `on` makes the plan for these.

    Attributes:
      tree: the `tf_hsm.Tree`.
      devices: a tuple of names of devices, one for each shard.
      unit_rows: `[U]` int64, the row of the tree of each unit; the leaves that
        are in the top come first.
      unit_loads: `[U]`, the `Below` of each: what a step has to do there.
      first_units: `[S + 1]` int64, the first unit of each device, and U.
      step: the `Step` that it is for.
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
        """Checks and copies what the class describes.

        Without `first_units`, units are spread over the devices evenly.
        """
        if not isinstance(tree, Tree):
            raise TypeError(
                f"tree must be a tf_hsm.Tree, but is {type(tree).__name__}"
            )
        own = self.__dict__
        own["tree"] = tree
        own["devices"] = check_devices(devices)
        own["unit_rows"] = _read_only(np.array(unit_rows, np.int64))
        own["unit_loads"] = unit_loads.map(
            lambda x: _read_only(np.array(x, np.float64))
        )
        own["step"] = Step() if step is None else step
        self._check_units()
        if first_units is None:
            first_units = self._spread()
        own["first_units"] = _read_only(np.array(first_units, np.int64))
        self._check_first_units()

    def on(self, devices) -> "Plan":
        """Returns the plan of the same cut for other devices.

        Args:
          devices: as in `tf_hsm.distribute.plan`.
        """
        return Plan(
            self.tree,
            devices,
            unit_rows=self.unit_rows,
            unit_loads=self.unit_loads,
            first_units=None,
            step=self.step,
        )

    @functools.cached_property
    def cost(self) -> PlanCost:
        """What a step costs on each device, and how even that is."""
        return plan_cost(self)

    def simulate(
        self, batches=None, *, counts=None, batch=None, steps=None, seed=0
    ) -> Simulation:
        """Returns what each device would do in some steps, and how it waits.

        >>> print(plan.simulate(counts=counts, batch=2048))

        Args:
          batches: labels, an array or an iterable of arrays, one for each step;
            or None, to draw them.
          counts: `[N]`, how often each class is the label, from which to draw;
            all alike when None.
          batch: the examples in a step; those of the plan when None.
          steps: how many steps to draw; 100 when None.
          seed: of the drawing.

        Raises:
          ValueError: a label is out of range, a count is negative, infinite or
            NaN, or all are zero; or there is no step, or no batch.
        """
        return simulate(self, batches, counts, batch, steps, seed)

    def plot(self, path=None):
        """Draws the shares of the devices, and the top beside them.

        Args:
          path: the file to write, .png, .svg or .pdf; or None.

        Returns:
          A `matplotlib.figure.Figure`.

        Raises:
          ImportError: matplotlib, an optional extra, is not installed.
          ValueError: matplotlib knows no format of the suffix of `path`.
        """
        return plot_plan(self, path)

    def __str__(self):
        """Returns a text: the top, each shard, the step, what is uneven."""
        return report(self)

    def __repr__(self):
        """Names the sizes."""
        return (
            f"Plan({self.tree!r}, devices={list(self.devices)}, "
            f"num_units={self.num_units})"
        )

    def __hash__(self):
        """Hashes tree, devices and cut."""
        return hash((self.tree, self.devices, self.unit_rows.tobytes()))

    def __eq__(self, other):
        """Compares tree, devices and what each of them has."""
        if not isinstance(other, Plan):
            return NotImplemented
        return (
            self.tree == other.tree
            and self.devices == other.devices
            and np.array_equal(self.unit_rows, other.unit_rows)
            and np.array_equal(self.first_units, other.first_units)
        )

    @property
    def unit_work(self) -> np.ndarray:
        """`[U]`, the mean number of rows below each that an example scores."""
        return self.unit_loads.work

    @property
    def num_units(self) -> int:
        """U."""
        return self.unit_rows.size

    @functools.cached_property
    def top(self) -> Tree:
        """The tree of all groups above the cut; its class u is unit u."""
        groups = np.flatnonzero(self.group_units < 0)
        fanouts = np.diff(self.tree.group_offsets)[groups]
        place = np.full(self.tree.num_rows, -1, np.int64)
        place[self.top_rows] = np.arange(self.top_rows.size)
        parents = self.tree.group_parents[groups]
        return Tree(
            np.concatenate([[0], np.cumsum(fanouts)]),
            np.where(parents < 0, -1, place[parents]),
            place[self.unit_rows],
            pinned=self.tree.pinned,
        )

    @functools.cached_property
    def top_rows(self) -> np.ndarray:
        """`[rows of the top]`, the row of the tree of each row of the top."""
        return _read_only(
            np.flatnonzero(self.group_units[self.tree.row_groups] < 0)
        )

    @functools.cached_property
    def unit_places(self) -> np.ndarray:
        """`[U + 1]`, the first place of the classes below each unit, and N."""
        sizes = np.bincount(self._class_units, minlength=self.num_units)
        return _read_only(np.concatenate([[0], np.cumsum(sizes)]))

    @functools.cached_property
    def class_places(self) -> np.ndarray:
        """`[N]`, the place of each class: by units, then depth-first."""
        ranks = self.tree.class_ranks
        class_units = self._class_units
        by_rank = np.empty(ranks.size, np.int64)
        by_rank[ranks] = class_units
        # The classes below a unit are an interval of ranks.
        starts = np.flatnonzero(np.diff(by_rank, prepend=-1))
        first_ranks = np.empty(self.num_units, np.int64)
        first_ranks[by_rank[starts]] = starts
        shifts = self.unit_places[:-1] - first_ranks
        return _read_only(ranks + shifts[class_units])

    @functools.cached_property
    def place_classes(self) -> np.ndarray:
        """`[N]`, the class at each place."""
        classes = np.empty(self.tree.num_classes, np.int64)
        classes[self.class_places] = np.arange(self.tree.num_classes)
        return _read_only(classes)

    @functools.cached_property
    def row_order(self) -> np.ndarray:
        """`[rows below the top]`, rows of the tree, in the plan's order."""
        fanouts = np.diff(self.tree.group_offsets)[self._group_order]
        starts = self.tree.group_offsets[self._group_order]
        shifts = starts - (np.cumsum(fanouts) - fanouts)
        return _read_only(np.arange(fanouts.sum()) + np.repeat(shifts, fanouts))

    def rows_of(self, shard) -> np.ndarray:
        """`[shard.num_rows]`, the row of the tree of each row of a shard."""
        first = shard.first_row
        return self.row_order[first : first + shard.num_rows]

    def weight_rows_of(self, shard=None) -> np.ndarray:
        """`[n]`, the rows of the tree's weights that a shard has, or the top.

        They are `rows_of(shard)`, or of the top `top_rows`; of a pinned tree
        the groups of these, as each has one row of weights.
        """
        rows = self.top_rows if shard is None else self.rows_of(shard)
        return rows[::2] // 2 if self.tree.pinned else rows

    @functools.cached_property
    def row_places(self) -> np.ndarray:
        """`[R]`, where each row of the tree stands: `top_rows`, `row_order`."""
        order = np.concatenate([self.top_rows, self.row_order])
        places = np.empty(order.size, np.int64)
        places[order] = np.arange(order.size)
        return _read_only(places)

    @functools.cached_property
    def shards(self) -> tuple[Shard, ...]:
        """What each device has."""
        groups = np.bincount(
            self.group_units[self._group_order], minlength=self.num_units
        )
        first_groups = np.concatenate([[0], np.cumsum(groups)])
        first_rows = self._below.group_offsets[first_groups]
        return tuple(
            Shard(
                device,
                int(begin),
                int(end - begin),
                int(self.unit_places[begin]),
                int(self.unit_places[end] - self.unit_places[begin]),
                int(first_rows[begin]),
                int(first_rows[end] - first_rows[begin]),
                int(first_groups[begin]),
                int(first_groups[end] - first_groups[begin]),
                float(self.unit_work[begin:end].sum()),
            )
            for device, begin, end in zip(
                self.devices,
                self.first_units[:-1],
                self.first_units[1:],
                strict=True,
            )
        )

    @functools.cached_property
    def forests(self) -> tuple[Forest | None, ...]:
        """The `Forest` of each shard; None for one without units."""
        return tuple(
            self._forest(shard) if shard.num_units else None
            for shard in self.shards
        )

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

    def __reduce__(self):
        """Pickles what the constructor takes."""
        make = functools.partial(
            type(self),
            unit_rows=self.unit_rows,
            unit_loads=self.unit_loads,
            first_units=self.first_units,
            step=self.step,
        )
        return make, (self.tree, self.devices)

    @functools.cached_property
    def num_leaf_units(self) -> int:
        """The units that are classes of the tree, which no device has."""
        return int((self.tree.row_children[self.unit_rows] < 0).sum())

    @functools.cached_property
    def unit_num_rows(self) -> np.ndarray:
        """`[U]`, the rows below each unit."""
        return _read_only(
            np.bincount(
                self.group_units[self._group_order],
                np.diff(self.tree.group_offsets)[self._group_order],
                minlength=self.num_units,
            ).astype(np.int64)
        )

    def _spread(self):
        trees = slice(self.num_leaf_units, None)
        starts = intervals(
            self.unit_work[trees], self.unit_num_rows[trees], len(self.devices)
        )
        return self.num_leaf_units + starts

    def _check_units(self):
        _ = self._class_units  # raises an error for bad rows
        children = self.tree.row_children[self.unit_rows]
        if (children[: self.num_leaf_units] >= 0).any():
            raise ValueError("unit_rows must have leaves before other rows")
        for name, values in self.unit_loads._asdict().items():
            if values is not None and values.shape != self.unit_rows.shape:
                raise ValueError(
                    f"the {name} of unit_loads have shape "
                    f"{list(values.shape)}; there are {self.num_units} units"
                )

    def _check_first_units(self):
        starts = self.first_units
        if (
            starts.size != len(self.devices) + 1
            or starts[0] != self.num_leaf_units
            or starts[-1] != self.num_units
            or (np.diff(starts) < 0).any()
        ):
            raise ValueError(
                f"first_units must ascend from {self.num_leaf_units} to "
                f"{self.num_units}, with one entry more than devices, but are "
                f"{starts.tolist()} for {len(self.devices)} devices"
            )

    def _forest(self, shard):
        """The groups of a shard, counted from its first row and class."""
        offsets, parents, class_rows = self._below
        groups = slice(shard.first_group, shard.first_group + shard.num_groups)
        places = slice(shard.first_place, shard.first_place + shard.num_classes)
        parents = parents[groups]
        last = shard.first_group + shard.num_groups
        return Forest(
            offsets[shard.first_group : last + 1] - shard.first_row,
            np.where(parents < 0, -1, parents - shard.first_row),
            class_rows[places] - shard.first_row,
            pinned=self.tree.pinned,
        )

    @functools.cached_property
    def group_units(self) -> np.ndarray:
        """`[G]`, the unit that each group is below; -1: it is in the top."""
        return _read_only(units.group_units(self.tree, self.unit_rows))

    @functools.cached_property
    def _class_units(self):
        """`[N]`, the unit that each class is, or is below."""
        return units.class_units(self.tree, self.unit_rows, self.group_units)

    @functools.cached_property
    def _group_order(self):
        """The groups below the top: by units, then in the tree's order."""
        below = np.flatnonzero(self.group_units >= 0)
        return below[np.argsort(self.group_units[below], kind="stable")]

    @functools.cached_property
    def _below(self):
        """The groups below the top in the plan's order; classes by places."""
        tree = self.tree
        fanouts = np.diff(tree.group_offsets)[self._group_order]
        new_rows = np.full(tree.num_rows, -1, np.int64)
        new_rows[self.row_order] = np.arange(self.row_order.size)
        return TreeArrays(
            np.concatenate([[0], np.cumsum(fanouts)]),
            new_rows[tree.group_parents[self._group_order]],
            new_rows[tree.class_rows[self.place_classes]],
        )


def _read_only(array):
    array.flags.writeable = False
    return array
