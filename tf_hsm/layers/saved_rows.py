"""The contents of a head layer in files and checkpoints.

What the rows stand for is saved beside them, and a head whose rows stand for
other classes refuses to load them.
"""

import numpy as np

from tf_hsm.heads.part_calls import check_here
from tf_hsm.runtime import (
    private_keras,
    private_saving,
    row_order,
    row_parts,
)


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
        self._layer = layer
        self._find_trees = find_trees
        self._cuts = list(cuts)
        self.for_checkpoints = row_order.RowOrder(
            self._order_of_checkpoint, self._error_of_checkpoint
        )

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

    def in_legacy_files(self):
        """Returns what a legacy file has beside the variables, a list."""
        if not self._layer.built:
            return []
        optimizer = self._layer.optimizer
        slots = [] if optimizer is None else optimizer.variables
        name, order = self._layer.name, self.for_checkpoints
        return [_OrderInLegacyFile(name, order), *slots]

    def _order_of_checkpoint(self):
        """Returns the order of the rows, if this process has all of them.

        A checkpoint finds a slot by its number in the process, so another
        process cannot restore its slots from it.
        """
        head = self._layer._head
        if head is not None:
            check_here(head.tree_heads())
        return self._order(self._cuts)

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


class _OrderInLegacyFile:
    """The order of the rows, in the place of a variable.

    Args:
      name: of the layer.
      order: a `RowOrder`.
    """

    shape = (16,)
    dtype = "uint8"

    def __init__(self, name, order):
        self.path = f"{name}/row_order"
        self._order = order

    def __array__(self, dtype=None, copy=None):
        digest = bytes.fromhex(self._order.serialize())
        return np.frombuffer(digest, np.uint8).astype(dtype or np.uint8)

    def assign(self, value):
        """Raises a ValueError if the file is of another order."""
        self._order.deserialize(np.asarray(value, np.uint8).tobytes().hex())


def _in_legacy_files(layer):
    found = [getattr(x, "_saved", None) for x in private_keras.layers_of(layer)]
    return [
        entry
        for saved in found
        if isinstance(saved, SavedRows)
        for entry in saved.in_legacy_files()
    ]


private_saving.extend_legacy_files(_in_legacy_files)
