"""The optimizer of a head's own, which trains its rows in place."""

import keras
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.ops.part_steps import PartSteps
from tf_hsm.optimizers import in_place
from tf_hsm.runtime import gradients, private_keras


class OwnOptimizer:
    """To be named before `RowOptions` among the bases of a head.

    A subclass has `row_variables()`, which that optimizer trains and no other:
    they are made with `trainable=False` if there is one. When they are made,
    `build` calls `build_optimizer`.

    Args:
      *args: of `RowOptions`.
      optimizer: None; or one that `tf_hsm.optimizers` says can step in place,
        or its name there.
      stochastic_rounding: see `tf_hsm.hierarchical_softmax_train_step`.
      seed: likewise.
      **kwargs: of `RowOptions`.

    Raises:
      TypeError: `optimizer` is not of `tf_hsm.optimizers`.
      ValueError: it does what is not possible in place, or there is a
        regularizer or a constraint beside it.
    """

    def __init__(
        self,
        *args,
        optimizer=None,
        stochastic_rounding=None,
        seed=0,
        **kwargs,
    ):
        """See the class."""
        super().__init__(*args, **kwargs)
        self.optimizer = optimizer and in_place.get(optimizer)
        if self.optimizer is not None:
            self.check_no_row_options()
        self.stochastic_rounding = stochastic_rounding
        self.seed = _checks.as_integer("seed", seed)

    def build_optimizer(self):
        """Makes the optimizer's state, if there is one and it has none yet.

        Raises:
          ValueError: it is the optimizer of another layer.
        """
        # On placeholders, variables are made once the layer is.
        if self.optimizer is None or private_keras.in_symbolic_scope():
            return
        variables = self.row_variables()
        if not self.optimizer.built:
            self.optimizer.build(variables)
        elif not self.optimizer.knows(variables):
            raise ValueError(
                f"{self.name}: its optimizer is that of another layer already; "
                "give each layer one of its own"
            )

    def save_own_variables(self, store):
        """Writes the variables; see Keras, which saves the optimizer next."""
        self._complete()
        super().save_own_variables(store)

    def load_own_variables(self, store):
        """Reads the variables; see Keras, which loads the optimizer next."""
        self._complete()
        super().load_own_variables(store)

    def _complete(self):
        """Makes the state that Keras' way to build a model has left out."""
        if self.built:
            self.build_optimizer()

    def steps_in_loss_alone(self):
        """Whether the layer has an optimizer of its own, which trains it."""
        return self.optimizer is not None and self.trainable

    def updates_itself(self, training):
        """Whether a call makes a step of the layer's own optimizer."""
        if not training or self.optimizer is None:
            return False
        _check_fit(self)
        if private_keras.in_symbolic_scope():
            return False
        if not self.optimizer.built:
            with tf.init_scope():
                self.build_optimizer()
        return True

    def outside_steps(self, losses):
        """Returns losses, whose gradient would not train the layer."""
        return without_gradient(
            self,
            losses,
            "losses outside training",
            "call the layer, or the model, with training=True, or take "
            "tf.stop_gradient of what is only looked at; ",
        )

    def part_steps(self):
        """The `PartSteps` of the next step."""
        return PartSteps(self.optimizer, self.stochastic_rounding, self.seed)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "optimizer": self.optimizer
            and keras.optimizers.serialize(self.optimizer),
            "stochastic_rounding": self.stochastic_rounding,
            "seed": self.seed,
        }


def without_gradient(layer, values, name, instead=""):
    """Returns what a head's method of this name found.

    A gradient of it is refused where it would train the body alone.

    Args:
      layer: the head.
      values: a tensor.
      name: what the values are.
      instead: what else the user can do, for the error.
    """
    if not layer.steps_in_loss_alone():
        return values
    return gradients.refused(
        values,
        f"{layer.name}: a gradient of {name} would not train the layer, whose "
        f"own optimizer makes its steps in its own loss; {instead}leave out "
        "the layer's optimizer, or set trainable=False for the gradient of "
        "the inputs alone",
    )


def _check_fit(layer):
    """Refuses what would train the layer and the model differently."""
    if not layer.trainable:
        return
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas > 1:
        raise ValueError(
            f"{layer.name}: its own optimizer updates one copy of the weights, "
            f"but there are {replicas} replicas; leave out the layer's "
            "optimizer"
        )
    optimizer = private_keras.optimizer_of_model()
    for name in (
        "gradient_accumulation_steps",
        "loss_scale_factor",
        "clipnorm",
        "global_clipnorm",
        "clipvalue",
        "use_ema",
    ):
        if getattr(optimizer, name, None):
            raise ValueError(
                f"{layer.name}: its own optimizer makes its steps in place, "
                f"where {name} of the model's optimizer has no effect; leave "
                "that out, or the layer's optimizer"
            )
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            f"{layer.name}: its own optimizer takes the loss as it is, but the "
            "model's is a LossScaleOptimizer; compile with auto_scale_loss="
            "False, or leave out the layer's optimizer"
        )
    variables = layer.row_variables()
    if optimizer is not None and private_keras.decays(optimizer, variables):
        raise ValueError(
            f"{layer.name}: its own optimizer makes its steps in place, where "
            "weight_decay of the model's optimizer has no effect; say that "
            "it is not meant by optimizer.exclude_from_weight_decay("
            f"{layer.name}.non_trainable_variables) before compile, or leave "
            "it out"
        )
