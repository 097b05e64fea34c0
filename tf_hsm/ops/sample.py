"""Classes drawn by their probabilities."""

import math

import numpy as np
import tensorflow as tf

from tf_hsm.ops.allowed import AllowedClasses
from tf_hsm.ops.log_probs import allowed_log_probs, renormalized
from tf_hsm.ops.top_k import TopK
from tf_hsm.runtime import arguments, call, private_tensorflow
from tf_hsm.tree import Forest, Tree

# The candidates of a `top_p` without `top_k` at a temperature that is not 1, as
# in cc/core/api/sample.h.
MAX_TEMPERED = 1024
_NEVER = np.float64(-np.inf)


@private_tensorflow.allow_infinities
def hierarchical_softmax_sample(
    weights,
    biases,
    inputs,
    tree: Tree | Forest,
    num_samples: int,
    *,
    seed=None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    root_log_probs=None,
    allowed=None,
    logit_soft_cap: float | None = None,
) -> tf.Tensor:
    """Draws classes of each input by their probabilities.

    A draw goes down from the root, by the softmax of one group at each level:
    it costs one path, whatever the number of classes. Draws are
    independent, with replacement.

    With `top_k` or `top_p` (nucleus sampling: Holtzman et al., 2020, The
    Curious Case of Neural Text Degeneration), the most probable classes are
    found first, exactly, as by `hierarchical_softmax_top_k`, and draws are made
    among them by p ** (1 / temperature). For a model that is unsure, a `top_p`
    near 1 is reached by most classes, at the cost of most classes.

    Args:
      weights: see `hierarchical_softmax_log_probs`, also for biases and tree.
      biases: `[rows]`, or None.
      inputs: `[..., width]`.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
      num_samples: draws per input, an integer or an integer scalar.
      seed: an integer, or two, as for `tf.random.stateless_uniform`: the same
        seed gives the same classes, whatever the number of threads; use another
        one for each call. None: another one for each call, from TensorFlow's
        global generator, which `tf.random.set_seed` sets.
      temperature: a number of at least 0; below 1 it favours the probable, and
        0 takes the most probable class. With `top_k` or a `top_p` below 1 draws
        are made by p ** (1 / temperature). Without, the logits of every group
        are divided by it: that costs no more than a path, and is the same thing
        only for a tree of one group. `top_k=tree.num_classes` gives
        p ** (1 / temperature) of all classes, at the cost of all.
      top_k: draw among the k most probable classes, in
        `[1, tree.num_classes]`; None: among all.
      top_p: draw among the fewest most probable classes whose
        p ** (1 / temperature) reach this share of their sum, in (0, 1]; None:
        among all. The sum is over the k classes of `top_k`. Without `top_k` it
        is over all classes at a temperature of 1, and at another over the 1,024
        most probable ones.
      root_log_probs: `[..., num_roots]`, in nats, the log-probability of each
        root, which several must have. Only their differences count, whatever
        their sum, of which `top_p` is a share. Without `top_k` and `top_p` the
        temperature does not divide them.
      allowed: the only classes that may be drawn, as for
        `hierarchical_softmax_top_k`, or None: draws are by p(class | input, the
        class is allowed). Their log-probabilities are all made, at the cost of
        the groups above them; then draws are made by p ** (1 / temperature), of
        which `top_p` is a share, whatever the number of classes.
      logit_soft_cap: see `hierarchical_softmax_loss`; the temperature divides
        the capped logits.

    Returns:
      `[..., num_samples]` int64; -1 where the probabilities are NaN, or those
      of all roots, or of all allowed classes, zero.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): an
        argument is out of range, or a shape does not fit; the message names it.
      tf.errors.UnimplementedError: a GPU holds the weights, and `top_k` is
        above 1,024; `top_p` alone, at a temperature of 1, is not reached by as
        many classes; or these, or a temperature of 0, are given and they are
        float64.
      ValueError: `top_k` is below 1; or, with `allowed`, another argument is
        out of range.
      TypeError: an argument is not of its type; the message names it.
    """
    if allowed is not None:
        mask = AllowedClasses.read(allowed, tree, inputs)
        if tree.num_roots > 1 and root_log_probs is None:
            raise ValueError(
                "root_log_probs must be there to draw from a forest of "
                f"{tree.num_roots} trees"
            )
        drawn = draw_of_allowed(
            allowed_log_probs(
                weights,
                biases,
                inputs,
                tree,
                root_log_probs,
                mask,
                logit_soft_cap,
            ),
            mask,
            num_samples,
            seed=seed_pair(seed),
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        shape = [tf.shape(inputs)[:-1], tf.shape(drawn)[1:]]
        return tf.reshape(drawn, tf.concat(shape, 0))
    return call.down_tree(
        "tf_hsm_sample",
        weights,
        biases,
        inputs,
        tree,
        {"root_log_probs": root_log_probs},
        logit_soft_cap,
        num_samples=arguments.scalar("num_samples", num_samples, tf.int64),
        seed=seed_pair(seed),
        temperature=arguments.scalar("temperature", temperature, tf.float64),
        top_k=arguments.count_or_zero("top_k", top_k),
        top_p=arguments.scalar(
            "top_p", 1.0 if top_p is None else top_p, tf.float64
        ),
    )


def seed_pair(seed):
    """A seed of `hierarchical_softmax_sample` as two int64 numbers."""
    if seed is None:
        return tf.random.uniform(
            [2], minval=tf.int64.min, maxval=tf.int64.max, dtype=tf.int64
        )
    if isinstance(seed, (list, tuple)):
        return tf.stack([arguments.scalar("seed", s, tf.int64) for s in seed])
    seed = arguments.scalar("seed", seed, tf.int64)
    return tf.stack([seed, tf.zeros_like(seed)]) if seed.ndim == 0 else seed


def draw_restricted(num_classes, temperature, top_k, top_p, of_best, of_all):
    """Draws among the best classes, or among all, as the arguments say.

    Args:
      num_classes: N.
      temperature: see `hierarchical_softmax_sample`.
      top_k: see `hierarchical_softmax_sample`; a tensor that is 0 is all.
      top_p: see `hierarchical_softmax_sample`; 1 is all.
      of_best: draws among the classes that these leave; called with the number
        of candidates, or None where `top_p` is a share of all classes.
      of_all: draws among all.
    """
    if top_k is not None:
        top_k = arguments.check_number(
            top_k,
            # A tensor that is 0 is all.
            (top_k >= (0 if tf.is_tensor(top_k) else 1))
            & (top_k <= num_classes),
            f"top_k = {{}} is outside [1, {num_classes}]",
        )

    def restricted():
        most = num_classes
        if tf.is_tensor(temperature) or tf.is_tensor(top_k):
            k = tf.cast(arguments.count_or_zero("top_k", top_k), tf.int32)
            most = tf.where(temperature == 1, most, min(most, MAX_TEMPERED))
            k = tf.where(k == 0, most, k)
            return of_best(tf.where(temperature == 0, 1, k))
        if temperature == 0:
            return of_best(1)
        if top_k is None and temperature != 1:
            return of_best(min(most, MAX_TEMPERED))
        return of_best(top_k)

    by_count = top_k != 0 if tf.is_tensor(top_k) else top_k is not None
    by_sum = top_p != 1 if tf.is_tensor(top_p) else top_p not in (None, 1)
    is_restricted = by_count | by_sum | (temperature == 0)
    if tf.is_tensor(is_restricted):
        return tf.cond(is_restricted, restricted, of_all)
    return restricted() if is_restricted else of_all()


def checked_temperature(temperature):
    """Returns a temperature; a ValueError unless it is finite, at least 0."""
    return arguments.check_number(
        temperature,
        (temperature >= 0) & (temperature < math.inf),
        "temperature = {} is not a finite number of at least 0",
    )


def draw_of_best(found, num_samples, seed, temperature, top_p, *, of_all=False):
    """Draws `[B, num_samples]` classes from a `TopK` of `[B, k]`.

    With `of_all`, `top_p` is a share of the probability of all classes. Without
    it, it is a share of the sum of p ** (1 / temperature) over these k.
    """
    temperature = checked_temperature(temperature)
    log_probs = tf.cast(found.log_probs, tf.float64)
    # The best is 0 at every temperature.
    logits = log_probs - log_probs[:, :1]
    temperature = arguments.scalar("temperature", temperature, tf.float64)
    logits /= tf.maximum(temperature, np.finfo(np.float64).tiny)
    logits = tf.where(tf.math.is_nan(log_probs), _NEVER, logits)
    if top_p is not None:
        top_p = arguments.check_number(
            top_p, (top_p > 0) & (top_p <= 1), "top_p = {} is not in (0, 1]"
        )
        shares = tf.exp(log_probs) if of_all else tf.nn.softmax(logits)
        before = tf.cumsum(shares, axis=1, exclusive=True)
        is_in = before < arguments.scalar("top_p", top_p, tf.float64)
        logits = tf.where(is_in, logits, _NEVER)
    drawn = tf.random.stateless_categorical(logits, num_samples, seed)
    # Where no class is possible, it draws one past the last.
    drawn = tf.minimum(drawn, tf.shape(logits, tf.int64)[1] - 1)
    drawn = tf.gather(found.classes, drawn, batch_dims=1)
    return tf.where(log_probs[:, :1] > -float("inf"), drawn, -1)


def draw_of_allowed(
    log_probs, mask, num_samples, *, seed, temperature, top_k, top_p
):
    """Draws classes `[B, num_samples]` among the classes of a mask.

    Args:
      log_probs: `[B, M]`, as `mask.log_probs` gives them.
      mask: `AllowedClasses`.
      num_samples: see `hierarchical_softmax_sample`; so is the rest.
      seed: see `seed_pair`.
      temperature: see `hierarchical_softmax_sample`.
      top_k: None, or how many of the classes.
      top_p: None, or a share of their p ** (1 / temperature).
    """
    is_number = ~tf.math.is_nan(log_probs)
    log_probs = tf.where(is_number, log_probs, -float("inf"))
    log_probs = renormalized(log_probs, log_probs)
    count = tf.shape(log_probs)[1]
    best = tf.math.top_k(log_probs, count)
    size = mask.num_classes
    k = arguments.count_or_zero("top_k", top_k)
    k = arguments.check_number(
        k, (k >= 0) & (k <= size), f"top_k = {{}} is outside [1, {size}]"
    )
    k = tf.saturate_cast(k, tf.int32)
    k = tf.where(tf.equal(k, 0), count, tf.minimum(k, count))
    k = tf.where(temperature == 0, tf.minimum(count, 1), k)
    classes = tf.broadcast_to(mask.lists, tf.shape(log_probs))
    classes = tf.gather(classes, best.indices, batch_dims=1)
    return draw_of_best(
        TopK(best.values[:, :k], classes[:, :k]),
        tf.saturate_cast(
            arguments.scalar("num_samples", num_samples, tf.int64), tf.int32
        ),
        seed,
        temperature,
        top_p,
    )


private_tensorflow.declare_read_only("ResourceTfHsmSample")
