"""Keras layers."""

from tf_hsm.layers.hierarchical_softmax import HierarchicalSoftmax

__all__ = ["HierarchicalSoftmax"]
