"""The hierarchical softmax loss in stock TensorFlow, and the full softmax.

Benchmarks compare the op with these functions, and tests take them as oracles:
they read like the formulas of docs/math.md. They share one signature and accept
every tree; `peak_bytes` returns the memory that each function will need.

    gather_loss            tf.gather copies the rows of each example's groups
    embedding_lookup_loss  the same through tf.nn.embedding_lookup
    map_fn_loss            tf.map_fn slices each example's groups, one by one
    full_softmax_loss      one softmax over all classes, no tree

The first two work level by level, the deepest first. A level of one group (the
root's) is a plain matrix product. The groups of any other level are padded to
the widest one, and masked, only if their fanouts differ; examples whose path
ends above a level take no part in it. On an even two-level tree nothing is
left of this but one matrix product and one gather of `[B, K, D]`.
"""

import tensorflow as tf

from tf_hsm.runtime import arguments
from tf_hsm.runtime.tree_tensors import tree_tensors
from tf_hsm.tree.check import check_not_pinned
from tf_hsm.tree.levels import tree_levels


def gather_loss(weights, biases, labels, inputs, tree, *, ignore_class=None):
    """Computes the loss from copied groups, `tf.gather` of `[B, K, D]`.

    Args:
      weights: `[R, D]`, a tensor or a variable. The gradient is a
        `tf.IndexedSlices` with repeated rows.
      biases: `[R]`, or None.
      labels: `[...]`, int32 or int64, in `[0, N)` or ignored.
      inputs: `[..., D]`, cast to the type of `weights`.
      tree: a `tf_hsm.Tree` with R rows.
      ignore_class: a label whose loss is 0 and which gives no gradient; a list
        or tuple of such labels; or None.

    Returns:
      `[...]`: -log p(label | input) in nats; float64 for float64 weights, else
      float32.

    Raises:
      tf.errors.InvalidArgumentError: a label is out of range (on the CPU).
      TypeError: labels are not integers, or inputs are not numbers.
      ValueError: the tree is pinned.
    """

    def batch_loss(labels, inputs):
        return _loss_by_level(tf.gather, weights, biases, labels, inputs, tree)

    return _over_examples(batch_loss, weights, labels, inputs, ignore_class)


def embedding_lookup_loss(
    weights, biases, labels, inputs, tree, *, ignore_class=None
):
    """Computes `gather_loss` through `tf.nn.embedding_lookup`."""

    def batch_loss(labels, inputs):
        return _loss_by_level(
            tf.nn.embedding_lookup, weights, biases, labels, inputs, tree
        )

    return _over_examples(batch_loss, weights, labels, inputs, ignore_class)


def map_fn_loss(weights, biases, labels, inputs, tree, *, ignore_class=None):
    """Computes `gather_loss`, with `tf.map_fn` slicing `weights` by example.

    Nothing is padded. The gradient of `weights` is dense, and each slice of
    each example adds a dense `[R, D]` to it.
    """
    weights = tf.convert_to_tensor(weights)
    biases = None if biases is None else tf.convert_to_tensor(biases)
    check_not_pinned(tree, "a baseline")
    tensors = tree_tensors(tree)

    def group_loss(row, x):
        group = tf.gather(tensors.row_groups, row)
        first = tf.gather(tensors.group_offsets, group)
        last = tf.gather(tensors.group_offsets, group + 1)
        logits = tf.linalg.matvec(weights[first:last], x)
        if biases is not None:
            logits += biases[first:last]
        parent = tf.gather(tensors.group_parents, group)
        return _cross_entropy(row - first, logits), parent

    def path_loss(row, x):
        loss = tf.zeros([], _loss_dtype(x))
        if tree_levels(tree).shortest_path == tree.depth:
            for _ in range(tree.depth):
                term, row = group_loss(row, x)
                loss += term
            return loss

        def climb(row, loss):
            term, parent = group_loss(row, x)
            return parent, loss + term

        return tf.while_loop(lambda row, _: row >= 0, climb, [row, loss])[1]

    def batch_loss(labels, inputs):
        return tf.map_fn(
            lambda example: path_loss(*example),
            (tf.gather(tensors.class_rows, labels), inputs),
            # More at a time is no faster, and multiplies the dense gradients
            # that are alive at once.
            parallel_iterations=1,
            fn_output_signature=_loss_dtype(inputs),
        )

    return _over_examples(batch_loss, weights, labels, inputs, ignore_class)


def full_softmax_loss(
    weights, biases, labels, inputs, tree=None, *, ignore_class=None
):
    """Computes the loss of one softmax over all classes, O(N D) per example.

    Args:
      weights: `[N, D]`.
      biases: `[N]`, or None.
      labels: as in `gather_loss`.
      inputs: as in `gather_loss`.
      tree: ignored, here for the sake of the common signature.
      ignore_class: as in `gather_loss`.

    Returns:
      As `gather_loss`.
    """
    del tree

    def batch_loss(labels, inputs):
        logits = tf.matmul(inputs, weights, transpose_b=True)
        if biases is not None:
            logits += biases
        return _cross_entropy(labels, logits)

    return _over_examples(batch_loss, weights, labels, inputs, ignore_class)


def peak_bytes(name, tree, *, batch, width, itemsize, gradient=True):
    """Estimates the memory that a baseline needs beside its arguments.

    Counts the large arrays that are alive at once in one call; results of an
    earlier call that are still held come on top. For uneven trees it is an
    upper bound: as if every path were the longest.

        gather,            forward   the copy of one level's groups, [B, K, D]
        embedding_lookup:  gradient  the copies of all levels, their gradients,
                                     and these once more, concatenated
        map_fn:            forward   one slice, [K, D]
                           gradient  10 dense gradients [R, D] (measured: 9 to
                                     11), and all slices
        full_softmax:      forward   the logits, [B, N]
                           gradient  also theirs, and the weights' gradient

    Args:
      name: "gather", "embedding_lookup", "map_fn" or "full_softmax".
      tree: a `tf_hsm.Tree`.
      batch: the number of examples, B.
      width: the length of an input, D.
      itemsize: the bytes of one number.
      gradient: whether the gradients are computed too.

    Returns:
      Bytes.

    Raises:
      ValueError: `name` is none of the four.
    """
    levels = tree_levels(tree)
    if name == "full_softmax":
        numbers = batch * tree.num_classes
        if gradient:
            numbers = 2 * numbers + tree.num_classes * width
    elif name == "map_fn":
        numbers = max(levels.widest) * width
        if gradient:
            numbers = (10 * tree.num_rows + batch * sum(levels.widest)) * width
    elif name in ("gather", "embedding_lookup"):
        copies = [
            widest * width * (1 if num_groups == 1 else batch)
            for widest, num_groups in zip(
                levels.widest, levels.num_groups, strict=True
            )
        ]
        numbers = 3 * sum(copies) if gradient else max(copies)
    else:
        raise ValueError(f"there is no baseline named {name!r}")
    return numbers * itemsize


def _over_examples(batch_loss, weights, labels, inputs, ignore_class):
    """Applies `batch_loss` to flat examples; ignored ones never reach it."""
    dtype = tf.as_dtype(weights.dtype).base_dtype
    labels = tf.cast(arguments.integers(labels), tf.int64)
    inputs = tf.cast(arguments.floats(inputs, dtype), dtype)
    shape = tf.shape(labels)
    batch = tf.size(labels)
    flat_labels = tf.reshape(labels, [-1])
    flat_inputs = tf.reshape(inputs, [batch, inputs.shape[-1]])
    counted = arguments.counted(flat_labels, ignore_class)
    if counted is None:
        return tf.reshape(batch_loss(flat_labels, flat_inputs), shape)
    kept = tf.where(counted)
    loss = batch_loss(
        tf.gather_nd(flat_labels, kept), tf.gather_nd(flat_inputs, kept)
    )
    kept = tf.cast(kept, batch.dtype)
    return tf.reshape(tf.scatter_nd(kept, loss, batch[tf.newaxis]), shape)


def _loss_by_level(lookup, weights, biases, labels, inputs, tree):
    """The sums `[B]` of the losses of all levels; `lookup` is a `tf.gather`."""
    check_not_pinned(tree, "a baseline")
    tensors = tree_tensors(tree)
    levels = tree_levels(tree)

    def group_loss(level, rows, inputs):
        groups = tf.gather(tensors.row_groups, rows)
        first = tf.gather(tensors.group_offsets, groups)
        siblings = tf.range(levels.widest[level], dtype=tf.int64)
        missing = None
        if levels.num_groups[level] == 1:
            siblings += levels.offsets[level]
            kernel = lookup(weights, siblings)
            logits = tf.matmul(inputs, kernel, transpose_b=True)
        else:
            if levels.narrowest[level] < levels.widest[level]:
                last = tf.gather(tensors.group_offsets, groups + 1)
                missing = siblings >= (last - first)[:, tf.newaxis]
                siblings = tf.where(missing, tf.zeros([], tf.int64), siblings)
            siblings += first[:, tf.newaxis]
            logits = tf.linalg.matvec(lookup(weights, siblings), inputs)
        if biases is not None:
            logits += lookup(biases, siblings)
        if missing is not None:
            # The lowest finite number has no mass beside any logit, and unlike
            # -inf it cannot turn a gradient into NaN.
            logits = tf.where(missing, logits.dtype.min, logits)
        parents = tf.gather(tensors.group_parents, groups)
        return _cross_entropy(rows - first, logits), parents

    rows = tf.gather(tensors.class_rows, labels)
    path_lengths = tf.searchsorted(levels.offsets, rows, side="right")
    loss = tf.zeros(tf.shape(labels), _loss_dtype(inputs))
    for level in reversed(range(tree.depth)):
        if level < levels.shortest_path:
            terms, rows = group_loss(level, rows, inputs)
            loss += terms
        else:
            here = tf.where(path_lengths > level)
            terms, parents = group_loss(
                level, tf.gather_nd(rows, here), tf.gather_nd(inputs, here)
            )
            rows = tf.tensor_scatter_nd_update(rows, here, parents)
            loss = tf.tensor_scatter_nd_add(loss, here, terms)
    return loss


def _cross_entropy(labels, logits):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.cast(logits, _loss_dtype(logits))
    )


def _loss_dtype(tensor):
    return tf.float64 if tensor.dtype == tf.float64 else tf.float32
