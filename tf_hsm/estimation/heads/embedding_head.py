"""A table of embeddings whose rows are the inputs of a hierarchical softmax."""

import dataclasses
import math

from tf_hsm.estimation import slots
from tf_hsm.estimation.heads import visits
from tf_hsm.estimation.heads.head_type import HeadEstimate
from tf_hsm.estimation.heads.tree_parts import TreeEstimate, TreeOptions
from tf_hsm.estimation.heads.visits import Visits
from tf_hsm.estimation.part import Part, Work
from tf_hsm.estimation.variable_parts import of_rows, part_with


@dataclasses.dataclass(frozen=True)
class EmbeddingEstimate(HeadEstimate):
    """`tf_hsm.layers.EmbeddingSoftmax`.

    Attributes:
      visits: the `Visits` of its tree.
      num_embeddings: rows of the table.
      width: numbers of a row.
      bag: ids of an example, in the mean; None: each example is one id, and
        there are no bags.
    """

    visits: Visits
    num_embeddings: int
    width: int
    bag: float | None = None

    takes_several_labels = True
    takes_ids = True

    def parts(self, setting, width):
        """See `HeadEstimate.parts`; ids have no width."""
        del width
        return super().parts(setting, 0)

    def parts_of(self, shape, setting):
        """See `HeadEstimate.parts_of`; for ids `[batch]`, or `[batch, n]`."""
        batch, *bag = shape
        head = dataclasses.replace(self, bag=math.prod(bag) if bag else None)
        return head.parts(setting.of_examples(batch), 0)

    def _parts(self, setting, width):
        tree = TreeEstimate(
            f"{self.name} tree",
            self.num_classes,
            self.visits,
            options=self.options,
        )
        return [self._looked_up(setting), *tree.parts(setting, self.width)]

    def _looked_up(self, setting):
        """The table: a look-up, and the means of bags."""
        width, own = self.width, self.options.optimizer
        table = of_rows(self.num_embeddings, width, False, setting.dtype)
        ids = setting.tokens * (1 if self.bag is None else self.bag)
        size = setting.accumulator_itemsize
        looked_up = size * width * ids
        of_bags = 0 if self.bag is None else looked_up
        # A bag multiplies each embedding by its weight, and adds them up.
        added = 0 if self.bag is None else 2 * width * ids
        forward = backward = Work(added, 2 * looked_up + of_bags, 1)
        if own is not None:
            # The backward makes the gradient, and updates the rows by it.
            backward += slots.of(own).update(*table[0][:2], ids)
        part = Part(
            f"{self.name} embeddings",
            "Embedding",
            touched=(ids,),
            saved_bytes=size * width * setting.tokens,
            tensor_bytes=looked_up,
            forward_bytes=of_bags,
            backward_bytes=of_bags + (0 if own is None else looked_up),
            forward=forward,
            backward=backward,
        )
        return part_with(table, part, setting, own=own, by_blocks=True)


def of_embedding_softmax(layer):
    """Returns the head that an `EmbeddingSoftmax` is."""
    return EmbeddingEstimate(
        layer.name,
        layer.num_classes,
        visits.of(layer.tree),
        layer.num_embeddings,
        layer.width,
        options=TreeOptions.of(layer),
    )
