"""What the training steps have in common that update variables in place."""

import dataclasses
import functools
import typing

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.optimizers import in_place
from tf_hsm.runtime import arguments, call, private_keras, private_tensorflow
from tf_hsm.runtime.quantized_rows import QuantizedRows
from tf_hsm.runtime.tree_tensors import tree_tensors


@dataclasses.dataclass(frozen=True)
class InPlaceStep:
    """A step of an optimizer on weights, by the loss of labels.

    Attributes:
      optimizer: one that `in_place.get` has returned.
      rule: the `Rule` of the step, if other steps share it; None: the next one
        of the optimizer.
      weights: see `hierarchical_softmax_train_step`; so is the rest.
    """

    weights: typing.Any
    biases: typing.Any
    labels: typing.Any
    tree: typing.Any
    optimizer: typing.Any
    loss_weights: typing.Any
    ignore_class: typing.Any
    stochastic_rounding: bool | None
    seed: int
    rule: typing.Any = None
    label_smoothing: float = 0.0
    nodes: bool = False
    smoothing_prior: typing.Any = None
    logit_soft_cap: float | None = None
    z_loss: float = 0.0

    @functools.cached_property
    def dtype(self):
        """The `tf.DType` of the weights."""
        return arguments.dtype_of(variable_named("weights", self.weights))

    def op(self, name, vectors=None):
        """Returns the op `name` as a function of its other arguments.

        Args:
          name: of the op.
          vectors: a variable that the op updates too, or None.
        """
        weights = variable_named("weights", self.weights)
        replicas = len(private_tensorflow.copies_of(weights))
        if replicas > 1:
            raise ValueError(
                "a step in place updates one copy of the weights, but there "
                f"are {replicas} replicas; use hierarchical_softmax_loss and "
                "an optimizer of tf_hsm.optimizers instead"
            )
        biases = []
        if self.biases is not None:
            biases = [variable_named("biases", self.biases)]
        is_rounding = self._is_rounding_at_random()
        labels = arguments.integers(self.labels)
        loss_grads = self.weights_of_losses(labels)
        rule = self.rule or rule_of(self.optimizer)
        return functools.partial(
            call.op,
            name,
            self.dtype,
            weights.handle,
            biases=[b.handle for b in biases],
            labels=labels,
            **tree_tensors(self.tree, weights, self.nodes)._asdict(),
            loss_grads=loss_grads,
            hyperparameters=rule.hyperparameters(
                [
                    in_place.lets_decay(self.optimizer, variable)
                    for variable in (self.weights, self.biases, vectors)
                ]
            ),
            seed=(
                _seed_of_step(self.seed, self.optimizer.iterations)
                if is_rounding
                else tf.constant(0, tf.int64)
            ),
            weight_slots=self.slots("weights", self.weights),
            bias_slots=self.slots("biases", self.biases),
            ignore_classes=arguments.ignored_labels(self.ignore_class),
            **self._softmax_options(),
            rule=rule.name,
            stochastic_rounding=is_rounding,
        )

    def losses(self, inputs, name="tf_hsm_train_step"):
        """Makes the step on a tree's rows; returns the losses `[...]`."""
        outputs = self.op(name)(
            inputs=arguments.floats(inputs, self.dtype),
            with_gradients=private_tensorflow.is_recording(),
        )
        return outputs.loss

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
            return [private_tensorflow.variable_of(s).handle for s in slots]

    def count(self, losses):
        """Counts the step once its losses are there.

        A step that fails does not count. Keras would read and then write, and
        lose a step of another thread between.
        """
        with tf.control_dependencies([losses]):
            steps = private_tensorflow.variable_of(self.optimizer.iterations)
            steps.assign_add(1)

    def _softmax_options(self):
        """The op's arguments that those on label trees do not have."""
        return {
            "label_smoothing": arguments.share(
                "label_smoothing", self.label_smoothing
            ),
            "smoothing_prior": arguments.smoothing_prior(self.smoothing_prior),
            "logit_soft_cap": arguments.soft_cap(self.logit_soft_cap),
            "z_loss": arguments.exponent("z_loss", self.z_loss),
            "pinned": self.tree.pinned,
        }

    def _is_rounding_at_random(self):
        is_rounding = _checks.as_bool_or_none(
            "stochastic_rounding", self.stochastic_rounding
        )
        if is_rounding is None:
            return self.dtype == tf.bfloat16
        if is_rounding and self.dtype != tf.bfloat16:
            raise ValueError(
                "stochastic_rounding is for bfloat16 weights, but they are "
                f"{self.dtype.name}"
            )
        return is_rounding

    def weights_of_losses(self, labels):
        """The weight `[...]` of each loss in the sum that is minimized."""
        weights = self.loss_weights
        if weights is None:
            counted = arguments.counted(labels, self.ignore_class)
            counted = (
                tf.ones_like(labels, tf.float64)
                if counted is None
                else tf.cast(counted, tf.float64)
            )
            weights = tf.math.divide_no_nan(counted, tf.reduce_sum(counted))
        return arguments.broadcast(
            "loss_weights",
            tf.cast(weights, arguments.accumulator(self.dtype)),
            tf.shape(labels),
        )


def rule_of(optimizer):
    """Returns the `Rule` of an optimizer's next step."""
    # A layer's autocast would make 16-bit tensors of the rate.
    with private_keras.no_autocast():
        return in_place.rule_of(optimizer)


def variable_named(name, value):
    """Returns the `tf.Variable` that an argument of this name must be."""
    if isinstance(value, QuantizedRows):
        raise TypeError(
            f"{name} are quantized, and training needs the weights as floats"
        )
    # A layer's autocast would make a 16-bit tensor of it.
    with private_keras.no_autocast():
        variable = private_tensorflow.variable_of(value)
    if variable is None:
        raise TypeError(
            f"{name} must be a variable, to be updated in place, but are "
            f"{type(value).__name__}"
        )
    return variable


def _seed_of_step(seed, iterations):
    """A 64-bit number for each seed and step, without a pattern."""
    pair = tf.stack([tf.cast(seed, tf.int64), tf.cast(iterations, tf.int64)])
    return tf.random.stateless_uniform(
        [], pair, minval=None, maxval=None, dtype=tf.int64
    )
