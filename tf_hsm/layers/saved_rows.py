"""What files and checkpoints hold of a head layer.

What the rows stand for is saved beside them, and a head whose rows stand for
other classes refuses to load them.
"""

from tf_hsm.runtime import row_order, row_parts


class SavedRows:
    """The rows of a layer, as files of Keras and checkpoints hold them.

    Attributes:
      for_checkpoints: what a `tf.train.Checkpoint` of the layer checks.

    Args:
      layer: the layer.
      find_trees: returns the trees whose order the rows follow, a list; None
        where it is not known yet.
      cuts: arrays that say where a plan cuts the tree. A file of Keras does not
        depend on them, since it holds whole matrices.
    """

    def __init__(self, layer, find_trees, cuts=()):
        """See the class."""
        self._layer = layer
        self._find_trees = find_trees
        self._cuts = list(cuts)
        self.for_checkpoints = row_order.RowOrder(
            lambda: self._order(self._cuts), self._error_of_checkpoint
        )

    def check(self):
        """Raises a ValueError if a checkpoint that waits is of other rows."""
        self.for_checkpoints.check()

    def write(self, variables, store):
        """Writes variables and what their rows stand for to Keras' `store`."""
        row_parts.save(variables, store)
        order = self._order()
        if order:
            row_order.save(order, store)

    def read(self, variables, store):
        """Reads what `write` has written.

        Raises:
          ValueError: the store has variables of another tree or other shapes.
        """
        store = row_order.checked(self._order(), store, self._error())
        row_parts.load(variables, store)

    def _order(self, cuts=()):
        trees = self._find_trees()
        if trees is None:
            return None
        parts = [row_order.parts_of(tree, cuts) for tree in trees]
        return [array for part in parts for array in part]

    def _error(self):
        return (
            f"{self._layer.name}: what was saved is of a head with another "
            "tree, and its weights would stand for other classes here; make "
            "the head with that tree, or load the whole model, which has it"
        )

    def _error_of_checkpoint(self):
        if not self._cuts:
            return self._error()
        return (
            f"{self._layer.name}: the checkpoint is of a head with another "
            "tree, or whose devices had other parts of it; make the head with "
            "that plan, or see tf_hsm.distribute.checkpoint"
        )
