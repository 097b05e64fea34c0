"""Rows of weights with biases, and what training them takes."""

import dataclasses
import math

from tf_hsm.cost.gradients import sparse_bytes
from tf_hsm.estimation import slots as all_slots
from tf_hsm.estimation.part import INITIAL_COPIES, NO_WORK, Part, Work
from tf_hsm.estimation.setting import VARIABLE_BYTES
from tf_hsm.layers.initial_values import BLOCK_BYTES, MOST_AT_ONCE
from tf_hsm.runtime import quantized_rows


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
      is_random: whether the numbers begin at random, not at zero.
      index_bytes: bytes of the number of a row in a sparse gradient.
      mode: "int8" or "int4" for weights that are codes with scales, beside
        biases of float32; None for weights of the setting's type.
    """

    rows: int
    width: int
    bias: bool
    setting: object
    by_blocks: bool = False
    is_random: bool = True
    index_bytes: int = 8
    mode: str | None = None

    @property
    def parameters(self):
        """Numbers."""
        return self.rows * (self.width + self.bias)

    @property
    def bytes(self):
        """Bytes of these; with a mode, of codes, scales and biases."""
        if self.mode is not None:
            variables = quantized_rows.shapes(self.mode, self.rows, self.width)
            if self.bias:
                variables += (((self.rows,), "float32"),)
            return sum(
                math.prod(shape) * VARIABLE_BYTES[dtype]
                for shape, dtype in variables
            )
        return self.parameters * self.setting.itemsize

    def part(self, name, kind, touched=None, **fields):
        """Returns the `Part` of a table that the model's optimizer trains.

        Args:
          name: of the part.
          kind: of the part.
          touched: rows of a sparse gradient; None for a dense one.
          **fields: other fields of the part.
        """
        slots, dtype = self.setting.slots, self.setting.dtype
        return Part(
            name,
            kind,
            gradient_bytes=self._gradient_bytes(touched),
            is_sparse=touched is not None,
            update_bytes=max(
                slots.update_bytes(s, dtype, touched) for s in self._shapes
            ),
            update=sum(
                (slots.update(s, dtype, touched) for s in self._shapes), NO_WORK
            ),
            uncounted=slots.uncounted,
            **self._kept(slots),
            **fields,
        )

    def part_in_place(self, name, kind, optimizer, **fields):
        """Returns the `Part` of a table that a head's own optimizer trains.

        Args:
          name: of the part.
          kind: of the part.
          optimizer: one of `tf_hsm.optimizers`.
          **fields: other fields of the part.
        """
        slots = all_slots.of(optimizer)
        return Part(name, kind, in_place=True, **self._kept(slots), **fields)

    def part_of_codes(self, name, kind, touched, products, **fields):
        """Returns the `Part` of quantized rows, which answer and do not train.

        Args:
          name: of the part.
          kind: of the part.
          touched: the rows that the answers for a batch read.
          products: FLOPs of these.
          **fields: other fields of the part.
        """
        return Part(
            name,
            kind,
            parameters=self.parameters,
            parameter_bytes=self.bytes,
            forward=Work(products, touched * self.bytes / self.rows, 1),
            can_train=False,
            uncounted=(f"the time to find and decode rows in {self.mode}",),
            **fields,
        )

    @property
    def _shapes(self):
        return [(self.rows, self.width)] + [(self.rows,)] * self.bias

    def _gradient_bytes(self, touched):
        if touched is None:
            return self.bytes
        return sparse_bytes(
            touched,
            self.width,
            self.setting.itemsize,
            bias=self.bias,
            index_bytes=self.index_bytes,
        )

    def _kept(self, slots):
        """Fields of variables and slots, and of making both."""
        making = self.rows * self.width * self.setting.itemsize
        if self.by_blocks and making > MOST_AT_ONCE:
            making = BLOCK_BYTES
        shapes, dtype = self._shapes, self.setting.dtype
        return {
            "parameters": self.parameters,
            "parameter_bytes": self.bytes,
            "slot_bytes": sum(slots.slot_bytes(s, dtype) for s in shapes),
            "making_bytes": INITIAL_COPIES * making * self.is_random,
            "filling_bytes": max(slots.filling_bytes(s, dtype) for s in shapes),
        }
