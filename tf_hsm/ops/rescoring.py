"""The best classes of quantized weights, ranked anew by the original rows.

The codes rank N classes. By the original rows, every other class has at most
the log-probability of the last of these plus E(x), the bound of `ErrorBound`.
So the best k of the N by the original rows are the best k of all classes if
the k-th one is above that.
"""

import typing

import numpy as np
import tensorflow as tf

from tf_hsm.ops import visited_rows
from tf_hsm.ops.error_bound import ErrorBound
from tf_hsm.runtime import arguments, call
from tf_hsm.runtime.quantized_rows import QuantizedRows
from tf_hsm.runtime.tree_tensors import path_tensors


class RescoredTopK(typing.NamedTuple):
    """The best classes of each input by the original rows, best first.

    Attributes:
      log_probs: `[..., k]`, in nats, by the original rows.
      classes: `[..., k]`, int64.
      certain: `[...]` bool: where it is True, these are the k best classes of
        the original rows. Where it is False, the answer may still be right; a
        larger `rescore` may prove it.
    """

    log_probs: tf.Tensor
    classes: tf.Tensor
    certain: tf.Tensor


def count_of(weights, tree, k, rescore, **refused):
    """Returns how many classes the codes rank.

    Args:
      weights: as users pass them.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
      k: as users pass it.
      rescore: as users pass it.
      **refused: arguments that cannot stand beside `rescore`.

    Raises:
      TypeError: `k` or `rescore` is no integer of Python or NumPy.
      ValueError: `k` is out of range, `rescore` is below it, no rows were kept,
        or one of the `refused` is given.
    """
    for name, value in {"k": k, "rescore": rescore}.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(
                f"{name} must be an integer beside rescore, but is {value!r}"
            )
    if not 1 <= k <= tree.num_classes:
        raise ValueError(
            f"k = {k} is outside [1, {tree.num_classes}]; the upper end is the "
            "number of classes"
        )
    if rescore < k:
        raise ValueError(f"rescore = {rescore} is below k = {k}")
    for name, value in refused.items():
        if value is not None and value is not False:
            raise ValueError(f"rescore is not possible with {name}")
    if not isinstance(weights, QuantizedRows):
        raise ValueError(
            "rescore needs weights in 8 or 4 bits: leave rescore out, or "
            "quantize the weights by tf_hsm.quantize_rows, or the model by "
            "model.quantize"
        )
    if weights.originals is None:
        raise ValueError(
            "rescore needs the original rows: pass them to `keep` of the "
            "quantized weights (head.kernel.keep for a layer); assign and "
            "loading weights drop them"
        )
    return min(int(rescore), tree.num_classes)


def rescored(
    found, weights, biases, inputs, tree, k, root_log_probs=None, **options
):
    """Returns the best k of some classes by the original rows.

    Args:
      found: a `TopK` of `count_of(...)` classes, by the codes.
      weights: `QuantizedRows` that keep their originals.
      biases: `[rows]`, or None.
      inputs: `[..., width]`.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
      k: at most the number of found classes.
      root_log_probs: see `hierarchical_softmax_log_probs`, or None.
      **options: further arguments of the op `tf_hsm_class_log_probs`.

    Returns:
      A `RescoredTopK`.
    """
    inputs = arguments.floats(inputs, weights.dtype)
    is_class = found.classes >= 0
    log_probs = _log_probs(
        weights.originals.weights,
        biases,
        tf.where(is_class, found.classes, 0),
        inputs,
        tree,
        {"root_log_probs": root_log_probs},
        options,
    )
    bound = ErrorBound.of(weights, tree, options.get("has_sigmoids", False))
    error, is_safe = bound.at(inputs, biases)
    has_codes = _are_near(log_probs, found.log_probs, error, bound)
    has_codes = tf.reduce_all(has_codes | ~is_class, -1)
    has_nan = tf.reduce_any(tf.math.is_nan(log_probs) & is_class, -1)
    is_scored = is_class & ~tf.math.is_nan(log_probs)
    log_probs = tf.where(is_scored, log_probs, -float("inf"))
    # Equal log-probabilities in order of the classes, and no class last.
    order = tf.argsort(tf.where(is_class, found.classes, tf.int64.max))
    best = tf.math.top_k(tf.gather(log_probs, order, batch_dims=-1), k)
    classes = tf.gather(found.classes, order, batch_dims=-1)
    classes = tf.gather(classes, best.indices, batch_dims=-1)
    last = tf.cast(found.log_probs[..., -1], tf.float64)
    worst = tf.cast(best.values[..., -1], tf.float64)
    error += bound.of_sums(worst) + bound.of_sums(last)
    is_all = ~is_class[..., -1]
    if found.classes.shape[-1] == tree.num_classes:
        is_all = tf.ones_like(is_all)
    is_certain = (is_all | (worst > last + error)) & is_safe & has_codes
    return RescoredTopK(best.values, classes, is_certain & ~has_nan)


def _are_near(log_probs, by_codes, error, bound):
    """Returns `[..., C]` bool: whether the differences are within the bound.

    A difference is larger only if the codes are not the codes of the original
    rows: a checkpoint, for example, changed the codes after `keep`.
    """
    one, other = tf.cast(log_probs, tf.float64), tf.cast(by_codes, tf.float64)
    error = error[..., tf.newaxis] + bound.of_sums(one) + bound.of_sums(other)
    return (one == other) | (tf.abs(one - other) <= error)


def _log_probs(originals, biases, classes, inputs, tree, optional, options):
    """Returns log-probabilities `[..., C]` by the original rows."""
    if isinstance(originals, np.ndarray):
        return visited_rows.log_probs(
            originals, biases, classes, inputs, tree, optional, options
        )
    return call.down_tree(
        "tf_hsm_class_log_probs",
        originals,
        biases,
        inputs,
        tree,
        optional,
        **path_tensors(tree, originals)._asdict(),
        classes=classes,
        **options,
    )
