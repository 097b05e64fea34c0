"""The optimizer of a head's own, which trains its rows in place."""

import dataclasses
import typing

import tensorflow as tf

from tf_hsm import _checks, _compiled_model
from tf_hsm.ops.step import Step
from tf_hsm.optimizers import in_place
from tf_hsm.runtime import gradients, private_keras


@dataclasses.dataclass(eq=False)
class InPlace:
    """An optimizer that updates a layer's rows while their losses are made.

    The variables of the rows are then made with `trainable=False`: the
    optimizer of the model does not train them.

    Attributes:
      optimizer: with which the layer was made: None; or an optimizer that
        `tf_hsm.optimizers` says can step in place, its config, or its name
        there. Steps are made by `layer.optimizer`, which Keras saves.
      stochastic_rounding: see `tf_hsm.hierarchical_softmax_train_step`.
      seed: of the rounding, an integer.

    Raises:
      TypeError: `optimizer` is not of `tf_hsm.optimizers`.
      ValueError: `optimizer` does what is not possible in place, or there is
        stochastic rounding without one.
    """

    optimizer: typing.Any = None
    stochastic_rounding: bool | None = None
    seed: int = 0

    def __post_init__(self):
        """Reads the options."""
        self.optimizer = self.optimizer and in_place.get(self.optimizer)
        self.stochastic_rounding = _checks.as_bool_or_none(
            "stochastic_rounding", self.stochastic_rounding
        )
        if self.stochastic_rounding and self.optimizer is None:
            raise ValueError(
                "stochastic_rounding is for an optimizer of the layer's own; "
                "give the layer an optimizer, or leave it out"
            )
        self.seed = _checks.as_integer("seed", self.seed)

    def build(self, layer):
        """Makes the optimizer's state for a built layer, unless it has one.

        Raises:
          ValueError: the optimizer belongs to another layer.
        """
        # On placeholders, variables are made once the layer is.
        if layer.optimizer is None or private_keras.in_symbolic_scope():
            return
        variables = layer.row_variables()
        if not layer.optimizer.built:
            layer.optimizer.build(variables)
        elif not layer.optimizer.knows(variables):
            raise ValueError(
                f"{layer.name}: its optimizer belongs to another layer "
                "already; give each layer an optimizer of its own"
            )

    def trains(self, layer):
        """Returns whether this trains the layer, and no gradient does."""
        return layer.optimizer is not None and layer.trainable

    def updates(self, layer, training):
        """Returns whether a call of the layer makes a step.

        Raises:
          ValueError: the model would train in a way that a step cannot follow.
        """
        if not training or layer.optimizer is None:
            return False
        if layer.trainable:
            _compiled_model.check_in_place(layer)
        if private_keras.in_symbolic_scope():
            return False
        if not layer.optimizer.built:
            with tf.init_scope():
                self.build(layer)
        return True

    def step(self, layer):
        """Returns the next `Step` of the layer's optimizer."""
        return Step(layer.optimizer, self.stochastic_rounding, self.seed)

    def without_gradient(self, layer, values, name, instead=""):
        """Returns values whose gradient is refused where this trains the layer.

        Such a gradient would train the layers below alone.

        Args:
          layer: the layer.
          values: a tensor.
          name: what the values are.
          instead: what else the user can do, for the error.
        """
        if not self.trains(layer):
            return values
        return gradients.refused(
            values,
            f"{layer.name}: a gradient of {name} would not train the layer, "
            f"whose own optimizer makes its steps in its own loss; {instead}"
            "leave out the layer's optimizer, or set trainable=False for the "
            "gradient of the inputs alone",
        )

    def get_config(self, layer):
        """Returns the options of a layer as JSON can hold them."""
        return {
            "optimizer": layer.optimizer
            and in_place.config_of(layer.optimizer),
            "stochastic_rounding": self.stochastic_rounding,
            "seed": self.seed,
        }
