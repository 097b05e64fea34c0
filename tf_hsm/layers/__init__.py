"""Keras layers."""

from tf_hsm.layers.adaptive_softmax import AdaptiveSoftmax
from tf_hsm.layers.hierarchical_softmax import HierarchicalSoftmax

__all__ = ["AdaptiveSoftmax", "HierarchicalSoftmax"]
