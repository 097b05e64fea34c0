"""Checkpoints of heads, and copies, whatever devices they are on."""

import tensorflow as tf

from tf_hsm.distribute.slices import Slices
from tf_hsm.runtime import quantized_rows, row_order, row_parts
from tf_hsm.runtime.variables import variable_of

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
    starts = _starts(head.plan)
    groups = _groups(head)
    if head._on_replicas and head.plan is None:
        items.update(_items_of_tails(head, of_rows))
        groups = groups[:1]
    kinds = _kinds(head)
    for prefix, group in groups:
        items.update(_items(f"{prefix}weights", group, starts, kinds))
        if of_rows is not None:
            items.update(_slot_items(f"{prefix}slots", of_rows, group, starts))
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


def _groups(head):
    """Returns pairs: a prefix of names, and variables of rows of one width."""
    if not hasattr(head, "tail_kernels"):
        return [("", head.row_variables())]
    pairs = [
        (head.head_kernel, head.head_bias),
        *zip(head.tail_kernels, head.tail_biases, strict=True),
    ]
    return [
        (f"cluster_{i}_", [v for v in _variables(*pair) if v is not None])
        for i, pair in enumerate(pairs)
    ]


def _variables(kernel, bias):
    return [*quantized_rows.variables(kernel), bias]


def _kinds(head):
    """Returns the names that checkpoints have for the matrices of a head.

    An `EmbeddingSoftmax` without biases saves its embeddings as "bias".
    """
    is_quantized = head.quantization_mode is not None
    return ("codes", "scales", *_KINDS[1:]) if is_quantized else _KINDS


def _items_of_tails(head, optimizer):
    """Saves the tails over replicas, which other workers may have."""
    items, slots_of_rows = {}, 0
    if optimizer is not None:
        slots_of_rows = len(_slots(optimizer, head.head_kernel))
    trees = head.clusters.tail_trees
    pairs = zip(head.tail_kernels, head.tail_biases, strict=True)
    for number, (tree, pair) in enumerate(zip(trees, pairs, strict=True), 1):
        kinds = _kinds(head)[:-1]
        for kind, variable in zip(kinds, _variables(*pair), strict=True):
            if kind == "bias" and head.use_bias is not True:
                continue
            slots = [None] * slots_of_rows
            if variable is not None and optimizer is not None:
                slots = _slots(optimizer, variable)
            prefix = f"{kind}_cluster_{number}"
            names = [f"{prefix}_slots_{i}" for i in range(slots_of_rows)]
            names, values = [f"{prefix}_weights", *names], [variable, *slots]
            for name, value in zip(names, values, strict=True):
                here = [] if value is None else [value]
                items[name] = Slices(
                    list(map(variable_of, here)),
                    name,
                    [0] * len(here),
                    tree.num_weight_rows,
                )
    return items


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


def _slot_items(name, optimizer, variables, starts):
    """Saves the slots of some variables."""
    items = {}
    slots = [_slots(optimizer, v) for v in variables]
    for i, of_kind in enumerate(zip(*slots, strict=True)):
        items.update(_items(f"{name}_{i}", of_kind, starts))
    return items


def _slots(optimizer, variable):
    slots = getattr(optimizer, "slots", None)
    if slots is None:
        raise TypeError(
            "optimizer must be one of tf_hsm.optimizers, but is "
            f"{type(optimizer).__name__}"
        )
    return slots(variable)


def _items(name, variables, starts, kinds=_KINDS):
    """Saves `row_variables`, or slots like these."""
    items = {}
    matrices = row_parts.wholes(variables)
    kinds = kinds[: len(matrices)]
    for kind, parts in zip(kinds, matrices, strict=True):
        top, *shards = [variable_of(v) for v in parts]
        items[f"{kind}_{name}"] = top
        if starts[None]:
            first_rows = [
                starts[int(row_parts.part_of(v).rows[0])] for v in parts[1:]
            ]
            items[f"{kind}_{name}_of_shards"] = Slices(
                shards, f"{kind}_{name}", first_rows, starts[None]
            )
    return items
