"""The optimizer of a head's own, which trains its rows in place."""

import dataclasses
import typing

import tensorflow as tf

from tf_hsm import _checks, _compiled_model
from tf_hsm.ops.gradient_step import GradientStep
from tf_hsm.optimizers import in_place_rules
from tf_hsm.runtime import gradients, private_keras, private_tensorflow
from tf_hsm.runtime.variables import variable_of

# Why there is no step, for `InPlace.without_gradient`.
NO_TAPE = (
    "no tape recorded them. Compute them within tf.GradientTape, and a "
    "tf.function that is called there too"
)


@dataclasses.dataclass(eq=False)
class InPlace:
    """An optimizer that updates a layer's rows in the gradient of its losses.

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
    # A scalar variable, or None.
    anchor: typing.Any = dataclasses.field(default=None, init=False)

    def __post_init__(self):
        """Reads the options."""
        self.optimizer = self.optimizer and in_place_rules.get(self.optimizer)
        self.stochastic_rounding = _checks.as_bool_or_none(
            "stochastic_rounding", self.stochastic_rounding
        )
        if self.stochastic_rounding and self.optimizer is None:
            raise ValueError(
                "stochastic_rounding is for an optimizer of the layer's own; "
                "give the layer an optimizer, or leave it out"
            )
        self.seed = _checks.as_integer("seed", self.seed)

    def make_anchor(self, layer):
        """Makes the variable for whose gradient the step is made.

        Its gradient is zero. Tapes watch it, so that they ask for the gradient
        of the losses even where the inputs have none.
        """
        if self.optimizer is not None:
            self.anchor = layer.add_weight(
                name="step",
                shape=(),
                initializer="zeros",
                trainable=False,
                autocast=False,
                overwrite_with_gradient=True,
            )

    def let_fit_ask(self, layer, model):
        """Lets `fit` ask for gradients of a model with nothing else to train.

        The anchor becomes a variable of the model's optimizer, without slots.
        """
        if model.trainable_weights or not layer.trainable:
            return
        self.anchor.trainable = True
        if model.optimizer is not None and model.optimizer.built:
            model.optimizer.built = False
            model.optimizer.build(model.trainable_variables)

    def is_asked(self):
        """Returns whether `let_fit_ask` gave the anchor to an optimizer."""
        return self.anchor is not None and self.anchor.trainable

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
            with tf.init_scope():
                layer.optimizer.build(variables)
        elif not layer.optimizer.knows(variables):
            raise ValueError(
                f"{layer.name}: its optimizer belongs to another layer "
                "already; give each layer an optimizer of its own"
            )

    def trains(self, layer):
        """Returns whether this trains the layer, and no gradient does."""
        return layer.optimizer is not None and layer.trainable

    def step(self, layer):
        """Returns the `GradientStep` that the gradient of losses makes.

        Returns:
          None where no tape records, or this does not train the layer.

        Raises:
          ValueError: the model trains in a way that a step cannot follow.
        """
        if not self.trains(layer) or private_keras.in_symbolic_scope():
            return None
        if not private_tensorflow.has_tape():
            return None
        _compiled_model.check_steps(layer, layer._caller())
        if not layer.optimizer.built:
            self.build(layer)
        private_tensorflow.watch(variable_of(self.anchor))
        return GradientStep(
            layer.optimizer,
            tf.convert_to_tensor(self.anchor.value),
            self.stochastic_rounding,
            self.seed,
            scale=layer._loss_scale(),
        )

    def without_gradient(self, layer, values, name, reason):
        """Returns values whose gradient is refused where this trains the layer.

        Such a gradient would train the layers below alone.

        Args:
          layer: the layer.
          values: a tensor.
          name: what the values are.
          reason: why the gradient makes no step, a sentence.
        """
        if not self.trains(layer):
            return values
        return gradients.refused(
            values,
            f"{layer.name}: a gradient of {name} would not train the layer, "
            f"which has an optimizer of its own: {reason}. Leave out the "
            "layer's optimizer, or set trainable=False for the gradient of the "
            "inputs alone",
        )

    def get_config(self, layer):
        """Returns the options of a layer as JSON can hold them."""
        return {
            "optimizer": layer.optimizer
            and in_place_rules.config_of(layer.optimizer),
            "stochastic_rounding": self.stochastic_rounding,
            "seed": self.seed,
        }
