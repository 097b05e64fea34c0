"""Helpers of the gradient functions of the ops."""

import functools

import tensorflow as tf

from tf_hsm.runtime import arguments, private_tensorflow


def is_recording():
    """Whether a gradient may be asked for later; in a graph, always."""
    return not tf.executing_eagerly() or private_tensorflow.has_tape()


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


def at_least_one_row(rows, *values):
    """Returns rows `[U]` and values `[U, ...]`, at least one row on replicas.

    TensorFlow crashes where the CPUs of several replicas exchange slices and
    none of them has a row. Row 0 is then given a gradient of -0.0, which plain
    SGD does not see. No kernel makes a whole row of -0.0, since sums begin with
    0.0: so optimizers with momentum or decay know the row and drop it, by
    `mark_stand_ins`, before replicas exchange, and `without_stand_ins`, after.
    """
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return (rows, *values)
    rows, *values = tf.cond(
        tf.equal(tf.size(rows), 0),
        lambda: [
            tf.zeros([1], rows.dtype),
            *(-tf.zeros([1, *v.shape[1:]], v.dtype) for v in values),
        ],
        lambda: [tf.identity(x) for x in (rows, *values)],
    )
    return (rows, *values)


def look_up(table, rows):
    """Returns rows `[B]` of a variable, `[B, width]`, as `tf.gather` does.

    On replicas the gradient has at least one row: see `at_least_one_row`.
    """
    table = arguments.parameter(table)
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return tf.gather(table, rows)
    is_empty = tf.equal(tf.size(rows), 0)

    @tf.custom_gradient
    def found(values):
        return tf.identity(values), lambda g: tf.where(is_empty, -g, g)

    (some,) = at_least_one_row(rows)
    return found(tf.gather(table, some))[: tf.size(rows)]


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


def mark_stand_ins(slices):
    """Returns slices in which a row from `at_least_one_row` is row -1."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return slices
    rows = slices.indices
    places = tf.where(tf.equal(rows, 0))
    values = tf.gather_nd(slices.values, places)
    values = tf.reshape(values, [tf.size(places), -1])
    # The angle of -0.0 is -pi, and the angle of 0.0 is pi.
    angles = tf.math.atan2(values, -tf.ones_like(values))
    is_stand_in = tf.reduce_all(tf.equal(values, 0) & (angles < 0), -1)
    marks = tf.cast(tf.where(is_stand_in, -1, 0), rows.dtype)
    rows = tf.tensor_scatter_nd_update(rows, places, marks)
    return tf.IndexedSlices(slices.values, rows, slices.dense_shape)


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


def check_step_total(loss_grads, loss_weights):
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
