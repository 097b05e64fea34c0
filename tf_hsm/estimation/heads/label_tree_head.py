"""A probabilistic label tree as this package computes it."""

import dataclasses

from tf_hsm.estimation import slots as all_slots
from tf_hsm.estimation.heads.tree_head import TreeHead, accumulator, padded
from tf_hsm.estimation.part import Work

# Of the plan of a batch (cc/core/plan/label_plan.h): a touched group, an
# example, and a visit with the row above it, which is positive.
_GROUP_BYTES, _EXAMPLE_BYTES, _VISIT_BYTES = 150, 8, 48


@dataclasses.dataclass(frozen=True)
class LabelTreeHead(TreeHead):
    """`tf_hsm.layers.LabelTree`; docs/label_trees.md has the formulas.

    An example visits the root's group, and each group below which it has a
    label. If its n labels are drawn independently, it visits a group that has
    the share q of all labels with the probability

        1 - (1 - q) ** n

    Where labels that are near each other in the tree occur together, fewer
    groups are visited.
    """

    kind = "LabelTree"

    def parts(self, setting, width):
        """See `Head.parts`."""
        visiting = dataclasses.replace(
            self, passed=visited(self.passed, setting.labels_per_example)
        )
        return visiting._parts(setting, width)

    def _with_gradient(self, setting, width, table, cost):
        batch, size = setting.tokens, accumulator(setting)
        of_visits, dz = self._visit_bytes(setting, width)
        products = 2 * self.passed.logits(batch) * width
        return {
            "gradient_bytes": table.sparse_gradient(cost.touched_rows),
            "is_sparse": True,
            "saved_bytes": size * batch * (1 + width)
            + of_visits
            + dz
            + self._plan_bytes(batch),
            "tensor_bytes": max(of_visits, dz),
            "forward_bytes": of_visits,
            "backward_bytes": size * batch * width,
            "forward": Work(2 * products, cost.bytes / 2, 1),
            "backward": Work(products, cost.bytes / 2, 1),
            **table.of_slots(setting.slots, cost.touched_rows),
        }

    def _in_place(self, setting, width, table, cost):
        batch, size = setting.tokens, accumulator(setting)
        of_visits, dz = self._visit_bytes(setting, width)
        own = table.of_slots(all_slots.of(self.rule))
        products = 2 * self.passed.logits(batch) * width
        return {
            "slot_bytes": own["slot_bytes"],
            "making_bytes": own["making_bytes"],
            "filling_bytes": own["filling_bytes"],
            "saved_bytes": size * batch * (1 + width),
            "forward_bytes": 2 * of_visits + dz + self._plan_bytes(batch),
            "tensor_bytes": max(of_visits, dz),
            "backward_bytes": size * batch * width,
            "forward": Work(3 * products, 1.5 * cost.bytes, 1),
        }

    def _visit_bytes(self, setting, width):
        """Those of the inputs, or their gradients, of all visits; and of dz."""
        batch, size = setting.tokens, accumulator(setting)
        visits = self.passed.passes(batch)
        return (
            size * visits * padded(width),
            size * self.passed.logits(batch),
        )

    def _plan_bytes(self, batch):
        return (
            _GROUP_BYTES * self.passed.touched_groups(batch)
            + _EXAMPLE_BYTES * batch
            + _VISIT_BYTES * self.passed.passes(batch)
        )


def visited(passed, num_labels):
    """Returns the `Passed` of examples with so many labels each."""
    masses = 1 - (1 - passed.masses) ** num_labels
    masses[0] = 1  # the root's group, without labels too
    return dataclasses.replace(passed, masses=masses)
