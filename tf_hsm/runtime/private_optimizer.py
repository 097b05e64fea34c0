"""The private interfaces of Keras' optimizers that this package needs."""

import contextlib


class ApplySteps:
    """Gives private steps of a Keras optimizer's `apply` other names.

    A class names this one before a Keras optimizer among its bases. Three of
    its methods take part in `apply`: `_clipped(grads, clip)` returns the
    clipped gradients, where `clip` is Keras' function for a list of tensors;
    `_is_summed(gradient)` says whether a gradient is of all replicas; and
    `_left_to_constrain(grads, variables)` returns the variables that Keras
    constrains after `update_step`.
    """

    def _clip_gradients(self, grads):
        return self._clipped(grads, super()._clip_gradients)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        pairs = list(grads_and_vars)
        summed = [pair for pair in pairs if self._is_summed(pair[0])]
        left = [pair for pair in pairs if not self._is_summed(pair[0])]
        if left:
            left = super()._all_reduce_sum_gradients(left)
        return [*summed, *left]

    def _backend_apply_gradients(self, grads, trainable_variables):
        super()._backend_apply_gradients(grads, trainable_variables)
        # Keras applies the constraints of the variables in this list next.
        trainable_variables[:] = self._left_to_constrain(
            grads, trainable_variables
        )

    def _apply_weight_decay(self, variables):
        """Leaves to `update_step` a decay that Keras applies to all rows."""


def built_variables(optimizer):
    """The variables that an optimizer was built with, a list."""
    return optimizer._trainable_variables


def built_variable(optimizer, variable):
    """The Keras variable of an optimizer for it, or for its `tf.Variable`.

    Raises:
      ValueError: the optimizer was not built with the variable.
    """
    optimizer._check_variables_are_known([variable])
    index = optimizer._get_variable_index(variable)
    return optimizer._trainable_variables[index]


def has_decay(optimizer, variable):
    """Whether an optimizer's weight decay, if any, applies to a variable."""
    return optimizer._use_weight_decay(variable)


def names_not_decayed(optimizer):
    """The regular expression of names without weight decay, or None."""
    pattern = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    return pattern and pattern.pattern


def exclude_from_decay(optimizer, variables):
    """Excludes variables from decay; the public method forgets the names."""
    keys = set(map(optimizer._var_key, variables))
    optimizer._exclude_from_weight_decay = keys
    optimizer._exclude_from_weight_decay_cache = {}


@contextlib.contextmanager
def without_schedule(optimizer):
    """A scope without an optimizer's schedule, which may have no config."""
    rate, optimizer._learning_rate = optimizer._learning_rate, 1e-3
    try:
        yield
    finally:
        optimizer._learning_rate = rate
