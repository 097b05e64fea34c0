"""What the heads of this package have in common as Keras layers."""

import functools

import keras
import tensorflow as tf

from tf_hsm import _attached_head, _checks, _compiled_model
from tf_hsm.layers._saved_rows import SavedRows
from tf_hsm.losses import HierarchicalSoftmaxLoss, mean_loss
from tf_hsm.runtime import arguments, first_step, label_sets, private_keras

# The label of masked positions: no class's, and no ignore_class of anybody's.
_MASKED = -(2**63)


class HeadLayer(SavedRows, keras.layers.Layer):
    """A layer that takes inputs, and labels or none, to losses or classes.

    A subclass has `predict_class(inputs)`, and
    `compute_losses(labels, inputs, ignored, loss_weights)`, which returns the
    loss `[...]` in nats of labels `[...]` for inputs `[..., width]`. It is 0
    for the labels in the list `ignored`. `loss_weights` is None; or `[...]`,
    the weight of each loss in what is minimized, if the layer is to make a step
    itself. A subclass whose loss in training is another one has
    `training_losses` too, of the same arguments; `minimized_losses` are what
    `TrainingLoss` makes of them.

    Args:
      ignore_class: a label whose loss is 0 and does not count, or None.
      several_labels: whether labels are `[..., M]`, or ragged, several for each
        input: its loss is the mean of theirs or, with sample weights of that
        shape, their weighted sum. Negative numbers are no labels, and an input
        without any does not count.
      **kwargs: as for every Keras layer.
    """

    def __init__(self, ignore_class, several_labels=False, **kwargs):
        """See the class."""
        super().__init__(**kwargs)
        self.several_labels = bool(several_labels)
        # A Python integer, which JSON can hold.
        self.ignore_class = (
            None
            if ignore_class is None
            else _checks.as_integer("ignore_class", ignore_class)
        )
        self.supports_masking = True
        # XLA has no such op; Keras would turn it on where there is a GPU.
        self.supports_jit = False

    @property
    def loss(self):
        """The loss for `model.compile`."""
        return HierarchicalSoftmaxLoss()

    def width_of(self, inputs_shape):
        """Returns the last dimension; a ValueError where it is not known."""
        width = inputs_shape[-1]
        if width is None:
            raise ValueError(
                "the last dimension of inputs must be known, but their shape "
                f"is {tuple(inputs_shape)}"
            )
        return width

    def check_built(self):
        """Raises a ValueError where there are no weights yet."""
        if not self.built:
            raise ValueError(
                f"{self.name} has no weights yet: call it, or a model with it, "
                "on inputs first"
            )

    def updates_itself(self, training):
        """Whether a call makes a step of an optimizer of the layer's own."""
        del training
        return False

    def steps_in_loss_alone(self):
        """Whether no gradient trains the layer, but its own loss does."""
        return False

    def call(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        training=False,
    ):
        """Takes inputs to losses, or through.

        Args:
          inputs: `[..., width]`.
          labels: `[...]` or `[..., 1]`, integers; `[..., M]` where an input has
            several; or None.
          sample_weight: weights of the losses in the mean that is added to the
            model's losses; broadcast from the left. Or `[..., M]`, where an
            input has several labels, the weights of these in its loss.
          inputs_mask: `[...]` bool, the inputs that count.
          training: whether the layer's own optimizer, if there is one, makes a
            step, and classes are not asked for.

        Returns:
          With labels, `[...]`: the loss of each, in nats, 0 where ignored or
          masked. Without, the most probable classes, `[...]` int64; in
          training, where they would only cost time, the inputs. Either way the
          losses and metrics of tf_hsm find the inputs on it.
        """
        model = private_keras.compiled_model()
        with first_step.lost_values_told(private_keras.called_weights):
            if labels is None:
                return self._attached(model, inputs, training)
            return self._added_losses(
                model, inputs, labels, sample_weight, inputs_mask, training
            )

    def _attached(self, model, inputs, training):
        """Returns what losses and metrics find the head on."""
        updates = self.updates_itself(training)
        if model is not None and training:
            _compiled_model.check_output(model, self)
        best = self._best_before_step(model, inputs, training)
        outputs = (
            self.pass_through(inputs)
            if training
            else self.predict_class(inputs)
        )
        return _attached_head.attach_head(
            outputs, self, inputs, updates, bool(training), best
        )

    def _best_before_step(self, model, inputs, training):
        """The classes that the metrics of a model ask for, or None.

        Keras asks the metrics after the step, where the layer has other rows.
        """
        if model is None or not training or private_keras.in_symbolic_scope():
            return None
        k = _compiled_model.num_classes_asked_for(model, self)
        if not k:
            return None
        return self.top_k(inputs, min(k, self.num_classes)).classes

    def _added_losses(
        self, model, inputs, labels, sample_weight, inputs_mask, training
    ):
        """Returns the losses, whose mean is added to those of the model."""
        updates = self.updates_itself(training)
        if model is not None:
            _compiled_model.check_endpoint(model, self)
            if self.steps_in_loss_alone() and not updates:
                _compiled_model.check_untold_training(model, self)
        reduce = functools.partial(mean_loss, model=model)
        sample_weight, label_weights = self.split_weights(sample_weight, labels)
        reduction = _attached_head.Reduction(reduce, sample_weight)
        best = self._best_before_step(model, inputs, training)
        losses, mask = self.label_losses(
            labels,
            inputs,
            inputs_mask,
            reduction if updates else None,
            bool(training),
            label_weights,
        )
        if not updates:
            losses = self.outside_steps(losses)
        self.add_to_losses(reduction.total(losses, mask))
        mass = None
        if label_weights is not None:
            mass = _attached_head.label_mass(
                self, inputs, labels, label_weights, self.loss_dtype
            )
        return _attached_head.mark_as_losses(
            _attached_head.set_mask(losses, mask),
            self,
            inputs,
            labels,
            inputs_mask,
            best,
            mass,
        )

    def outside_steps(self, losses):
        """Returns losses that no step of an optimizer of the layer's made."""
        return losses

    def add_to_losses(self, loss):
        """Adds to the losses of the model, which Keras wants in one type.

        Its gradient is that of the loss before it is rounded, to the last bit.
        """
        self.add_loss(tf.cast(loss, keras.config.floatx()))

    def pass_through(self, inputs):
        """Returns what a call for training does, as a tensor of its own."""
        return tf.identity(inputs)

    def training_losses(self, labels, inputs, ignored, loss_weights):
        """Returns the loss per label in training."""
        return self.compute_losses(labels, inputs, ignored, loss_weights)

    def minimized_losses(self, labels, inputs, ignored, loss_weights):
        """Returns what is minimized for each label."""
        return self.training_losses(labels, inputs, ignored, loss_weights)

    def split_weights(self, sample_weight, labels):
        """Returns weights of losses, and of several labels; None for none.

        Args:
          sample_weight: one or the other; or None.
          labels: see `call`.
        """
        if sample_weight is None or not self.several_labels:
            return sample_weight, None
        if not isinstance(sample_weight, tf.RaggedTensor):
            sample_weight = tf.convert_to_tensor(sample_weight)
        if not isinstance(labels, tf.RaggedTensor):
            labels = tf.convert_to_tensor(labels)
        if label_sets.are_weights_of(sample_weight, labels):
            return None, sample_weight
        return sample_weight, None

    def label_losses(
        self,
        labels,
        inputs,
        inputs_mask=None,
        reduction=None,
        training=False,
        label_weights=None,
    ):
        """Returns the loss per label, in nats, and which labels count.

        The losses are `[...]`; the mask is `[...]` bool, or None when all
        count. See `call` for the arguments. With the `Reduction` to what is
        minimized, the layer's optimizer makes a step. `label_weights` are those
        of several labels for each input; None for their mean.
        """
        compute = self.minimized_losses if training else self.compute_losses
        if self.several_labels:
            return self._input_losses(
                labels, inputs, inputs_mask, reduction, compute, label_weights
            )
        labels, mask = self.read_labels(labels, inputs, inputs_mask)
        ignored = arguments.ignored_labels(self.ignore_class)
        if inputs_mask is not None:
            # What is masked may hold any label, and costs nothing.
            labels = tf.where(
                tf.cast(inputs_mask, tf.bool),
                tf.cast(labels, tf.int64),
                _MASKED,
            )
            ignored.append(_MASKED)
        loss_weights = None
        if reduction is not None and self.trainable:
            loss_weights = reduction.loss_weights(labels, mask, self.loss_dtype)
        return compute(labels, inputs, ignored, loss_weights), mask

    def _input_losses(
        self, labels, inputs, inputs_mask, reduction, compute, label_weights
    ):
        """`label_losses` of several labels for each input."""
        label_weights = label_sets.of_same_rows(label_weights, labels)
        labels = label_sets.read(labels, inputs, self.ignore_class, inputs_mask)
        mask = tf.reduce_any(tf.not_equal(labels, label_sets.NONE), -1)
        if label_weights is None:
            shares = label_sets.shares(labels, self.loss_dtype)
        else:
            shares = label_sets.weights(label_weights, labels, self.loss_dtype)
        loss_weights = None
        if reduction is not None and self.trainable:
            loss_weights = reduction.loss_weights(mask, mask, self.loss_dtype)
            loss_weights = shares * loss_weights[..., tf.newaxis]
        losses = compute(
            labels,
            self.of_labels(inputs, labels),
            [label_sets.NONE],
            loss_weights,
        )
        return _attached_head.sum_of_each(losses, labels, shares), mask

    def of_labels(self, inputs, labels):
        """Returns the inputs `[..., M, width]` of each of labels `[..., M]`."""
        shape = tf.concat([tf.shape(labels), tf.shape(inputs)[-1:]], 0)
        return tf.broadcast_to(inputs[..., tf.newaxis, :], shape)

    def read_labels(self, labels, inputs, inputs_mask=None):
        """Returns labels `[...]` and which of them count, `[...]` bool or None.

        Args:
          labels: `[...]` or `[..., 1]`, integers.
          inputs: `[..., width]`.
          inputs_mask: `[...]` bool, the inputs that count; or None.

        Raises:
          TypeError: labels are not integers.
          ValueError: labels and inputs do not fit.
        """
        labels = tf.convert_to_tensor(labels)
        check_integers(labels, "labels")
        labels = arguments.integers(labels)
        if labels.shape.rank == inputs.shape.rank and labels.shape[-1] == 1:
            labels = tf.squeeze(labels, -1)
        if not labels.shape.is_compatible_with(inputs.shape[:-1]):
            raise ValueError(
                f"labels, of shape {labels.shape}, must have the shape of "
                f"inputs, {inputs.shape}, without the last dimension"
            )
        mask = None if inputs_mask is None else tf.cast(inputs_mask, tf.bool)
        counted = arguments.counted(labels, self.ignore_class)
        if counted is not None:
            mask = counted if mask is None else tf.logical_and(mask, counted)
        return labels, mask

    def hits(self, classes, labels):
        """Which classes `[..., k]` are right for labels `[...]`, bool."""
        labels = tf.cast(labels, tf.int64)[..., tf.newaxis]
        return tf.equal(classes, labels)

    @property
    def loss_dtype(self):
        """The type of losses and log-probabilities."""
        return "float64" if self.variable_dtype == "float64" else "float32"

    def compute_output_spec(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        training=False,
    ):
        """The shape and type of what `call` returns."""
        del sample_weight, inputs_mask
        if labels is None:
            spec = (
                keras.KerasTensor(inputs.shape, dtype=inputs.dtype)
                if training
                else keras.KerasTensor(inputs.shape[:-1], dtype="int64")
            )
            return _attached_head.attach_head(spec, self, inputs)
        # Here already, since the model casts what it is given to this type.
        check_integers(labels, "labels")
        return keras.KerasTensor(inputs.shape[:-1], dtype=self.loss_dtype)

    def compute_output_shape(self, inputs_shape, labels_shape=None):
        """The shape `[...]` of classes and losses."""
        del labels_shape
        return tuple(inputs_shape[:-1])

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "ignore_class": self.ignore_class,
            "several_labels": self.several_labels,
        }


def check_integers(values, name):
    """Raises a TypeError unless values, which `name` says, are integers."""
    dtype = tf.as_dtype(values.dtype)
    if not dtype.is_integer:
        raise TypeError(
            f"{name} must be integers, but are {dtype.name}; as an input of a "
            'model, make them a keras.Input(..., dtype="int64")'
        )


def prior_initializer(prior, otherwise):
    """How biases begin: as the counts of the classes say.

    Args:
      prior: `[rows]`, of `Tree.log_prior`; or None, for the initializer
        `otherwise`.
      otherwise: an initializer.
    """
    if prior is None:
        return otherwise
    return lambda shape, dtype: tf.cast(tf.reshape(prior, shape), dtype)
