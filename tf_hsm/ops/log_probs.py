"""Log-probabilities of all classes, of all nodes, or of given classes."""

import contextlib

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.ops.allowed import AllowedClasses
from tf_hsm.runtime import arguments, call, gradients, private_tensorflow
from tf_hsm.runtime.devices import cpu_only
from tf_hsm.runtime.tree_tensors import path_tensors
from tf_hsm.tree import Forest, Tree


def hierarchical_softmax_log_probs(
    weights,
    biases,
    inputs,
    tree: Tree | Forest,
    *,
    nodes: bool = False,
    root_log_probs=None,
    logit_soft_cap: float | None = None,
) -> tf.Tensor:
    """Computes log p(class | input) of all classes, in nats.

    Each class's is the sum, along the path to its leaf, of the log-softmax over
    each group; the probabilities of an input's classes sum to 1, and those of a
    forest's to 1 below each root. The cost is
    that of a softmax over all classes, `2 R width` operations per input, and so
    is the memory of the result: for the best few classes there is
    `hierarchical_softmax_top_k`, for given ones `hierarchical_softmax_log_prob`
    and `hierarchical_softmax_loss`.

    It has gradients. The gradients of `weights` and `biases` are dense, since
    every row has one. A variable is never copied, as in
    `hierarchical_softmax_loss`.

    Args:
      weights: `[rows, width]`, rows as in `tree.num_weight_rows`: a tensor, a
        `tf.Variable` or a Keras variable; float32, bfloat16, float16 or
        float64; or `tf_hsm.QuantizedRows`.
      biases: `[rows]` of the same type, or None.
      inputs: `[..., width]`, any of the float types.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
      nodes: whether to return all nodes, in the order of rows, instead
        of the classes, which are the nodes `tree.class_rows`. A node's
        probability is the sum over the classes below it.
      root_log_probs: `[..., num_roots]`, in nats, the log-probability of each
        root for each input, which is added to all nodes below it; it
        has a gradient too. None: 0, so that each root is given.
      logit_soft_cap: see `hierarchical_softmax_loss`.

    Returns:
      `[..., num_classes]`, or with `nodes` `[..., num_rows]`: float64 for
      float64 weights, else float32.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape does not fit; the message names the argument.
    """
    return call.down_tree(
        "tf_hsm_log_probs",
        weights,
        biases,
        inputs,
        tree,
        {"root_log_probs": root_log_probs},
        logit_soft_cap,
        of_nodes=nodes,
    ).log_probs


@private_tensorflow.allow_infinities
def hierarchical_softmax_log_prob(
    weights,
    biases,
    classes,
    inputs,
    tree: Tree | Forest,
    *,
    nodes: bool = False,
    root_log_probs=None,
    allowed=None,
    renormalize: bool = False,
    logit_soft_cap: float | None = None,
) -> tf.Tensor:
    """Computes log p(class | input) of a few given classes of each input.

    For ranking candidates anew. What the paths of an input's candidates share
    is computed once. There is no gradient, and to ask for one is a LookupError:
    train with `hierarchical_softmax_loss`, which is the negative of this for
    one class.

    Args:
      weights: see `hierarchical_softmax_log_probs`, also for biases and tree.
      biases: `[rows]`, or None.
      classes: `[..., C]`, int32 or int64, each in `[0, tree.num_classes)`. With
        root_log_probs it may be -1 too: a class that is below none of the
        roots.
      inputs: `[..., width]`.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
      root_log_probs: see `hierarchical_softmax_log_probs`.
      nodes: whether `classes` are rows, each in `[0, tree.num_rows)`: inner
        nodes too, whose probability is the sum over the classes below them.
      allowed: the classes that count, as for `hierarchical_softmax_top_k`, or
        None; the log-probability of another one is minus infinity.
      renormalize: whether to return log p(class | input, the class is allowed).
        That takes the log-probabilities of all allowed classes.
      logit_soft_cap: see `hierarchical_softmax_loss`.

    Returns:
      `[..., C]`, in nats: float64 for float64 weights, else float32; minus
      infinity for the class -1. On a GPU, NaN for a class that is out of range.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape or a class does not fit; the message names the argument, the
        position, the value and the legal range.
      tf.errors.UnimplementedError: a GPU holds the weights, and `nodes` is set.
      ValueError: `renormalize` without `allowed`, or of a forest of several
        trees without root_log_probs; or `allowed` beside `nodes`.
    """
    check_mask_options(tree, root_log_probs, allowed, renormalize)
    check_not_of_nodes(nodes, allowed)
    classes = arguments.integers(classes, "classes")
    log_probs = of_given(
        weights,
        biases,
        classes,
        inputs,
        tree,
        nodes,
        root_log_probs=root_log_probs,
        logit_soft_cap=logit_soft_cap,
    )
    if allowed is None:
        return log_probs
    mask = AllowedClasses.read(allowed, tree, inputs)
    of_allowed = None
    if renormalize:
        of_allowed = allowed_log_probs(
            weights, biases, inputs, tree, root_log_probs, mask, logit_soft_cap
        )
    return masked(log_probs, classes, mask, of_allowed)


def of_given(
    weights,
    biases,
    classes,
    inputs,
    tree,
    nodes,
    root_log_probs=None,
    logit_soft_cap=None,
    has_sigmoids=False,
):
    """Calls the op of `hierarchical_softmax_log_prob`, and of label trees."""
    place = cpu_only(weights, "nodes") if nodes else contextlib.nullcontext()
    with place:
        return call.down_tree(
            "tf_hsm_class_log_probs",
            weights,
            biases,
            inputs,
            tree,
            {"root_log_probs": root_log_probs},
            logit_soft_cap,
            **path_tensors(tree, weights, nodes)._asdict(),
            classes=classes,
            has_sigmoids=has_sigmoids,
        )


def masked(log_probs, classes, mask, of_allowed=None):
    """Log-probabilities of classes, minus infinity where a mask has them not.

    Args:
      log_probs: `[..., C]`.
      classes: `[..., C]`.
      mask: the `AllowedClasses`.
      of_allowed: `[B, M]`, the log-probabilities of all allowed classes, by
        which the others are renormalized; or None.
    """
    if of_allowed is not None:
        log_probs = renormalized(log_probs, of_allowed)
    return tf.where(mask.contain(classes), log_probs, -float("inf"))


def check_not_of_nodes(nodes, allowed):
    """A ValueError if allowed classes stand beside nodes."""
    if nodes and allowed is not None:
        raise ValueError(
            "allowed are classes, and do not restrict nodes; leave out one of "
            "nodes and allowed"
        )


def check_mask_options(tree, root_log_probs, allowed, renormalize):
    """A ValueError if there is nothing to renormalize by."""
    _checks.check_is_tree(tree)
    if not renormalize:
        return
    if allowed is None:
        raise ValueError("renormalize needs allowed, the classes that count")
    if tree.num_roots > 1 and root_log_probs is None:
        raise ValueError(
            f"renormalize needs root_log_probs for a forest of {tree.num_roots}"
            " trees, whose probabilities are given their root"
        )


def allowed_log_probs(
    weights, biases, inputs, tree, root_log_probs, mask, logit_soft_cap
):
    """Log-probabilities `[B, M]` of the classes in the lists of a mask."""
    dtype = arguments.weights_dtype(weights)
    inputs = arguments.floats(inputs, dtype)
    shape = tf.shape(inputs)
    flat = tf.reshape(inputs, [tf.reduce_prod(shape[:-1]), shape[-1]])
    if root_log_probs is not None:
        root_log_probs = tf.reshape(root_log_probs, [-1, tree.num_roots])

    def log_prob(classes):
        return hierarchical_softmax_log_prob(
            weights,
            biases,
            classes,
            flat,
            tree,
            root_log_probs=root_log_probs,
            logit_soft_cap=logit_soft_cap,
        )

    return mask.log_probs(log_prob, tf.shape(flat)[0])


def renormalized(log_probs, of_allowed):
    """Log-probabilities `[..., C]` given that the class is an allowed one.

    Args:
      log_probs: `[..., C]`, of allowed classes.
      of_allowed: `[B, M]`, of all of them.
    """
    mass = tf.reshape(
        tf.reduce_logsumexp(of_allowed, -1),
        tf.concat([tf.shape(log_probs)[:-1], [1]], 0),
    )
    result = tf.where(log_probs > -float("inf"), log_probs - mass, log_probs)
    return tf.ensure_shape(result, log_probs.shape)


@tf.RegisterGradient("TfHsmLogProbs")
@tf.RegisterGradient("ResourceTfHsmLogProbs")
@gradients.on_forward_device
def _log_probs_gradient(op, grads, *unused_grads):
    """The gradients of weights, biases, inputs and root_log_probs."""
    given, dtype = gradients.inputs_of(op), op.get_attr("T")
    inputs = given["inputs"]
    input_grads, logit_grads, root_grads = call.op(
        "tf_hsm_log_probs_grad",
        dtype,
        **given,
        log_probs=op.outputs[0],
        group_log_probs=op.outputs[1],
        grads=grads,
        of_nodes=op.get_attr("of_nodes"),
        pinned=op.get_attr("pinned"),
        logit_soft_cap=op.get_attr("logit_soft_cap"),
    )
    logit_grads = gradients.first_order_only(logit_grads)
    width = tf.shape(inputs)[-1]
    flat = tf.cast(tf.reshape(inputs, [-1, width]), logit_grads.dtype)
    return gradients.in_order(
        op,
        weights=tf.cast(tf.matmul(logit_grads, flat, transpose_a=True), dtype),
        biases=tf.cast(tf.reduce_sum(logit_grads, 0), dtype),
        inputs=tf.cast(gradients.first_order_only(input_grads), inputs.dtype),
        root_log_probs=gradients.first_order_only(root_grads),
    )


gradients.declare_without(
    "TfHsmClassLogProbs",
    "hierarchical_softmax_log_prob",
    "train with hierarchical_softmax_loss, which is the negative of it for one "
    "class",
)
private_tensorflow.declare_read_only(
    "ResourceTfHsmLogProbs",
    "ResourceTfHsmLogProbsGrad",
    "ResourceTfHsmClassLogProbs",
)
