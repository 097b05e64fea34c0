"""The tree over the classes, and several of them."""

from tf_hsm.tree.forest import Forest
from tf_hsm.tree.tree import Tree

__all__ = ["Forest", "Tree"]
