"""A full softmax whose weights are the rows of an input embedding too."""

import dataclasses

from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.runtime import gradients


@dataclasses.dataclass(frozen=True, eq=False)
class TiedHead(TreeHead):
    """A `TreeHead` of one group, whose weights have a dense gradient.

    The embedding's gradient has slices of the rows that it looks up. A tape
    joins slices of two uses without the sum of repeated rows, which Keras'
    optimizers then square one by one. It adds slices to a dense gradient.
    """

    def losses(self, batch):
        """See `tf_hsm.heads.head.Head`."""
        weights = gradients.of_all_rows(self.weights)
        head = TreeHead(
            weights,
            self.biases,
            self.tree,
            logit_soft_cap=self.logit_soft_cap,
        )
        return head.losses(batch)
