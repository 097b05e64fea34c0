"""The rank of a label among the classes of an input."""

import tensorflow as tf

from tf_hsm.runtime import arguments, call, private_tensorflow
from tf_hsm.runtime.tree_tensors import path_tensors


def label_ranks(
    weights, biases, labels, inputs, tree, k, *, logit_soft_cap=None
):
    """Counts the classes that are more probable than labels, up to k.

    It costs less than a search for the k best classes. There is no kernel for
    weights on a GPU.

    Args:
      weights: see `hierarchical_softmax_top_k`, also for the others.
      biases: `[rows]`, or None.
      labels: `[...]` int64, classes; -1 where there is no label.
      inputs: `[..., width]`.
      tree: a `tf_hsm.Tree`.
      k: how far to count, an integer.
      logit_soft_cap: see `hierarchical_softmax_loss`.

    Returns:
      `[...]` int64. A label of rank r below k is the element r of the classes
      that `hierarchical_softmax_top_k` finds. The rank of any other label is k,
      also for a label of probability zero or NaN.
    """
    return call.down_tree(
        "tf_hsm_label_ranks",
        weights,
        biases,
        inputs,
        tree,
        {"root_log_probs": None},
        logit_soft_cap,
        **path_tensors(tree, weights)._asdict(),
        labels=labels,
        k=arguments.scalar("k", k, tf.int64),
    )


private_tensorflow.declare_read_only("ResourceTfHsmLabelRanks")
