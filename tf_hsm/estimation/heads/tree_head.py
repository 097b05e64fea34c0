"""A hierarchical softmax as this package computes it."""

import dataclasses
import math

from tf_hsm.estimation import slots as all_slots
from tf_hsm.estimation.heads.head_type import Head
from tf_hsm.estimation.heads.passed import Passed
from tf_hsm.estimation.heads.table import Table
from tf_hsm.estimation.part import Part, Work

# kMaxKeptBytes, kMaxStepBytes, kNarrowWidth and kMaxNarrowBytes of
# cc/core/api/loss.h; kMaxItemExamples of cc/core/groups/problem.h.
_KEPT_BYTES, _STEP_BYTES = 256 << 20, 512 << 20
_NARROW_WIDTH, _NARROW_BYTES = 64, 4 << 20
_ITEM_EXAMPLES = 48
# Of the plan of a batch: docs/math.md, section 10.
_GROUP_BYTES, _EXAMPLE_BYTES, _PASS_BYTES = 150, 40, 8
_NUMBER = 8  # bytes of a number of a tree's arrays
# Beside them for a moment, when the leaves are first put in order.
_RANKING_BYTES = 40


@dataclasses.dataclass(frozen=True)
class TreeHead(Head):
    """`tf_hsm.layers.HierarchicalSoftmax`; docs/math.md has the formulas.

    Several labels of an example are so many paths, for which its inputs are
    repeated.

    Attributes:
      passed: the `Passed` of its tree.
      rule: the optimizer of its own by which it updates itself in the pass that
        makes the losses, a name or an optimizer; None: it has gradients.
      use_bias: whether rows have biases.
      is_focal: whether its losses are focal ones. In place it then makes a
        forward before its step.
    """

    passed: Passed
    rule: object = None
    use_bias: bool = True
    is_focal: bool = False

    kind = "HierarchicalSoftmax"  # of its part
    takes_several_labels = True

    def parts(self, setting, width):
        """See `Head.parts`."""
        labels = setting.labels_per_example
        if labels == 1:
            return self._parts(setting, width)
        paths = dataclasses.replace(
            setting, batch=max(math.ceil(setting.batch * labels), 1)
        )
        (part,) = self._parts(paths, width)
        repeated = setting.compute_itemsize * paths.tokens * width
        return [
            dataclasses.replace(part, saved_bytes=part.saved_bytes + repeated)
        ]

    def _parts(self, setting, width):
        """Those of a path for each token."""
        passed, tokens = self.passed, setting.tokens
        cost = passed.cost(tokens, width)
        table = Table(passed.num_rows, width, self.use_bias, setting, True)
        make = self._with_gradient if self.rule is None else self._in_place
        part = Part(
            self.name,
            self.kind,
            parameters=table.parameters,
            parameter_bytes=table.bytes,
            constant_bytes=self._array_bytes(),
            **make(setting, width, table, cost),
        )
        # A touched number is read twice, and its gradient written; in place
        # it is read and written once, as are its slots.
        moved = 3 * setting.itemsize
        if self.rule is not None:
            moved = 2 * setting.itemsize
            moved += 2 * part.slot_bytes / part.parameters
        passes = self._in_place_passes() / 3 if self.rule is not None else 1
        part = dataclasses.replace(
            part,
            seconds=lambda machine: (
                passes * _seconds(cost, passed, moved, machine)
            ),
        )
        ranking = _RANKING_BYTES * passed.num_classes
        filling = max(part.filling_bytes, ranking)
        return [dataclasses.replace(part, filling_bytes=filling)]

    def _array_bytes(self):
        """Those of the tree, and the tensors that the op reads."""
        passed = self.passed
        num_nodes = passed.num_classes + passed.num_groups - 1
        numbers = 2 * passed.num_classes + num_nodes
        return 2 * _NUMBER * (numbers + 2 * passed.num_groups)

    def _with_gradient(self, setting, width, table, cost):
        batch, size = setting.tokens, accumulator(setting)
        logits = self.passed.logits(batch)
        kept = size * logits if _keeps(size * logits, width, _KEPT_BYTES) else 0
        normalizers = 2 * size * self.passed.passes(batch)
        sorted_inputs = size * batch * padded(width)
        products = 2 * logits * width
        return {
            "gradient_bytes": table.sparse_gradient(cost.touched_rows),
            "is_sparse": True,
            "saved_bytes": size * batch * (1 + width)
            + normalizers
            + kept
            + sorted_inputs
            + self._plan_bytes(batch),
            "tensor_bytes": max(size * batch * width, kept),
            "backward_bytes": size * batch * width,
            "forward": Work(2 * products, cost.bytes / 2, 1),
            "backward": Work(products * (1 if kept else 2), cost.bytes / 2, 1),
            **table.of_slots(setting.slots, cost.touched_rows),
        }

    def _in_place(self, setting, width, table, cost):
        batch, size = setting.tokens, accumulator(setting)
        busy = size * self.passed.logits(batch, _ITEM_EXAMPLES)
        kept = busy
        if not _keeps(busy, width, _STEP_BYTES):
            kept = 2 * size * self.passed.passes(batch)
        own = table.of_slots(all_slots.of(self.rule))
        products = 2 * self.passed.logits(batch) * width
        passes = self._in_place_passes()
        return {
            "slot_bytes": own["slot_bytes"],
            "making_bytes": own["making_bytes"],
            "filling_bytes": own["filling_bytes"],
            "saved_bytes": size * batch * (1 + width),
            "forward_bytes": size * batch * padded(width)
            + kept
            + self._plan_bytes(batch),
            "tensor_bytes": max(size * batch * width, kept),
            "backward_bytes": size * batch * width,
            "forward": Work(
                passes * products, passes / 2 * cost.bytes, passes - 2
            ),
        }

    def _in_place_passes(self):
        """Forward and backward, which is two, and that of focal losses."""
        return 4 if self.is_focal else 3

    def _plan_bytes(self, batch):
        return (
            _GROUP_BYTES * self.passed.touched_groups(batch)
            + _EXAMPLE_BYTES * batch
            + _PASS_BYTES * self.passed.passes(batch)
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


def _keeps(num_bytes, width, limit):
    return num_bytes <= (_NARROW_BYTES if width <= _NARROW_WIDTH else limit)


def accumulator(setting):
    """Bytes of a number of losses, of dx and of probabilities."""
    return max(setting.itemsize, 4)


def padded(width):
    """Numbers of an input in the order in which a pass reads it."""
    return -(-width // 16) * 16
