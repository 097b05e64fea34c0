"""Where the units, classes and rows of a plan stand, and on which device."""

import dataclasses
import functools
import itertools

import numpy as np

from tf_hsm.distribute.cut import intervals
from tf_hsm.tree import Tree
from tf_hsm.tree.arrays import TreeArrays, groups_below, groups_of, ranges
from tf_hsm.tree.forest import Forest
from tf_hsm.tree.group_arrays import read_only
from tf_hsm.tree.immutable import Immutable


@dataclasses.dataclass(frozen=True)
class Shard:
    """The contents of one device: an interval of units, as a forest.

    Its classes are numbered by their places, from `first_place` on, and its
    rows stand in the plan's order, from `first_row` on.

    Attributes:
      device: the name of the device.
      first_unit: its first unit.
      num_units: how many it has; perhaps none.
      first_place: the place of its first class.
      num_classes: how many are below its units.
      first_row: its first row, in the plan's order.
      num_rows: how many it has.
      first_group: its first group, in the plan's order.
      num_groups: how many it has.
      work: the mean number of its rows that an example scores.
    """

    device: str
    first_unit: int
    num_units: int
    first_place: int
    num_classes: int
    first_row: int
    num_rows: int
    first_group: int
    num_groups: int
    work: float


class PlanLayout(Immutable):
    """The arrays by which a head finds the parts of a `Plan`.

    Attributes:
      tree: the `tf_hsm.Tree`.
      devices: a tuple of names of devices, one for each shard.
      unit_rows: `[U]` int64, the row of the tree of each unit; the leaves that
        are in the top come first.
      unit_loads: `[U]`, the `SubtreeLoads` of each unit.
      first_units: `[S + 1]` int64, the first unit of each device, and U.
    """

    def __init__(self, tree, devices, *, unit_rows, unit_loads, first_units):
        """Checks and copies what the class describes; see `Plan`."""
        own = self.__dict__
        own["tree"] = tree
        own["devices"] = devices
        own["unit_rows"] = read_only(np.array(unit_rows, np.int64))
        own["unit_loads"] = unit_loads.map(
            lambda x: read_only(np.array(x, np.float64))
        )
        self._check_units()
        if first_units is None:
            first_units = self._spread()
        own["first_units"] = read_only(np.array(first_units, np.int64))
        self._check_first_units()

    @property
    def num_units(self) -> int:
        """U."""
        return self.unit_rows.size

    @functools.cached_property
    def num_leaf_units(self) -> int:
        """The units that are classes of the tree, which no device has."""
        return int((self._unit_groups < 0).sum())

    @functools.cached_property
    def unit_num_rows(self) -> np.ndarray:
        """`[U]`, the rows below each unit."""
        return read_only(
            self._below_units(np.diff(self.tree.group_offsets)).astype(np.int64)
        )

    @functools.cached_property
    def group_units(self) -> np.ndarray:
        """`[G]`, the unit that each group is below; -1: it is in the top."""
        offsets, parents, _ = self.tree._arrays
        units = np.full(self.tree.num_groups, -1, np.int64)
        is_subtree = self._unit_groups >= 0
        units[self._unit_groups[is_subtree]] = np.flatnonzero(is_subtree)
        above = groups_of(offsets, parents)
        for begin, end in itertools.pairwise(self.tree._levels[1:]):
            inherited = units[above[begin:end]]
            if ((units[begin:end] >= 0) & (inherited >= 0)).any():
                raise ValueError("unit_rows has a row below another one")
            np.maximum(units[begin:end], inherited, out=units[begin:end])
        return read_only(units)

    @functools.cached_property
    def top(self) -> Tree:
        """The tree of all groups above the cut; its class u is unit u."""
        groups = np.flatnonzero(self.group_units < 0)
        fanouts = np.diff(self.tree.group_offsets)[groups]
        parents = self.tree.group_parents[groups]
        places = np.searchsorted(self.top_rows, parents)
        return Tree(
            np.concatenate([[0], np.cumsum(fanouts)]),
            np.where(parents < 0, -1, places),
            np.searchsorted(self.top_rows, self.unit_rows),
            pinned=self.tree.pinned,
        )

    @functools.cached_property
    def top_rows(self) -> np.ndarray:
        """`[rows of the top]`, the row of the tree of each row of the top."""
        return read_only(self._rows_of(np.flatnonzero(self.group_units < 0)))

    @functools.cached_property
    def unit_places(self) -> np.ndarray:
        """`[U + 1]`, the first place of the classes below each unit, and N."""
        # A group has a class for each row that is above no group.
        sizes = self.unit_num_rows - self._unit_num_groups + 1
        return read_only(_ends(sizes))

    @functools.cached_property
    def class_places(self) -> np.ndarray:
        """`[N]`, the place of each class: by units, then depth-first."""
        ranks = self.tree.class_ranks
        class_units = self._class_units()
        by_rank = np.empty(ranks.size, np.int64)
        by_rank[ranks] = class_units
        # The classes below a unit are an interval of ranks.
        starts = np.flatnonzero(np.diff(by_rank, prepend=-1))
        first_ranks = np.empty(self.num_units, np.int64)
        first_ranks[by_rank[starts]] = starts
        shifts = self.unit_places[:-1] - first_ranks
        return read_only(ranks + shifts[class_units])

    @functools.cached_property
    def place_classes(self) -> np.ndarray:
        """`[N]`, the class at each place."""
        classes = np.empty(self.tree.num_classes, np.int64)
        classes[self.class_places] = np.arange(self.tree.num_classes)
        return read_only(classes)

    @functools.cached_property
    def row_order(self) -> np.ndarray:
        """`[rows below the top]`, rows of the tree, in the plan's order."""
        return read_only(self._rows_of(self._group_order))

    @functools.cached_property
    def row_places(self) -> np.ndarray:
        """`[R]`, where each row of the tree stands: `top_rows`, `row_order`."""
        order = np.concatenate([self.top_rows, self.row_order])
        places = np.empty(order.size, np.int64)
        places[order] = np.arange(order.size)
        return read_only(places)

    @functools.cached_property
    def shards(self) -> tuple[Shard, ...]:
        """The contents of each device."""
        columns = []
        for ends in (
            np.arange(self.num_units + 1),
            self.unit_places,
            _ends(self.unit_num_rows),
            _ends(self._unit_num_groups),
        ):
            starts = ends[self.first_units]
            columns += [starts[:-1].tolist(), np.diff(starts).tolist()]
        work = self.unit_loads.work
        return tuple(
            Shard(
                device,
                first,
                count,
                *others,
                float(work[first : first + count].sum()),
            )
            for device, first, count, *others in zip(
                self.devices, *columns, strict=True
            )
        )

    def rows_of(self, shard) -> np.ndarray:
        """`[shard.num_rows]`, the row of the tree of each row of a shard."""
        first = shard.first_row
        return self.row_order[first : first + shard.num_rows]

    @functools.cached_property
    def forests(self) -> tuple[Forest | None, ...]:
        """The `Forest` of each shard; None for one without units."""
        return tuple(
            self._forest(shard) if shard.num_units else None
            for shard in self.shards
        )

    def _spread(self):
        trees = slice(self.num_leaf_units, None)
        starts = intervals(
            self.unit_loads.work[trees],
            self.unit_num_rows[trees],
            len(self.devices),
        )
        return self.num_leaf_units + starts

    def _check_units(self):
        tree, rows = self.tree, self.unit_rows
        if rows.size and (rows.min() < 0 or rows.max() >= tree.num_rows):
            raise ValueError(
                f"unit_rows must be rows of the tree, in [0, {tree.num_rows})"
            )
        if np.unique(rows).size < rows.size:
            raise ValueError("unit_rows has a row twice")
        units = self.group_units
        if (units[groups_of(tree.group_offsets, rows)] >= 0).any():
            raise ValueError("unit_rows has a row below another one")
        # The rows of the top are the units, and the rows above its groups.
        in_top = units < 0
        num_rows = int(np.diff(tree.group_offsets)[in_top].sum())
        if num_rows != rows.size + np.count_nonzero(in_top) - 1:
            c = int(np.argmax(self._class_units() < 0))
            raise ValueError(f"unit_rows have no row on the path of class {c}")
        if (self._unit_groups[: self.num_leaf_units] >= 0).any():
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
    def _unit_groups(self):
        """`[U]`, the group below each unit; -1: the unit is a class."""
        return groups_below(self.tree.group_parents, self.unit_rows)

    def _class_units(self):
        """`[N]`, the unit that each class is, or is below; -1: none."""
        tree, unit_of_row = self.tree, np.full(self.tree.num_rows, -1, np.int64)
        unit_of_row[self.unit_rows] = np.arange(self.num_units)
        rows = tree.class_rows
        return np.maximum(
            self.group_units[tree.row_groups[rows]], unit_of_row[rows]
        )

    @functools.cached_property
    def _unit_num_groups(self):
        """`[U]`, the groups below each unit."""
        return self._below_units()

    def _below_units(self, values=None):
        """`[U]`, the sum of the values `[G]` of the groups below each unit."""
        below = self._group_order
        values = None if values is None else values[below]
        return np.bincount(self.group_units[below], values, self.num_units)

    def _rows_of(self, groups):
        offsets = self.tree.group_offsets
        return ranges(offsets[groups], np.diff(offsets)[groups])

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


def _ends(sizes):
    return np.concatenate([[0], np.cumsum(sizes)])
