"""A probabilistic label tree as this package computes it."""

import dataclasses

from tf_hsm.estimation.heads import passed
from tf_hsm.estimation.heads.head_type import of_layer
from tf_hsm.estimation.heads.tree_head import (
    Held,
    TreeHead,
    TreeOptions,
    padded,
)
from tf_hsm.layers import LabelTree

# For each logit, the loss of a quantized tree has numbers of rows, log-sigmoids
# and the steps of the op (tf_hsm/heads/quantized.py).
_LOGIT_BYTES = 100


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
    # cc/core/plan/label_plan.h; a visit has the row above it, which is
    # positive.
    plan = (150, 8, 48)

    def parts(self, setting, width):
        """See `Head.parts`."""
        visiting = dataclasses.replace(
            self, passed=visited(self.passed, setting.labels_per_example)
        )
        return visiting._parts(setting, width)

    def _answer_bytes(self, setting, width):
        batch, size = setting.tokens, setting.accumulator_itemsize
        # Inputs and negative inputs, as they are and padded.
        inputs = 4 * size * batch * padded(width)
        return inputs + _LOGIT_BYTES * self.passed.logits(batch)

    def _held(self, setting, width):
        batch, size = setting.tokens, setting.accumulator_itemsize
        # The inputs, or their gradients, of all visits.
        inputs = size * self.passed.passes(batch) * padded(width)
        dz = size * self.passed.logits(batch)
        return Held(inputs + dz, forward=inputs, tensor=max(inputs, dz))


def visited(passed, num_labels):
    """Returns the `Passed` of examples with so many labels each."""
    masses = 1 - (1 - passed.masses) ** num_labels
    masses[0] = 1  # the root's group, without labels too
    return dataclasses.replace(passed, masses=masses)


@of_layer.register
def _of_label_tree(layer: LabelTree):
    return LabelTreeHead(
        layer.name,
        layer.num_classes,
        passed.of(layer.tree),
        TreeOptions.of(layer),
    )


def named(name, classes, counts, *, optimizer=None, use_bias=True):
    """Returns the head of a `Tree`, or of N labels in two levels."""
    found, options = (
        passed.of(classes, counts),
        TreeOptions(optimizer, use_bias),
    )
    return LabelTreeHead(name, found.num_classes, found, options)
