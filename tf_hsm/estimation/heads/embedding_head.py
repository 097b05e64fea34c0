"""A table of embeddings whose rows are the inputs of a hierarchical softmax."""

import dataclasses
import math

from tf_hsm.estimation import slots
from tf_hsm.estimation.heads import passed
from tf_hsm.estimation.heads.head_type import Head, array_bytes, of_layer
from tf_hsm.estimation.heads.table import Table
from tf_hsm.estimation.heads.tree_head import TreeHead, TreeOptions
from tf_hsm.estimation.part import Work
from tf_hsm.layers import EmbeddingSoftmax

_INDEX_BYTES = 4  # of a row of a sparse gradient: ids are int32


@dataclasses.dataclass(frozen=True)
class EmbeddingHead(Head):
    """`tf_hsm.layers.EmbeddingSoftmax`.

    Attributes:
      tree: the `TreeHead`.
      num_embeddings: rows of the table.
      row_width: numbers of a row.
      bag: ids of an example, in the mean; None: each example is one id, and
        there are no bags.
    """

    tree: TreeHead
    num_embeddings: int
    row_width: int
    bag: float | None = None

    takes_several_labels = True
    takes_ids = True

    @property
    def width(self):
        """The width of an embedding."""
        return self.row_width

    def in_place(self, optimizer):
        """See `Head.in_place`."""
        tree = self.tree.in_place(optimizer)
        return tree and dataclasses.replace(self, tree=tree)

    def parts(self, setting, width):
        """See `Head.parts`; ids have no width."""
        del width
        return super().parts(setting, 0)

    def parts_of(self, shape, setting):
        """See `Head.parts_of`; for ids `[batch]`, or bags `[batch, n]`."""
        batch, *bag = shape
        head = dataclasses.replace(self, bag=math.prod(bag) if bag else None)
        return head.parts(setting.of_examples(batch), 0)

    def _parts(self, setting, width):
        width = self.row_width
        table = Table(
            self.num_embeddings,
            width,
            False,
            setting,
            by_blocks=True,
            index_bytes=_INDEX_BYTES,
        )
        tree = self.tree.parts(setting, width)
        return [self._looked_up(table, setting), *tree]

    def _looked_up(self, table, setting):
        """The table: a look-up, and the means of bags."""
        ids = setting.tokens * (1 if self.bag is None else self.bag)
        size, width = setting.accumulator_itemsize, self.row_width
        vectors = size * width * setting.tokens
        looked_up = size * width * ids
        of_bags = 0 if self.bag is None else looked_up
        # A bag multiplies each embedding by its weight, and adds them up.
        added = 0 if self.bag is None else 2 * width * ids
        work = Work(added, 2 * looked_up + of_bags, 1)
        fields = {
            "saved_bytes": vectors,
            "tensor_bytes": looked_up,
            "forward_bytes": of_bags,
            "backward_bytes": of_bags,
            "forward": work,
            "backward": work,
        }
        name, optimizer = f"{self.name} embeddings", self.tree.options.optimizer
        if optimizer is None:
            return table.part(name, "Embedding", ids, **fields)
        # The backward makes the gradient, and updates the rows by it.
        fields["backward_bytes"] += looked_up
        fields["backward"] += slots.of(optimizer).update(
            (table.rows, width), setting.dtype, ids
        )
        return table.part_in_place(name, "Embedding", optimizer, **fields)


@of_layer.register
def _of_embedding_softmax(layer: EmbeddingSoftmax):
    tree = TreeHead(
        f"{layer.name} tree",
        layer.num_classes,
        passed.of(layer.tree),
        TreeOptions.of(layer),
    )
    return EmbeddingHead(
        layer.name,
        layer.num_classes,
        tree,
        layer.num_embeddings,
        layer.width,
        array_bytes=array_bytes(layer),
    )
