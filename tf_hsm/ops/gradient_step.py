"""A step of an optimizer in place, made where a gradient is asked for."""

import tensorflow as tf

from tf_hsm.ops.row_update import (
    RowUpdate,
    count_step,
    rounds_at_random,
    seed_of_step,
    variable_named,
)
from tf_hsm.optimizers import in_place_rules
from tf_hsm.optimizers._unique_slices import sum_over_replicas
from tf_hsm.runtime import (
    arguments,
    call,
    gradients,
    private_keras,
    replicas,
)

# Variables do not share random bits. Each replica numbers its parts from a
# multiple of `_PARTS`; no head has as many on one. Tables and the copies that
# replicas have of some rows have numbers of their own.
_PARTS = 1 << 16
_FIRST_COPY = 1 << 29
_FIRST_TABLE = 1 << 30


class GradientStep:
    """A step of an optimizer on the rows of a head, which may have parts.

    The forward computes losses, and changes nothing. The gradient of the losses
    makes the step, by the weight that each loss has in whatever total is
    differentiated. All parts use the learning rate of the same step, which
    counts once:

    >>> step = GradientStep(optimizer, anchor)
    >>> losses = step.counted(step.losses(weights, biases, inputs, forward))

    Two gradients of the same losses, by a persistent tape, are two steps.

    Attributes:
      anchor: the argument.

    Args:
      optimizer: one that can step in place, built with all variables.
      anchor: a scalar tensor of 0 that depends on a variable which tapes watch.
        Its gradient is zero. The tapes then ask for the gradient of the losses
        even where the inputs have none.
      stochastic_rounding: see `hierarchical_softmax_train_step`.
      seed: of the rounding, an integer. Each part rounds by other numbers.
      scale: a scalar by which the total is multiplied before it is
        differentiated, for loss scaling; the step divides by it. None for 1.
    """

    def __init__(
        self, optimizer, anchor, stochastic_rounding=None, seed=0, scale=None
    ):
        self._optimizer = optimizer
        self.anchor = anchor
        self._stochastic_rounding = stochastic_rounding
        self._seed = seed
        self._scale = scale
        self._rule = in_place_rules.rule_of(optimizer)
        self._begun = tf.identity(optimizer.iterations)
        # Whether another step came between the losses and their gradient.
        self._moved = None
        replica = replicas.context()
        of_replica = 0 if replica is None else replicas.number(replica)
        self._next_number = of_replica * _PARTS
        self._has_copies = False

    def losses(self, weights, biases, inputs, forward):
        """Returns losses `[...]` whose gradient updates the rows.

        Args:
          weights: a variable `[rows, width]`.
          biases: a variable `[rows]`, or None.
          inputs: `[..., width]`.
          forward: a function of the inputs that returns the outputs of a loss
            op, as `loss_outputs` does.
        """
        update = RowUpdate(
            weights,
            biases,
            self._optimizer,
            self._stochastic_rounding,
            self._seed + (self._next_number << 32),
            self._rule,
        )
        self._next_number += 1
        given = update.arguments()

        @tf.custom_gradient
        def losses(inputs, anchor):
            found = forward(inputs)

            def step(loss_grads):
                # The state lies in the memory of the op's device.
                with tf.device(found.loss.device or None):
                    made = call.op(
                        "tf_hsm_loss_step",
                        update.dtype,
                        loss_grads=self.unscaled(loss_grads),
                        state=found.state,
                        moved=self._moved,
                        **given,
                    )
                    # Eager ops return None.
                    with tf.control_dependencies([made] if made else []):
                        dx = loss_grads[..., tf.newaxis] * (
                            gradients.first_order_only(found.input_grads)
                        )
                        return tf.cast(dx, inputs.dtype), tf.zeros_like(anchor)

            return found.loss, step

        return losses(arguments.floats(inputs, update.dtype), self.anchor)

    def losses_on_copies(self, variables, inputs, losses_of, sums_all_rows):
        """Returns losses whose gradient updates all copies of the rows alike.

        Each replica has a copy, and calls this function. The gradients of all
        replicas are summed, and the optimizer counts the step.

        Args:
          variables: the Keras variables of the rows, a list.
          inputs: `[B, width]`.
          losses_of: a function from inputs to losses `[B]` by the rows.
          sums_all_rows: whether to sum all rows, or to gather touched ones.
        """
        self._has_copies, rows = True, variables
        seeds = [
            self._rounding_seed(_FIRST_COPY + i, tf.as_dtype(v.dtype))
            for i, v in enumerate(rows)
        ]

        @tf.custom_gradient
        def losses(before, inputs, anchor):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                watched = [inputs, *(v.value for v in rows)]
                tape.watch(watched)
                found = losses_of(inputs)

            def step(_, loss_grads, variables=()):
                del variables  # tf.custom_gradient passes what a tape watches.
                dx, *slopes = tape.gradient(
                    found, watched, self.unscaled(loss_grads)
                )
                # A layer's autocast would make 16-bit tensors of the slots. A
                # step does not count where the losses of a part are an error.
                with (
                    private_keras.no_autocast(),
                    tf.control_dependencies([loss_grads]),
                ):
                    slopes = sum_over_replicas(
                        replicas.context(), slopes, sums_all_rows, seeds
                    )
                    self._optimizer.apply(slopes, rows)
                if self._scale is not None:
                    dx *= tf.cast(self._scale, dx.dtype)
                grads = None, dx, tf.zeros_like(anchor)
                return grads, [None for _ in rows]

            return (tf.identity(before), found), step

        (found,) = replicas.in_order(losses, inputs, self.anchor)
        return found

    def gather(self, table, rows):
        """Looks up rows of a table, whose gradient updates the table.

        The step sums the gradients of repeated rows first. It does not count.

        Args:
          table: a variable `[count, width]`.
          rows: `[B]` int64, each in `[0, count)`.

        Returns:
          `[B, width]`, float32 for a table of 16 bits, so that the gradient
          keeps its digits.

        Raises:
          ValueError: no op can update the rows where the table is.
        """
        variable = variable_named("table", table)
        if not in_place_rules.can_step_on_rows(self._optimizer, table):
            raise ValueError(
                "the embedding cannot step in place where its rows are, on "
                f"{variable.device or 'no known device'}; leave out the "
                "optimizer of the layer"
            )

        number = _FIRST_TABLE + self._next_number
        self._next_number += 1
        seed = self._rounding_seed(number, variable.dtype)

        @tf.custom_gradient
        def gathered(anchor):
            def step(grads):
                gradient = tf.IndexedSlices(self.unscaled(grads), rows)
                made = in_place_rules.step_on_rows(
                    self._optimizer, table, gradient, self._rule, seed
                )
                with tf.control_dependencies([] if made is None else [made]):
                    return tf.zeros_like(anchor)

            wide = arguments.accumulator(variable.dtype)
            return tf.cast(tf.gather(variable, rows), wide), step

        return gathered(self.anchor)

    def counted(self, losses):
        """Returns the losses of all parts, whose gradient counts the step.

        Their gradient comes before the gradients of the parts.
        """

        @tf.custom_gradient
        def identity(losses):
            def count(loss_grads):
                # Losses that fail, as of a bad label, count no step.
                with tf.control_dependencies([losses]):
                    now = tf.identity(self._optimizer.iterations)
                self._moved = tf.not_equal(now, self._begun)
                made = [self._moved]
                if not self._has_copies:
                    made = count_step(self._optimizer, self._moved)
                with tf.control_dependencies(made):
                    return tf.identity(loss_grads)

            return tf.identity(losses), count

        return identity(losses)

    def _rounding_seed(self, number, dtype):
        """The seed of a variable's rounding at random, or None for no such.

        The copies of all replicas have the same.
        """
        if not rounds_at_random(self._stochastic_rounding, dtype):
            return None
        return seed_of_step(self._seed + (number << 32), self._begun)

    def unscaled(self, grads):
        """Returns gradients of a scaled total as gradients of the total."""
        if self._scale is None:
            return grads
        return grads / tf.cast(self._scale, grads.dtype)
