"""The most probable classes."""

import contextlib
import typing

import tensorflow as tf

from tf_hsm.ops import rescoring
from tf_hsm.ops.allowed import NO_MASK, AllowedClasses
from tf_hsm.ops.log_probs import (
    allowed_log_probs,
    check_mask_options,
    renormalized,
)
from tf_hsm.runtime import arguments, call, gradients, private_tensorflow
from tf_hsm.runtime.variables import variable_of
from tf_hsm.tree import Forest, Tree


class TopK(typing.NamedTuple):
    """The best classes of each input, best first.

    Attributes:
      log_probs: `[..., k]`, in nats.
      classes: `[..., k]`, int64.
    """

    log_probs: tf.Tensor
    classes: tf.Tensor


class BeamTopK(typing.NamedTuple):
    """The best classes that a beam found, and what it left out.

    Attributes:
      log_probs: `[..., k]`, in nats.
      classes: `[..., k]`, int64.
      num_pruned: `[...]`, int64: how many nodes were left out below which there
        could be a better class. Where it is 0, the result is exact.
    """

    log_probs: tf.Tensor
    classes: tf.Tensor
    num_pruned: tf.Tensor


@private_tensorflow.allow_infinities
def hierarchical_softmax_top_k(
    weights,
    biases,
    inputs,
    tree: Tree | Forest,
    k: int,
    *,
    beam_width: int | None = None,
    return_pruned: bool = False,
    root_log_probs=None,
    threshold=None,
    bounds=None,
    allowed=None,
    renormalize: bool = False,
    logit_soft_cap: float | None = None,
    rescore: int | None = None,
):
    """Finds the k most probable classes of each input.

    A node is at least as probable as any class below it. Best-first search
    scores the children of the most probable nodes until none that is left can
    hold one of the k best classes. The result is exact, and the cost is the
    groups that the search opens: few where the model is sure of itself,
    all where every class is as good as any other.

    A beam looks at no more than `beam_width` groups of a level. It has a fixed
    cost and may miss a class; it says how many nodes it left out that could
    have held a better one. It always finds k classes: short of some at the end,
    it goes on with the best nodes left out.

    There is no gradient: to ask for one is a LookupError.

    Args:
      weights: see `hierarchical_softmax_log_probs`, also for biases and tree.
      biases: `[rows]`, or None.
      inputs: `[..., width]`.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
      k: an integer or an integer scalar, in `[1, tree.num_classes]`.
      beam_width: None for the exact answer; or at least 1.
      return_pruned: whether to return what a beam left out too.
      root_log_probs: see `hierarchical_softmax_log_probs`.
      threshold: a probability, broadcast to `[...]`: only classes that are at
        least as probable are wanted; None: k classes are wanted. It stands for
        bounds.
      bounds: `[...]`, in nats: only classes whose log-probability is at least
        the bound are wanted, as the classes of one part of a tree where others
        have better ones. Nothing of probability zero is opened for them. NaN
        stands for minus infinity; None: k classes are wanted, whatever they
        are.
      allowed: the only classes that may be found: a list `[M]` of integers, or
        `[num_classes]` booleans, for all inputs; or a list for each input,
        `[..., M]`, which -1 fills where it is shorter, or a `tf.RaggedTensor`
        of such lists. In any order. A node with no such class below it is never
        opened: the cost is some groups above these classes, and the
        sorting of their lists. None: all classes.
      renormalize: whether to return log p(class | input, the class is allowed).
        That takes the log-probabilities of all allowed classes.
      logit_soft_cap: see `hierarchical_softmax_loss`.
      rescore: None; or how many classes the search finds by quantized weights,
        at least k, to be ranked anew by the original rows: see
        `QuantizedRows.keep`. Beside it, `k` is an integer of Python, and
        `beam_width`, `return_pruned`, `threshold`, `bounds` and `renormalize`
        raise an error.

    Returns:
      A named tuple `(log_probs, classes)`, each `[..., k]`: in nats, float64
      for float64 weights, else float32; and int64. In order of falling
      probability, and equal ones in order of the classes. With `return_pruned`,
      `(log_probs, classes, num_pruned)`, the last `[...]` int64. NaN counts as
      a probability of zero; among classes of probability zero, which come only
      where there are fewer than k others, the choice is not specified. Where
      all are NaN, as for an input with NaN, the classes are -1. With
      `threshold`, `bounds` or `allowed`, where fewer than k classes are left,
      the rest have the log-probability minus infinity and the class -1. With
      `rescore`, `(log_probs, classes, certain)`, by the original rows. The last
      is `[...]` bool: where it is True, these are the k best classes of the
      original rows.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): k is
        out of range, or a shape does not fit; the message names the argument.
      tf.errors.UnimplementedError: a GPU holds the weights, and k is above
        1,024, `beam_width` is given, or they are float64.
      ValueError: `beam_width` is below 1; `threshold` is NaN, or stands beside
        `bounds`; `renormalize` without `allowed`, or
        of a forest of several trees without root_log_probs; `rescore` is below
        `k`, or the weights keep no original rows.
      TypeError: `k`, `beam_width` or `rescore` is no integer.
    """
    check_mask_options(tree, root_log_probs, allowed, renormalize)
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
            renormalize=renormalize,
        )
    bounds = arguments.bounds_of(threshold, bounds, inputs)
    mask = None
    if allowed is not None:
        mask = AllowedClasses.read(allowed, tree, inputs)
    outputs = search(
        weights,
        biases,
        inputs,
        tree,
        count,
        beam_width,
        {"root_log_probs": root_log_probs, "bounds": bounds},
        logit_soft_cap,
        mask,
    )
    if rescore is not None:
        return rescoring.rescored(
            outputs,
            weights,
            biases,
            inputs,
            tree,
            k,
            root_log_probs,
            logit_soft_cap=logit_soft_cap,
        )
    log_probs = outputs.log_probs
    if renormalize:
        log_probs = renormalized(
            log_probs,
            allowed_log_probs(
                weights,
                biases,
                inputs,
                tree,
                root_log_probs,
                mask,
                logit_soft_cap,
            ),
        )
    if return_pruned:
        return BeamTopK(log_probs, outputs.classes, outputs.num_pruned)
    return TopK(log_probs, outputs.classes)


def best_class(weights, biases, inputs, tree, logit_soft_cap=None):
    """The most probable class of each input, `[...]` int64.

    It is an output of the op itself, so that TensorFlow leaves the op out where
    a graph has no use for the result.
    """
    optional = {"root_log_probs": None, "bounds": None}
    return search(
        weights, biases, inputs, tree, 1, None, optional, logit_soft_cap
    ).best_class


def search(
    weights,
    biases,
    inputs,
    tree,
    k,
    beam_width,
    optional,
    logit_soft_cap=None,
    mask=None,
    has_sigmoids=False,
):
    """Calls the op of `hierarchical_softmax_top_k`, and of label trees."""
    place = contextlib.nullcontext()
    if beam_width is not None and variable_of(weights) is None:
        # GPUs have no beams. An op on a variable runs where the variable is.
        place = tf.device("CPU:0")
    allowed = NO_MASK
    if mask is not None:
        allowed = mask.search_arguments(tree, weights)
    with place:
        return call.down_tree(
            "tf_hsm_top_k",
            weights,
            biases,
            inputs,
            tree,
            optional,
            logit_soft_cap,
            k=arguments.scalar("k", k, tf.int64),
            beam_width=arguments.count_or_zero("beam_width", beam_width),
            has_sigmoids=has_sigmoids,
            **allowed,
        )


gradients.declare_without(
    "TfHsmTopK",
    "hierarchical_softmax_top_k",
    "train with hierarchical_softmax_loss, or with log-probabilities of all "
    "classes, hierarchical_softmax_log_probs",
)
private_tensorflow.declare_read_only("ResourceTfHsmTopK")
