"""The private interfaces of Keras' optimizers that this package needs."""

import keras
from keras.src.optimizers import base_optimizer


class ApplySteps:
    """Gives two private steps of a Keras optimizer's `apply` other names.

    A class names this one before a Keras optimizer among its bases, and
    overrides `_clipped` and `_left_to_constrain`. Weight decay, which Keras
    applies to whole variables, becomes a task of `update_step`.
    """

    def _clipped(self, grads):
        """Returns gradients, a list, clipped by the optimizer's arguments."""
        return super()._clip_gradients(grads)

    def _left_to_constrain(self, grads, variables):
        """Returns the variables that Keras constrains after `update_step`.

        Args:
          grads: a list of gradients.
          variables: a list with the variable of each gradient.
        """
        del grads
        return variables

    def _clip_gradients(self, grads):
        return self._clipped(grads)

    def _backend_apply_gradients(self, grads, trainable_variables):
        super()._backend_apply_gradients(grads, trainable_variables)
        # Keras applies the constraints of the variables in this list next.
        trainable_variables[:] = self._left_to_constrain(
            grads, list(trainable_variables)
        )

    def _apply_weight_decay(self, variables):
        """Does nothing."""


def add_slot(optimizer, reference_variable, name=None, initializer="zeros"):
    """As `add_variable_from_reference`, wherever the reference is.

    The method of Keras on TensorFlow asks the strategy for the place of the
    reference first.
    """
    return base_optimizer.BaseOptimizer.add_variable_from_reference(
        optimizer, reference_variable, name, initializer
    )


def built_variables(optimizer):
    """The list of the variables that an optimizer was built with."""
    return optimizer._trainable_variables


def index_of(optimizer, variable):
    """The place of a variable among those that an optimizer was built with.

    Args:
      optimizer: a Keras optimizer.
      variable: a Keras variable, or the `tf.Variable` within.

    Raises:
      ValueError: the optimizer was not built with the variable.
    """
    optimizer._check_variables_are_known([variable])
    return optimizer._get_variable_index(variable)


def lets_decay(optimizer, variable):
    """Whether an optimizer's weight decay applies to a variable."""
    return optimizer.weight_decay is not None and optimizer._use_weight_decay(
        variable
    )


def adagrad_slots(optimizer):
    """The accumulators of a built `keras.optimizers.Adagrad`, a list of one.

    Returns:
      A list per kind of slot, with one slot for each variable.
    """
    return [optimizer._accumulators]


def adam_slots(optimizer):
    """The moments of a built `keras.optimizers.Adam`.

    Returns:
      A list per kind of slot, with one slot for each variable: of the first
      moments, the second and, with `amsgrad`, the largest second.
    """
    lists = [optimizer._momentums, optimizer._velocities]
    return [*lists, optimizer._velocity_hats] if optimizer.amsgrad else lists


def names_not_decayed(optimizer):
    """The pattern of the names that an optimizer excludes from weight decay.

    Returns:
      A regular expression, or None if no name is excluded.
    """
    pattern = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    return pattern and pattern.pattern


def rmsprop_slots(optimizer):
    """The state of a built `keras.optimizers.RMSprop`.

    Returns:
      A list per kind of slot, with one slot for each variable: of the means of
      the squares, the momentums if there is a momentum, and the means if the
      optimizer is centered.
    """
    lists = [
        optimizer._velocities,
        optimizer._momentums,
        optimizer._average_gradients,
    ]
    return [slots for slots in lists if slots]


def lion_slots(optimizer):
    """The momentums of a built `keras.optimizers.Lion`, a list of one list."""
    return [optimizer._momentums]


def has_schedule(optimizer):
    """Whether an optimizer's learning rate follows a schedule or a function."""
    return not isinstance(optimizer._learning_rate, keras.Variable)


def copy_of(optimizer):
    """Another optimizer of the same arguments, but for the learning rate.

    A schedule may be of a class that cannot be made again.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    rate, inner._learning_rate = inner._learning_rate, 1e-3
    try:
        config = optimizer.get_config()
    finally:
        inner._learning_rate = rate
    return type(optimizer).from_config(config)


def copy_decay_exclusions(source, target, pairs=None):
    """Excludes from weight decay what another optimizer excludes.

    Args:
      source: a Keras optimizer.
      target: another one.
      pairs: variables of the one and the other, in pairs; None: those that they
        were built with, which stand in the same order.
    """
    one, other = (getattr(x, "inner_optimizer", x) for x in (source, target))
    if pairs is None:
        pairs = zip(
            one._trainable_variables, other._trainable_variables, strict=True
        )
    other._exclude_from_weight_decay = {
        other._var_key(theirs)
        for its, theirs in pairs
        if not one._use_weight_decay(its)
    }
    other._exclude_from_weight_decay_cache = {}


def slot_owners(optimizer):
    """The variables of the model that an optimizer's variables are slots of.

    Args:
      optimizer: a built Keras optimizer.

    Returns:
      A list for `optimizer.variables`, with None for those that belong to none,
      as the number of steps does.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    variables = inner._trainable_variables
    # Another optimizer tells what it adds, for small variables of that rank.
    copy = type(optimizer).from_config(optimizer.get_config())
    copied = getattr(copy, "inner_optimizer", copy)
    add = copied.add_variable_from_reference
    stand_ins = [
        keras.Variable(
            "zeros", shape=[1] * len(v.shape), dtype=v.dtype, name=v.name
        )
        for v in variables
    ]
    places = {id(v): place for place, v in enumerate(stand_ins)}
    owners = {}

    def add_and_note(reference_variable, *args, **kwargs):
        slot = add(reference_variable, *args, **kwargs)
        owners[id(slot)] = variables[places[id(reference_variable)]]
        return slot

    copied.add_variable_from_reference = add_and_note
    copy.build(stand_ins)
    return [owners.get(id(v)) for v in copy.variables]
