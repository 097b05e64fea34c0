"""Checkpoints of heads, and copies, whatever devices they are on."""

import tensorflow as tf

from tf_hsm.distribute.slices import Slices
from tf_hsm.runtime import quantized_rows, row_order, row_parts
from tf_hsm.runtime.variables import variable_of

# The names of matrices. An `EmbeddingSoftmax` without biases saves its
# embeddings as "bias".
_KINDS = ("kernel", "bias", "embeddings")


def checkpoint(head, *, optimizer=None) -> tf.train.Checkpoint:
    """Returns what TensorFlow saves of a head: weights, slots, steps.

    Each device writes the rows that it has, and reads those that it is to have:
    of a head whose plan is `plan`, the checkpoint can be restored by one whose
    plan is `plan.on(other_devices)`, with the same bits, and no machine ever
    has more than its own rows. For several machines the folder must be one that
    all of them see.

    >>> saved = tf.train.Checkpoint(
    ...     body=body, head=tf_hsm.distribute.checkpoint(head))
    >>> manager = tf.train.CheckpointManager(saved, folder, max_to_keep=3)

    A head without a plan has another kind of checkpoint. To go from one kind to
    the other, see `copy_weights`; or save the model as `.keras` or
    `.weights.h5`, files that heads of both kinds read, but that one machine
    writes.

    The restore of a checkpoint of another tree, or of one that was cut
    elsewhere, is a ValueError.

    Args:
      head: a built layer of `tf_hsm.layers`. For an `AdaptiveSoftmax` each
        device writes and reads the tails that it has.
      optimizer: that of the model, one of `tf_hsm.optimizers` that is built, if
        it trains the head or the projections of its tails; an optimizer of the
        head's own is found on it.

    Raises:
      TypeError: `optimizer` is not of `tf_hsm.optimizers`.
      ValueError: the head or the optimizer is not built.
    """
    variables = head.row_variables()
    # A LossScaleOptimizer has another within.
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    # Codes have no slots.
    is_quantized = head.quantization_mode is not None
    of_rows = None if is_quantized else head.optimizer or optimizer
    items = {"order": _order(head)}
    if of_rows is not None:
        items["iterations"] = variable_of(of_rows.iterations)

    def with_slots(variable):
        slots = [] if of_rows is None else _slots(of_rows, variable)
        return list(map(variable_of, [variable, *slots]))

    for key, name, parts, slices in _matrices(head):
        for i in range(len(with_slots(variables[0]))):
            column = f"slots_{i - 1}" if i else "weights"
            found = [with_slots(part)[i] for part in parts]
            if slices is not None:
                found = [Slices(found, f"{name}_{column}", *slices)]
            items[key.format(column)] = found[0]
    # The anchor of steps has no value.
    known = {id(variable) for variable in (*variables, head.in_place.anchor)}
    for variable in head.weights:
        if id(variable) in known:
            continue
        # Projections of tails, which the optimizer of the model trains, and
        # how many times classes were drawn.
        items[variable.name] = variable_of(variable)
        if variable.trainable and optimizer is not None:
            if optimizer is not of_rows:
                items["model_iterations"] = variable_of(optimizer.iterations)
            for i, slot in enumerate(_slots(optimizer, variable)):
                items[f"{variable.name}_slots_{i}"] = variable_of(slot)
    return tf.train.Checkpoint(**items)


def copy_weights(source, target) -> None:
    """Copies the weights of a head into another, with the slots.

    A few rows at a time, so that no machine need have room for both. The heads
    have one tree, and any plans or none.

    Args:
      source: a built `tf_hsm.layers.HierarchicalSoftmax`.
      target: likewise. If both have an optimizer of their own, of one class,
        its state is copied too.

    Raises:
      ValueError: a head is not built, or the heads do not have the same tree,
        width and quantization, and biases or none.
    """
    pairs = [source.row_variables(), target.row_variables()]
    if source.tree != target.tree:
        raise ValueError("source and target must have the same tree")
    modes = [head.quantization_mode for head in (source, target)]
    if modes[0] != modes[1]:
        raise ValueError(
            "source and target must both have weights of floats, or of the "
            f"same quantization, but have {modes[0]} and {modes[1]}"
        )
    if source.optimizer and type(source.optimizer) is type(target.optimizer):
        for variables, head in zip(pairs, (source, target), strict=True):
            variables += head.optimizer.variables
    sources, targets = map(row_parts.wholes, pairs)
    if len(sources) != len(targets):
        raise ValueError(
            "source and target must both have biases or none, and optimizers "
            "with the same state: they have "
            f"{len(sources)} and {len(targets)} matrices and numbers"
        )
    for one, other in zip(sources, targets, strict=True):
        if one[0].shape[1:] != other[0].shape[1:]:
            raise ValueError(
                f"{one[0].path} has rows of the shape {one[0].shape[1:]}, but "
                f"{other[0].path} of {other[0].shape[1:]}"
            )
    for one, other in zip(sources, targets, strict=True):
        if not len(one[0].shape):
            other[0].assign(one[0])
        else:
            row_parts.copy(one, other)


def _order(head):
    """The trees, and where one is cut: the devices may be others.

    They are read at each save and restore, since the head may be regrouped.
    """

    def parts():
        spec = getattr(head, "spec", None)  # of an adaptive softmax
        trees = [head.tree] if spec is None else spec.trees()
        cuts = [] if head.plan is None else [head.plan.layout.unit_rows]
        return [x for tree in trees for x in row_order.parts_of(tree, cuts)]

    return row_order.RowOrder(
        parts,
        lambda: (
            "the checkpoint is of a head with another tree, or with a plan "
            "that cuts it elsewhere: make the head with plan.on(devices), "
            "for the plan of the one that was saved"
        ),
    )


def _matrices(head):
    """Yields the matrices of rows of a head: of weights or codes, and biases.

    Yields:
      The key in a checkpoint, with a field for the column (weights, or a slot);
      the name of the matrix; its variables in this process; and the first row
      of each with the number of all rows, or None for a whole matrix.
    """
    kinds = _KINDS
    if head.quantization_mode is not None:
        kinds = ("codes", "scales", *_KINDS[1:])
    if not hasattr(head, "tail_kernels"):
        starts = _starts(head.plan)
        matrices = row_parts.wholes(head.row_variables())
        for kind, (first, *shards) in zip(kinds, matrices, strict=False):
            yield f"{kind}_{{}}", kind, [first], None
            if starts[None]:
                rows = [row_parts.part_of(v).rows for v in shards]
                slices = [starts[int(r[0])] for r in rows], starts[None]
                yield f"{kind}_{{}}_of_shards", kind, shards, slices
        return
    pairs = [
        (head.head_kernel, head.head_bias),
        *zip(head.tail_kernels, head.tail_biases, strict=True),
    ]
    trees = [None, *head.clusters.tail_trees]
    for i, (tree, (kernel, bias)) in enumerate(zip(trees, pairs, strict=True)):
        variables = quantized_rows.variables(kernel)
        if head.use_bias is True or (head.use_bias and tree is None):
            variables.append(bias)
        for kind, variable in zip(kinds, variables, strict=False):
            name = f"{kind}_cluster_{i}"
            # Another worker may have the tail.
            here = [] if variable is None else [variable]
            slices = tree and ([0] * len(here), tree.num_weight_rows)
            yield f"{name}_{{}}", name, here, slices


def _starts(plan):
    """Where each shard begins in the matrix of the rows below the top.

    Returns:
      A dict from the first row of a shard, as the tree counts, to its first row
      in that matrix; and from None to the number of rows of the matrix.
    """
    starts, end = {}, 0
    for shard in plan.shards if plan else []:
        rows = plan.weight_rows_of(shard)
        if rows.size:
            starts[int(rows[0])] = end
            end += rows.size
    return {**starts, None: end}


def _slots(optimizer, variable):
    slots = getattr(optimizer, "slots", None)
    if slots is None:
        raise TypeError(
            "optimizer must be one of tf_hsm.optimizers, but is "
            f"{type(optimizer).__name__}"
        )
    return slots(variable)
