"""The tree over the classes."""

from tf_hsm.tree.tree import Tree

__all__ = ["Tree"]
