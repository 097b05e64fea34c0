"""Probabilistic label trees: any number of labels for each example.

The rows of a tree have a sigmoid each, where a hierarchical softmax has one
softmax for each group (Jasinska et al., 2016: Extreme F-Measure Maximization
using Sparse Probability Estimates). With z_r = weights[r] . inputs + biases[r]
and p_r = 1 / (1 + exp(-z_r)),

    p_r = P(a label is at or below r | one is below the parent of r, inputs)
    P(label | inputs) = the product of p_r over the rows r of the label's path
"""

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.ops import rescoring
from tf_hsm.ops.allowed import AllowedClasses
from tf_hsm.ops.log_probs import check_not_of_nodes, masked, of_given
from tf_hsm.ops.row_update import RowUpdate, count_step
from tf_hsm.ops.top_k import BeamTopK, TopK, search
from tf_hsm.ops.train_step import step_arguments
from tf_hsm.runtime import (
    arguments,
    call,
    gradients,
    label_sets,
    private_tensorflow,
)
from tf_hsm.runtime.tree_tensors import tree_tensors
from tf_hsm.tree import Tree
from tf_hsm.tree.check import check_not_pinned


def label_tree_loss(weights, biases, labels, inputs, tree: Tree) -> tf.Tensor:
    """Computes the loss of a probabilistic label tree, in nats.

    A row is positive if it is on the path of one of the example's labels. The
    root's group is visited, and so is each group below a positive row:

        loss = sum over the visited groups, over their rows r, of
               -log(p_r if r is positive else 1 - p_r)

    So an example without labels has a loss too: that none is below any row of
    the root's group. The cost is the visited groups; variables are read
    in place, and the gradients of `weights` and `biases` are `tf.IndexedSlices`
    over the rows of these groups, as the gradients of
    `hierarchical_softmax_loss`.

    Args:
      weights: `[rows, width]`, rows as in `tree.num_rows`: a tensor, a
        `tf.Variable` or a Keras variable; float32, bfloat16, float16 or
        float64. Sums are made in float32, for float64 in float64.
      biases: `[rows]` of the same type, or None.
      labels: `[..., M]`, integers in `[0, tree.num_classes)`, in any order;
        negative numbers are none. Or a `tf.RaggedTensor`. A label that stands
        there twice counts once. `tf_hsm.label_lists` converts a multi-hot
        matrix `[..., num_classes]`, which is an error.
      inputs: `[..., width]`, any of the float types.
      tree: a `tf_hsm.Tree`.

    Returns:
      `[...]`: a loss per example; float64 for float64 weights, else float32.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape or a label does not fit; the message names the argument, the
        position, the value and the legal range.
      ValueError: the tree is pinned.
    """
    return label_tree_loss_outputs(weights, biases, labels, inputs, tree).loss


def label_tree_loss_outputs(weights, biases, labels, inputs, tree):
    """Calls the op of `label_tree_loss`; see `loss_outputs`."""
    inputs = arguments.dense("inputs", inputs)
    labels = _read(labels, inputs, tree)
    return call.forward(
        "tf_hsm_label_tree_loss",
        weights,
        biases,
        inputs,
        labels=labels,
        **tree_tensors(tree, near=weights)._asdict(),
        ignore_classes=[label_sets.NONE],
        with_gradients=gradients.is_recording(),
    )


def label_tree_train_step(
    weights,
    biases,
    labels,
    inputs,
    tree: Tree,
    optimizer,
    *,
    loss_weights=None,
    stochastic_rounding: bool | None = None,
    seed=0,
) -> tf.Tensor:
    """Computes the losses of a label tree and makes a step in place.

    What `hierarchical_softmax_train_step` is to `hierarchical_softmax_loss`:
    the rows of the visited groups are updated as soon as their gradients are
    known, and these are never stored.

    Args:
      weights: a variable, see `label_tree_loss`.
      biases: a variable, or None.
      labels: see `label_tree_loss`, also for inputs and tree.
      inputs: `[..., width]`.
      tree: a `tf_hsm.Tree`.
      optimizer: see `hierarchical_softmax_train_step`; so is the rest.
      loss_weights: `[...]`, broadcast to the losses; None: 1 / the number of
        examples.
      stochastic_rounding: None: for bfloat16 weights.
      seed: of stochastic_rounding, an integer.

    Returns:
      `[...]`: a loss per example, before the step.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape or a label does not fit; nothing is updated then.
      TypeError: weights or biases are no variables.
      ValueError: the tree is pinned, the optimizer does what is not possible
        in place, or there are several replicas.
    """
    inputs = arguments.dense("inputs", inputs)
    update = RowUpdate(weights, biases, optimizer, stochastic_rounding, seed)
    labels = _read(labels, inputs, tree)
    found = call.op(
        "tf_hsm_label_tree_train_step",
        inputs=arguments.floats(inputs, update.dtype),
        with_gradients=gradients.is_recording(),
        **step_arguments(
            update,
            labels,
            tree,
            loss_weights,
            label_sets.NONE,
            are_sets=True,
        ),
    )
    count_step(update.optimizer, found.loss)
    return found.loss


@private_tensorflow.allow_infinities
def label_tree_top_k(
    weights,
    biases,
    inputs,
    tree: Tree,
    k: int,
    *,
    beam_width: int | None = None,
    return_pruned: bool = False,
    threshold=None,
    bounds=None,
    allowed=None,
    rescore: int | None = None,
):
    """Finds the k most probable labels, or those above a threshold, exactly.

    A node is at least as probable as any label below it, so that best-first
    search need not look at most of them: see `hierarchical_softmax_top_k`. A
    beam has a fixed cost instead, and may miss a label.

    Args:
      weights: see `label_tree_loss`, also for biases, inputs and tree.
      biases: `[rows]`, or None.
      inputs: `[..., width]`.
      tree: a `tf_hsm.Tree`.
      k: an integer or an integer scalar, in `[1, tree.num_classes]`.
      beam_width: the largest number of groups that the search opens on a level,
        at least 1; None for the exact answer.
      return_pruned: whether to also return how many nodes the beam left out.
      threshold: None; or a probability, broadcast to `[...]`: only labels that
        are at least as probable are found, k at most.
      bounds: None; or the logarithm of a threshold, `[...]`, in its place.
      allowed: the only labels that may be found, for all inputs or for each, as
        for `hierarchical_softmax_top_k`; None: all. A node with none of them
        below it is never opened.
      rescore: None; or how many labels the search finds by quantized weights,
        to be ranked anew by the original rows: see
        `hierarchical_softmax_top_k`.

    Returns:
      A named tuple `(log_probs, classes)`, each `[..., k]`, best first: in
      nats, float64 for float64 weights, else float32; and int64. With
      `return_pruned` a `(log_probs, classes, num_pruned)`, the last `[...]`
      int64: where it is 0, the answer is exact. With `threshold` or `allowed`,
      where fewer than k labels are found, the rest have the log-probability
      minus infinity and the class -1. With `rescore`, `(log_probs, classes,
      certain)`, see `hierarchical_softmax_top_k`.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): k is
        out of range, or a shape does not fit; the message names the argument.
      tf.errors.UnimplementedError: a GPU holds the weights, and `k` is above
        1,024, `beam_width` is given, or they are float64.
      ValueError: the tree is pinned, `beam_width` is below 1, or there are a
        threshold and bounds; or see `rescore` of `hierarchical_softmax_top_k`.
      TypeError: `k`, `beam_width` or `rescore` is no integer.
    """
    _check_tree(tree)
    count = k
    if rescore is not None:
        count = rescoring.count_of(
            weights,
            tree,
            k,
            rescore,
            beam_width=beam_width,
            return_pruned=return_pruned,
            threshold=threshold,
            bounds=bounds,
        )
    bounds = arguments.bounds_of(threshold, bounds, inputs)
    mask = None
    if allowed is not None:
        mask = AllowedClasses.read(allowed, tree, inputs)
    found = search(
        weights,
        biases,
        inputs,
        tree,
        count,
        beam_width,
        {"root_log_probs": None, "bounds": bounds},
        mask=mask,
        has_sigmoids=True,
    )
    if rescore is not None:
        return rescoring.rescored(
            found, weights, biases, inputs, tree, k, has_sigmoids=True
        )
    if return_pruned:
        return BeamTopK(found.log_probs, found.classes, found.num_pruned)
    return TopK(found.log_probs, found.classes)


@private_tensorflow.allow_infinities
def label_tree_log_prob(
    weights,
    biases,
    classes,
    inputs,
    tree: Tree,
    *,
    nodes: bool = False,
    allowed=None,
) -> tf.Tensor:
    """Computes log P(label | inputs) of given labels, in nats.

    There is no gradient: train with `label_tree_loss`.

    Args:
      weights: see `label_tree_loss`, also for biases, inputs and tree.
      biases: `[rows]`, or None.
      classes: `[..., C]`, each in `[0, tree.num_classes)`.
      inputs: `[..., width]`.
      tree: a `tf_hsm.Tree`.
      nodes: whether `classes` are rows, each in `[0, tree.num_rows)`. The
        probability of an inner node is that a label is at or below it.
      allowed: the labels that count, as for `hierarchical_softmax_top_k`, or
        None; the log-probability of another label is minus infinity.

    Returns:
      `[..., C]`: float64 for float64 weights, else float32.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape or a label does not fit.
      tf.errors.UnimplementedError: a GPU holds the weights, and `nodes` is
        set.
      ValueError: the tree is pinned, or `allowed` stands beside `nodes`.
    """
    check_not_of_nodes(nodes, allowed)
    _check_tree(tree)
    classes = arguments.integers(classes, "classes")
    log_probs = of_given(
        weights, biases, classes, inputs, tree, nodes, has_sigmoids=True
    )
    if allowed is None:
        return log_probs
    return masked(
        log_probs, classes, AllowedClasses.read(allowed, tree, inputs)
    )


def _read(labels, inputs, tree):
    """Returns labels as `label_sets.read` does."""
    _check_tree(tree)
    return label_sets.read(labels, inputs, counts=[tree.num_classes])


def _check_tree(tree):
    _checks.check_is_tree(tree)
    check_not_pinned(tree, "a label tree")


private_tensorflow.declare_read_only("ResourceTfHsmLabelTreeLoss")
private_tensorflow.vectorize_by_loop(
    "TfHsmLabelTreeLoss", "ResourceTfHsmLabelTreeLoss"
)
