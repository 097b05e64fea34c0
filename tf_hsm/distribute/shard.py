"""The contents of one device of a plan."""

import dataclasses


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
