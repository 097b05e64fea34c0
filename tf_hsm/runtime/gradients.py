"""What the gradient functions of the ops share."""

import functools

import tensorflow as tf

from tf_hsm.runtime import private_tensorflow


def inputs_of(op):
    """Returns the inputs of an operation by name: tensors, or lists of them."""
    inputs, rest = {}, list(op.inputs)
    for argument in private_tensorflow.op_definition(op.type).input_arg:
        list_attr = argument.number_attr or argument.type_list_attr
        if not list_attr:
            inputs[argument.name], *rest = rest
            continue
        size = op.get_attr(list_attr)  # or the types of the list
        size = size if isinstance(size, int) else len(size)
        inputs[argument.name], rest = rest[:size], rest[size:]
    return inputs


def in_order(op, **gradients):
    """Returns the gradients, given by the names of inputs, for each input.

    What is given for a list is for each in it; what is not given is None.
    """
    return [
        gradients.get(name)
        for name, value in inputs_of(op).items()
        for _ in (value if isinstance(value, list) else [value])
    ]


def on_forward_device(gradient):
    """Makes a gradient function's ops run on the device of the op itself.

    A tape runs them in the device scope of whoever asks for the gradient. But
    what an op keeps for its gradient lies in the memory of its device, and the
    kernel for that kind of device decides on the layout of what the loss keeps.
    Where TensorFlow places the op, it places the gradient too.
    """

    @functools.wraps(gradient)
    def on_device(op, *grads):
        with tf.device(op.outputs[0].device or None):
            return gradient(op, *grads)

    return on_device


def some_rows(rows, *values):
    """Returns rows `[U]` and values `[U, ...]`, at least one row on replicas.

    TensorFlow crashes where the CPUs of several replicas exchange slices and
    none of them has a row. Row 0 is then given a gradient of 0, which plain SGD
    does not see. Optimizers with momentum or decay drop that row:
    `mark_stand_in`, before they exchange, and `without_stand_ins`, after it.
    """
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return (rows, *values)
    is_empty = tf.equal(tf.size(rows), 0)
    rows, *values = tf.cond(
        is_empty,
        lambda: [
            tf.zeros(tf.concat([[1], tf.shape(x)[1:]], 0), x.dtype)
            for x in (rows, *values)
        ],
        lambda: [tf.identity(x) for x in (rows, *values)],
    )
    # What scales or clips the values keeps the tensor of the rows.
    rows._tf_hsm_is_stand_in = is_empty
    return (rows, *values)


def look_up(table, rows):
    """Returns rows `[B]` of a table, `[B, width]`, as `tf.gather` does.

    On replicas the gradient has at least one row: see `some_rows`.
    """
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return tf.gather(table, rows)
    (some,) = some_rows(rows)
    return tf.gather(table, some)[: tf.size(rows)]


def of_all_rows(variable):
    """Reads a variable `[N, ...]` whose gradient is to be dense.

    For one op, whose gradient has slices of all N rows, in their order, or of
    at most one row, which is the case where no label counts.
    """

    @tf.custom_gradient
    def read(values):
        def gradient(slices):
            if not isinstance(slices, tf.IndexedSlices):
                return slices
            count = values.shape[0]
            return tf.cond(
                tf.equal(tf.size(slices.indices), count),
                lambda: slices.values,
                lambda: tf.math.unsorted_segment_sum(
                    slices.values, slices.indices, count
                ),
            )

        return tf.identity(values), gradient

    return read(tf.convert_to_tensor(variable))


def mark_stand_in(slices):
    """Returns slices in which the row that `some_rows` has added is row -1.

    In eager mode it does not find that row in the gradient of `look_up`, and
    where a tape has joined the slices of several calls on one variable.
    """
    rows = _marked(slices.indices)
    if rows is slices.indices:
        return slices
    return tf.IndexedSlices(slices.values, rows, slices.dense_shape)


def _marked(rows):
    is_stand_in = getattr(rows, "_tf_hsm_is_stand_in", None)
    if is_stand_in is not None:
        return tf.where(is_stand_in, -tf.ones_like(rows), rows)
    if not tf.is_symbolic_tensor(rows):
        return rows
    if rows.op.type == "Reshape":  # of the gradient of `look_up`
        inner = rows.op.inputs[0]
        found = _marked(inner)
        return rows if found is inner else tf.reshape(found, [-1])
    if rows.op.type == "ConcatV2":
        joined = list(rows.op.inputs)[:-1]  # the last one is the axis
        parts = [_marked(part) for part in joined]
        if any(a is not b for a, b in zip(parts, joined, strict=True)):
            return tf.concat(parts, 0)
    return rows


def without_stand_ins(slices):
    """Returns slices without the rows -1 of the replicas."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return slices
    values, rows = slices.values, slices.indices
    is_row = rows >= 0
    rows, values = tf.cond(
        tf.reduce_all(is_row),
        lambda: (tf.identity(rows), tf.identity(values)),
        lambda: (
            tf.boolean_mask(rows, is_row),
            tf.boolean_mask(values, is_row),
        ),
    )
    return tf.IndexedSlices(values, rows, slices.dense_shape)


def of_stepped(loss_grads, loss_weights):
    """Checks that a gradient is of the total that a step has minimized.

    Args:
      loss_grads: the gradient by each loss that is asked for.
      loss_weights: the weight of each loss in the total of the step.

    Returns:
      A list of what the gradient has to wait for.
    """
    assertion = tf.debugging.assert_near(
        loss_grads,
        loss_weights,
        rtol=1e-3,
        atol=1e-30,
        message="The weights were updated in place for the sum of "
        "loss_weights * losses, but the gradient that is asked for is of "
        "another total (x: its weight of each loss; y: loss_weights). Do not "
        "scale the loss afterwards: no LossScaleOptimizer, no loss_weights in "
        "compile.",
    )
    return [] if assertion is None else [assertion]


def first_order_only(gradient):
    """Makes a second derivative of what an op computed an error.

    Any tape outside would take it for a constant, and see zero.
    """
    return refused(
        gradient, "the hierarchical softmax loss has first-order gradients only"
    )


def refused(value, reason):
    """Returns a tensor, whose gradient is a LookupError with this reason."""
    return tf.raw_ops.PreventGradient(input=value, message=reason)


def declare_without(op_name, what, instead):
    """Makes the gradient of an op, on tensors and variables, a LookupError.

    Args:
      op_name: the op on tensors.
      what: the name of the function whose op it is, for the error.
      instead: what has a gradient, for the error.
    """

    def refuse(op, *unused_grads):
        del op
        raise LookupError(f"{what} has no gradient: {instead}")

    for name in (op_name, f"Resource{op_name}"):
        tf.RegisterGradient(name)(refuse)
