"""A hierarchical softmax as this package computes it."""

import dataclasses
from typing import NamedTuple

import keras

from tf_hsm.estimation import slots
from tf_hsm.estimation.heads.head_type import Head
from tf_hsm.estimation.heads.passed import Passed
from tf_hsm.estimation.heads.table import Table
from tf_hsm.estimation.part import Work
from tf_hsm.layers.quantized import check_policy

# The constants of C++ by the names that they have there:
# tests/estimation/constants_test.py compares them.
MAX_KEPT_BYTES = 256 << 20
NARROW_WIDTH = 64
MAX_NARROW_BYTES = 4 << 20
CHUNK_BYTES = 128 << 20
PADDING = 16

_NUMBER = 8  # bytes of a number of a tree's arrays
# Beside them for a moment, when the leaves are first put in order.
_RANKING_BYTES = 40
# An op of log-probabilities has so many for each row on the path of a label
# (cc/core/api/class_log_probs.cc).
_STEP_BYTES = 32


@dataclasses.dataclass(frozen=True)
class TreeOptions:
    """The options of a layer that change what a step on a tree needs.

    Attributes:
      optimizer: the optimizer of the head's own, which updates the rows in the
        backward; None: the head has gradients.
      use_bias: whether rows have biases.
      is_random: whether weights begin at random numbers, not at zeros.
      is_tied: whether the weights are the rows of an embedding too; their
        gradient is dense then.
      mode: "int8" or "int4" for quantized weights; None for floats.
    """

    optimizer: object = None
    use_bias: bool = True
    is_random: bool = True
    is_tied: bool = False
    mode: str | None = None

    @classmethod
    def of(cls, layer):
        """Returns the options of a layer of `tf_hsm.layers`."""
        check_policy(layer)
        return cls(
            layer.optimizer,
            bool(layer.rows.use_bias),
            not isinstance(
                layer.rows.kernel_initializer, keras.initializers.Zeros
            ),
            getattr(layer, "tied_to", None) is not None,
            layer.quantization_mode,
        )

    def on_copies(self, setting):
        """Returns the options and the setting of rows that replicas copy.

        The optimizer of the head updates each copy by the gradients of all
        replicas, so that the replicas exchange gradients.

        Returns:
          The options without an optimizer, and the setting with the slots of
          the head's optimizer.
        """
        own = slots.of(self.optimizer)
        return (
            dataclasses.replace(self, optimizer=None),
            dataclasses.replace(setting, slots=own),
        )


class Held(NamedTuple):
    """What a step has beside losses, dx and its plan, in bytes.

    Attributes:
      saved: from the forward until the backward.
      forward: in the forward alone.
      tensor: of a typical tensor.
      has_products: whether the backward finds the products of the forward.
      has_gradient: whether the forward makes the gradient of the weights.
    """

    saved: float
    forward: float = 0
    tensor: float = 0
    has_products: bool = True
    has_gradient: bool = False


@dataclasses.dataclass(frozen=True)
class TreeHead(Head):
    """`tf_hsm.layers.HierarchicalSoftmax`; docs/math.md has the formulas.

    Attributes:
      passed: the `Passed` of its tree.
      options: the `TreeOptions`.
    """

    passed: Passed
    options: TreeOptions = TreeOptions()

    kind = "HierarchicalSoftmax"  # of its part
    takes_several_labels = True
    # Bytes in the plan of a batch (docs/math.md, section 10): of a touched
    # group, of an example, and of an example in a group.
    plan = (150, 40, 8)

    def _parts(self, setting, width):
        passed, optimizer = self.passed, self.options.optimizer
        batch, size = setting.tokens, setting.accumulator_itemsize
        cost = passed.cost(batch, width)
        table = Table(
            passed.num_rows,
            width,
            self.options.use_bias,
            setting,
            by_blocks=True,
            is_random=self.options.is_random,
            mode=self.options.mode,
        )
        products = 2 * passed.logits(batch) * width
        if table.mode is not None:
            # A forward, a third of a step of floats.
            moved = 3 * table.bytes / (table.rows * width)
            part = table.part_of_codes(
                self.name,
                self.kind,
                cost.touched_rows,
                products,
                constant_bytes=self._array_bytes(),
                forward_bytes=self._answer_bytes(setting, width),
                seconds=lambda machine: (
                    _seconds(cost, passed, moved, machine) / 3
                ),
            )
            return [part]
        slot_bytes = 0  # that the backward moves for each touched number
        if optimizer is None:
            rows = None if self.options.is_tied else cost.touched_rows
            part = table.part(self.name, self.kind, rows)
        else:
            part = table.part_in_place(self.name, self.kind, optimizer)
            slot_bytes = 2 * part.slot_bytes / part.parameters
        held = self._held(setting, width)
        forward = 2 * products
        backward = products * (1 if held.has_products else 2)
        if held.has_gradient:
            forward, backward = 3 * products, 0
        slots_moved = slot_bytes * cost.touched_rows * width
        # Both passes read a touched number. The backward writes its gradient,
        # or the number and its slots.
        moved = 3 * setting.itemsize + slot_bytes
        ranking = _RANKING_BYTES * passed.num_classes
        return [
            dataclasses.replace(
                part,
                constant_bytes=self._array_bytes(),
                saved_bytes=(
                    size * batch * (1 + width)
                    + held.saved
                    + self._plan_bytes(batch)
                ),
                forward_bytes=held.forward,
                backward_bytes=size * batch * width,
                tensor_bytes=held.tensor,
                filling_bytes=max(part.filling_bytes, ranking),
                forward=Work(forward, cost.bytes / 2, 1),
                backward=Work(backward, cost.bytes / 2 + slots_moved, 1),
                seconds=lambda machine: _seconds(cost, passed, moved, machine),
            )
        ]

    def _array_bytes(self):
        """Those of the tree, and the tensors that the op reads."""
        passed = self.passed
        num_nodes = passed.num_classes + passed.num_groups - 1
        numbers = 2 * passed.num_classes + num_nodes
        return 2 * _NUMBER * (numbers + 2 * passed.num_groups)

    def _answer_bytes(self, setting, width):
        """Bytes that a log-probability of each label needs beside weights."""
        batch, size = setting.tokens, setting.accumulator_itemsize
        inputs = size * batch * padded(width)
        return inputs + _STEP_BYTES * self.passed.passes(batch)

    def _held(self, setting, width):
        """Returns the `Held` of a step."""
        batch, size = setting.tokens, setting.accumulator_itemsize
        probs = size * self.passed.logits(batch)
        saved = 2 * size * self.passed.passes(batch)  # normalizers
        saved += size * batch * padded(width)
        if self._takes_chunks(probs, batch, width):
            return self._held_in_chunks(setting, width, saved)
        is_narrow = width <= NARROW_WIDTH
        limit = MAX_NARROW_BYTES if is_narrow else MAX_KEPT_BYTES
        kept = probs if probs <= limit else 0
        return Held(
            saved + kept,
            tensor=max(size * batch * width, kept),
            has_products=bool(kept),
        )

    def _takes_chunks(self, probs, batch, width):
        """Whether the op takes the batch in chunks of examples."""
        is_flat = self.passed.num_groups == 1 and self.passed.num_classes > 8
        fits = NARROW_WIDTH < width <= batch
        return is_flat and fits and probs > MAX_KEPT_BYTES

    def _held_in_chunks(self, setting, width, saved):
        """As `_held`; a gradient of the same type takes the sums' memory."""
        size = setting.accumulator_itemsize
        sums = size * self.passed.num_rows * width
        forward = CHUNK_BYTES
        if self.options.optimizer is None and size == setting.itemsize:
            forward += sums
        else:
            saved += sums
        return Held(saved, forward, sums, has_gradient=True)

    def _plan_bytes(self, batch):
        group, example, visit = self.plan
        return (
            group * self.passed.touched_groups(batch)
            + example * batch
            + visit * self.passed.passes(batch)
        )


def _seconds(cost, passed, moved, machine):
    """Seconds of forward and backward.

    Args:
      cost: the `ExpectedCost`.
      passed: the `Passed`.
      moved: bytes for each number of touched rows.
      machine: a `Machine`.
    """
    model = dataclasses.replace(
        machine.cost_model, weight=1e3 * moved / machine.read_write
    )
    return passed.cost(cost.batch, cost.width, model).milliseconds / 1000


def padded(width):
    """Numbers of an input in the order in which a pass reads it."""
    numbers = -(-width // PADDING) * PADDING
    return numbers + PADDING if numbers and numbers % 256 == 0 else numbers
