"""Rows of weights with biases, and what training them takes."""

import dataclasses

from tf_hsm.estimation.part import INITIAL_COPIES, NO_WORK
from tf_hsm.layers.initial_values import BLOCK_BYTES, MOST_AT_ONCE


@dataclasses.dataclass(frozen=True)
class Table:
    """Variables `[rows, width]`, and `[rows]` if there are biases.

    Attributes:
      rows: how many.
      width: of each.
      bias: whether there are biases.
      setting: the `Setting`.
      by_blocks: whether it is one of this package, whose layers fill a large
        one a block of rows at a time.
    """

    rows: int
    width: int
    bias: bool
    setting: object
    by_blocks: bool = False

    @property
    def parameters(self):
        """Numbers."""
        return self.rows * (self.width + self.bias)

    @property
    def bytes(self):
        """Bytes of these."""
        return self.parameters * self.setting.itemsize

    @property
    def dense_gradient(self):
        """Bytes of a gradient of all of them."""
        return self.bytes

    def sparse_gradient(self, touched, index_bytes=8):
        """Bytes of the gradient of some rows, with their numbers."""
        numbers = touched * (self.width + self.bias)
        indices = touched * (1 + self.bias) * index_bytes
        return numbers * self.setting.itemsize + indices

    @property
    def making_bytes(self):
        """What making it takes for a moment, beside it."""
        table = self.rows * self.width * self.setting.itemsize
        if self.by_blocks and table > MOST_AT_ONCE:
            table = BLOCK_BYTES
        return INITIAL_COPIES * table

    def of_slots(self, slots, touched=None):
        """Returns fields of a `Part` that the optimizer decides.

        Args:
          slots: a `Slots`.
          touched: rows of a sparse gradient; None for a dense one.
        """
        dtype = self.setting.dtype
        shapes = [(self.rows, self.width)] + [(self.rows,)] * self.bias
        work = NO_WORK
        for shape in shapes:
            work += slots.update(shape, dtype, touched)
        return {
            "slot_bytes": sum(slots.slot_bytes(s, dtype) for s in shapes),
            "update_bytes": max(
                slots.update_bytes(s, dtype, touched) for s in shapes
            ),
            "making_bytes": self.making_bytes,
            "filling_bytes": max(slots.filling_bytes(s, dtype) for s in shapes),
            "update": work,
            "uncounted": slots.uncounted,
        }
