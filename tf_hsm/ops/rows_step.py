"""Rows of a table, whose gradient is a step in place."""

import tensorflow as tf

from tf_hsm.ops.in_place_step import variable_named
from tf_hsm.optimizers import in_place
from tf_hsm.runtime import private_tensorflow


def gather_to_step(table, rows, optimizer, rule):
    """Looks up rows of a table that an optimizer trains in place.

    The step is made in the backward pass: when a `tf.GradientTape` has the
    gradient of the rows, each time that it is asked. Those of repeated rows are
    summed first. `tf.gradients` does not pass through the table: it makes none.
    The gradient of the table itself has no rows: nothing is left to do.

    Args:
      table: a variable `[count, width]` on a CPU.
      rows: `[B]` int64, each in `[0, count)`.
      optimizer: one that can step in place, built with the table.
      rule: of the step; see `in_place_step.rule_of`.

    Returns:
      `[B, width]`.

    Raises:
      ValueError: the table is not on a CPU, or the tapes that record watch
        nothing by themselves.
    """
    variable = variable_named("table", table)
    if not in_place.can_step_on_rows(optimizer, table):
        raise ValueError(
            "the embedding can step in place on a CPU only, but its rows are "
            f"on {variable.device or 'no known device'}; leave out the "
            "optimizer of the layer"
        )

    @tf.custom_gradient
    def gathered(handle):
        del handle  # For the tape alone.

        def step(grads):
            gradient = tf.IndexedSlices(grads, rows)
            made = in_place.step_on_rows(optimizer, table, gradient, rule)
            # What TensorFlow makes of a function for a tape outside keeps the
            # ops that a gradient depends on, and no others.
            with tf.control_dependencies([] if made is None else [made]):
                return tf.IndexedSlices(
                    tf.zeros([0, *variable.shape[1:]], grads.dtype),
                    tf.zeros([0], tf.int64),
                    tf.constant(variable.shape.as_list(), tf.int64),
                )

        return tf.gather(variable, rows), step

    return gathered(private_tensorflow.watched_handle(variable))
