"""Look-up, loss and update of everything in one op."""

import tensorflow as tf

from tf_hsm.ops.loss import loss_options
from tf_hsm.ops.row_update import RowUpdate, count_step, variable_named
from tf_hsm.ops.train_step import step_arguments
from tf_hsm.runtime import arguments, call, gradients
from tf_hsm.tree import Forest, Tree


def hierarchical_softmax_embedding_train_step(
    weights,
    biases,
    labels,
    vectors,
    indices,
    tree: Tree | Forest,
    optimizer,
    *,
    loss_weights=None,
    ignore_class=None,
    stochastic_rounding: bool | None = None,
    seed=0,
    label_smoothing: float = 0.0,
    combiner: str = "mean",
    index_weights=None,
    nodes: bool = False,
    smoothing_prior=None,
) -> tf.Tensor:
    """Predicts labels from rows of `vectors`, and updates both in place.

    A whole step of the skip-gram model (Mikolov et al., 2013: Distributed
    Representations of Words and Phrases and their Compositionality), or of any
    other where the inputs are one embedding each; or, with bags of indices, the
    mean or sum of several, as in CBOW and in fastText (Bojanowski et al., 2017:
    Enriching Word Vectors with Subword Information). It is the same as

        inputs = tf.gather(vectors, indices)
        losses = hierarchical_softmax_train_step(
            weights, biases, labels, inputs, tree, optimizer, loss_weights)

    and a step of `optimizer` on the `vectors` of labels that are not ignored,
    to rounding, but in one op: neither the inputs nor their gradient are ever
    handed around. What is minimized is the sum of `loss_weights * losses`. The
    losses and all gradients are those of the variables before the step; the
    gradients of indices that repeat are summed first. The gradient of a vector
    in a bag is that of the input times its weight there, divided for a mean as
    the input is: where word2vec.c and gensim add that of the mean undivided,
    this is its gradient (İrsoy, Benton and Stratos, 2021: Corrected CBOW
    Performs as well as Skip-gram).

    The variables must be on a CPU. Meanwhile the op holds their exclusive
    locks.

    Args:
      weights: a variable `[rows, width]`, as for `hierarchical_softmax_loss`.
      biases: a variable `[rows]` of the same type, or None.
      labels: `[...]`, int32 or int64, each in `[0, tree.num_classes)`.
      vectors: a variable `[count, width]` of the same type as weights.
      indices: `[...]`, of the shape of labels, int32 or int64, each in
        `[0, count)`: the row of `vectors` that predicts the label. Or bags, a
        `tf.RaggedTensor` `[B, None]` beside labels `[B]`: an empty one stands
        for zeros.
      tree: a `tf_hsm.Tree`; or a `tf_hsm.Forest`, whose loss is
        -log p(label | inputs, the root above the label).
      optimizer: as for `hierarchical_softmax_train_step`, built with
        `[weights, vectors]` or `[weights, biases, vectors]`.
      loss_weights: `[...]`, broadcast to the labels; None: 1 / the number of
        labels that are not ignored, so that the mean loss is minimized. With 1
        every pair is a step of its own size, as in word2vec: what SGD and the
        Adagrads need, since few labels of a batch share a vector.
      ignore_class: a label whose loss is 0 and which updates nothing; a list or
        tuple of such labels; or None.
      stochastic_rounding: of bfloat16 weights and vectors, as for
        `hierarchical_softmax_train_step`.
      seed: of stochastic_rounding, an integer. The same seed gives the same
        weights, whatever the number of threads.
      label_smoothing: see `hierarchical_softmax_loss`.
      combiner: of bags, "mean" or "sum". A mean is divided by the sum of the
        weights; where that is 0, it is 0.
      index_weights: of bags, what each vector is multiplied by: a
        `tf.RaggedTensor` with the row splits of indices, or its flat values
        `[n]`. None: 1.
      nodes: whether labels are rows of the tree, of inner nodes too, instead of
        classes: see `hierarchical_softmax_loss`.
      smoothing_prior: see `hierarchical_softmax_loss`.

    Returns:
      `[...]`: one loss per label, in nats; float64 for float64 weights, else
      float32. It has no gradient: everything has been updated but
      index_weights, for which a gradient is a LookupError.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape, a label or an index does not fit; nothing is updated then.
      TypeError: weights, biases or vectors are no variables.
      ValueError: the optimizer does what is not possible in place or was not
        built with these variables, a variable is not on a CPU, or there are
        several replicas; `combiner` is neither of the two, or there are
        `index_weights` but no bags.
    """
    update = RowUpdate(weights, biases, optimizer, stochastic_rounding, seed)
    given = step_arguments(
        update, labels, tree, loss_weights, ignore_class, nodes, vectors
    )
    bags = _bags(indices, combiner, index_weights, weights)
    table = variable_named("vectors", vectors)
    _check_device("weights", variable_named("weights", weights))
    _check_device("vectors", table)
    losses = call.op(
        "tf_hsm_embedding_train_step",
        vectors=table.handle,
        vector_slots=update.slots("vectors", vectors),
        **bags,
        **given,
        **loss_options(tree, label_smoothing, smoothing_prior),
    )
    count_step(update.optimizer, losses)
    return losses


def _bags(indices, combiner, weights, table):
    """The op's arguments that say what the inputs are made of."""
    arguments.check_combiner(combiner)
    if not isinstance(indices, tf.RaggedTensor):
        if weights is not None:
            raise ValueError(
                "index_weights are for bags, but indices are no RaggedTensor"
            )
        indices = arguments.integers(indices, "indices")
        return {"indices": indices, "splits": [], "index_weights": []}
    if indices.shape.rank != 2:
        raise ValueError(
            f"indices of bags must be [B, None], but are {indices.shape}"
        )
    splits = tf.cast(indices.row_splits, tf.int64)
    if isinstance(weights, tf.RaggedTensor):
        assertion = tf.debugging.assert_equal(
            tf.cast(weights.row_splits, tf.int64),
            splits,
            "index_weights must have the row splits of indices",
        )
        weights = arguments.checked(weights.flat_values, assertion)
    dtype = arguments.dtype_of(variable_named("weights", table))
    return {
        "indices": arguments.integers(indices.flat_values, "indices"),
        "splits": [splits],
        "index_weights": []
        if weights is None
        else [_fixed(tf.cast(weights, arguments.accumulator(dtype)))],
        "combiner": combiner,
    }


def _fixed(index_weights):
    return gradients.refused(
        index_weights,
        "a step in place has no gradient of index_weights: take "
        "tf.stop_gradient of them if they are not learned, else tf.gather and "
        "hierarchical_softmax_train_step, or an EmbeddingSoftmax without an "
        "optimizer of its own",
    )


def _check_device(name, variable):
    kind = tf.DeviceSpec.from_string(variable.device).device_type
    # None: a graph is still to be placed.
    if kind not in (None, "CPU"):
        raise ValueError(
            f"{name} must be on a CPU, but are on {variable.device}; elsewhere "
            "use tf.gather, hierarchical_softmax_train_step and "
            "optimizer.apply"
        )


@tf.RegisterGradient("ResourceTfHsmEmbeddingTrainStep")
def _gradient(op, *unused_grads):
    """None; but weights of bags are asked, and refuse it."""
    weights = gradients.inputs_of(op)["index_weights"]
    if not weights:
        return [None] * len(op.inputs)
    return gradients.in_order(op, index_weights=tf.zeros_like(weights[0]))
