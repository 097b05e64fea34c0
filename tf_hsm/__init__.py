"""Hierarchical softmax for TensorFlow: a cost that follows the path.

A loss over millions of classes whose cost is the path to the label, not the
number of classes, as a TensorFlow op that never copies a parameter.
"""

from tf_hsm import _build, _start

if not _start.is_command():
    from tf_hsm import (
        baselines,
        callbacks,
        converters,
        datasets,
        decoding,
        distribute,
        estimation,
        layers,
        losses,
        metrics,
        optimizers,
        serving,
    )
    from tf_hsm.cost.expected import ExpectedCost
    from tf_hsm.cost.model import CostModel
    from tf_hsm.estimation.api import estimate
    from tf_hsm.growth import grow
    from tf_hsm.heads.tree_head import TreeHead
    from tf_hsm.label_counts import LabelCounts
    from tf_hsm.multi_hot import label_lists
    from tf_hsm.ops import flops  # noqa: F401, for tf.profiler
    from tf_hsm.ops.embedding_train_step import (
        hierarchical_softmax_embedding_train_step,
    )
    from tf_hsm.ops.label_tree_ops import (
        label_tree_log_prob,
        label_tree_loss,
        label_tree_top_k,
        label_tree_train_step,
    )
    from tf_hsm.ops.log_probs import (
        hierarchical_softmax_log_prob,
        hierarchical_softmax_log_probs,
    )
    from tf_hsm.ops.loss import hierarchical_softmax_loss
    from tf_hsm.ops.sample import hierarchical_softmax_sample
    from tf_hsm.ops.top_k import hierarchical_softmax_top_k
    from tf_hsm.ops.train_step import hierarchical_softmax_train_step
    from tf_hsm.pruning import prune
    from tf_hsm.runtime.library import build_info, cpu_isa
    from tf_hsm.runtime.quantized_rows import QuantizedRows, quantize_rows
    from tf_hsm.tree import Forest, Tree
    from tf_hsm.tree.semantic_ids import SemanticIdEncoder, semantic_ids
    from tf_hsm.vectors import class_vectors

__version__ = _build.VERSION

__all__ = [
    "CostModel",
    "ExpectedCost",
    "Forest",
    "LabelCounts",
    "QuantizedRows",
    "SemanticIdEncoder",
    "Tree",
    "TreeHead",
    "baselines",
    "build_info",
    "callbacks",
    "class_vectors",
    "converters",
    "cpu_isa",
    "datasets",
    "decoding",
    "distribute",
    "estimate",
    "estimation",
    "grow",
    "hierarchical_softmax_embedding_train_step",
    "hierarchical_softmax_log_prob",
    "hierarchical_softmax_log_probs",
    "hierarchical_softmax_loss",
    "hierarchical_softmax_sample",
    "hierarchical_softmax_top_k",
    "hierarchical_softmax_train_step",
    "label_lists",
    "label_tree_log_prob",
    "label_tree_loss",
    "label_tree_top_k",
    "label_tree_train_step",
    "layers",
    "losses",
    "metrics",
    "optimizers",
    "prune",
    "quantize_rows",
    "semantic_ids",
    "serving",
]
