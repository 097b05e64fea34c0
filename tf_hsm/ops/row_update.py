"""The optimizer and its state as arguments of the ops of a step in place."""

import dataclasses
import typing

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.optimizers import in_place_rules
from tf_hsm.runtime import arguments, private_keras
from tf_hsm.runtime.quantized_rows import QuantizedRows
from tf_hsm.runtime.replicas import copies_of
from tf_hsm.runtime.variables import variable_of


@dataclasses.dataclass(frozen=True)
class RowUpdate:
    """A step of an optimizer on the rows of some weights and biases.

    Attributes:
      weights: a variable `[rows, width]`.
      biases: a variable `[rows]`, or None.
      optimizer: as `in_place_rules.get` takes it.
      stochastic_rounding: see `hierarchical_softmax_train_step`.
      seed: of stochastic_rounding, an integer.
      rule: the `Rule` of the step, if other steps share it; None: the next one
        of the optimizer.
    """

    weights: typing.Any
    biases: typing.Any
    optimizer: typing.Any
    stochastic_rounding: bool | None = None
    seed: int = 0
    rule: typing.Any = None

    def __post_init__(self):
        """Reads the optimizer."""
        optimizer = in_place_rules.get(self.optimizer)
        object.__setattr__(self, "optimizer", optimizer)

    @property
    def dtype(self):
        """The `tf.DType` of the weights."""
        return arguments.dtype_of(variable_named("weights", self.weights))

    def arguments(self, vectors=None):
        """Returns the arguments of an op that updates the rows, by name.

        Args:
          vectors: a variable that the op updates too, or None.

        Raises:
          TypeError: weights or biases are no variables.
          ValueError: the optimizer was not built with the variables, there is
            stochastic rounding of other weights than bfloat16, or there are
            several replicas.
        """
        weights = variable_named("weights", self.weights)
        replicas = len(copies_of(weights))
        if replicas > 1:
            raise ValueError(
                "a step in place updates one copy of the weights, but there "
                f"are {replicas} replicas; use hierarchical_softmax_loss and "
                "an optimizer of tf_hsm.optimizers instead"
            )
        biases = []
        if self.biases is not None:
            biases = [variable_named("biases", self.biases)]
        is_rounding = rounds_at_random(self.stochastic_rounding, self.dtype)
        rule = self.rule or in_place_rules.rule_of(self.optimizer)
        decays = [
            in_place_rules.has_decay(self.optimizer, variable)
            for variable in (self.weights, self.biases, vectors)
        ]
        return {
            "weights": weights.handle,
            "biases": [b.handle for b in biases],
            "hyperparameters": rule.hyperparameters(decays),
            "seed": (
                seed_of_step(self.seed, self.optimizer.iterations)
                if is_rounding
                else tf.constant(0, tf.int64)
            ),
            "weight_slots": self.slots("weights", self.weights),
            "bias_slots": self.slots("biases", self.biases),
            "rule": rule.name,
            "stochastic_rounding": is_rounding,
        }

    def slots(self, name, variable):
        """Returns the handles of the slots of the variable of this name."""
        if variable is None:
            return []
        # A layer's autocast would make 16-bit tensors of the slots.
        with private_keras.no_autocast():
            try:
                slots = self.optimizer.slots(variable)
            except ValueError as error:
                raise ValueError(
                    "optimizer must be built, by its method build, with the "
                    f"variables of the step, but does not know {name}"
                ) from error
            return [variable_of(s).handle for s in slots]


def rounds_at_random(stochastic_rounding, dtype):
    """Returns whether a step rounds weights of a type at random.

    Raises:
      ValueError: the option is set, and the type is not bfloat16.
    """
    if stochastic_rounding is None:
        return dtype == tf.bfloat16
    is_rounding = _checks.as_bool_or_none(
        "stochastic_rounding", stochastic_rounding
    )
    if is_rounding and dtype != tf.bfloat16:
        raise ValueError(
            "stochastic_rounding is for bfloat16 weights, but they are "
            f"{dtype.name}"
        )
    return is_rounding


def count_step(optimizer, after):
    """Counts a step of an optimizer once the tensor `after` is there.

    A step that fails does not count. Keras would read and then write, and lose
    a step of another thread between.

    Returns:
      A list of what the next op has to wait for.
    """
    with tf.control_dependencies([after]):
        steps = variable_of(optimizer.iterations)
        made = steps.assign_add(1, read_value=False)
    return [] if made is None else [made]


def variable_named(name, value):
    """Returns the `tf.Variable` that an argument of this name must be."""
    if isinstance(value, QuantizedRows):
        raise TypeError(
            f"{name} are quantized, and training needs the weights as floats"
        )
    # A layer's autocast would make a 16-bit tensor of it.
    with private_keras.no_autocast():
        variable = variable_of(value)
    if variable is None:
        raise TypeError(
            f"{name} must be a variable, to be updated in place, but are "
            f"{type(value).__name__}"
        )
    return variable


def seed_of_step(seed, iterations):
    """Returns a 64-bit number for each seed and step, without a pattern."""
    pair = tf.stack([tf.cast(seed, tf.int64), tf.cast(iterations, tf.int64)])
    return tf.random.stateless_uniform(
        [], pair, minval=None, maxval=None, dtype=tf.int64
    )
