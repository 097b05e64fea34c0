"""How Keras calls a head: for classes, for losses, in training."""

import contextlib
import functools

import keras
import tensorflow as tf

from tf_hsm import _compiled_model, _head_output, _training_advice
from tf_hsm._reduction import Reduction, mean_loss
from tf_hsm.heads.head import Batch
from tf_hsm.layers import regrouping
from tf_hsm.layers.answering_layer import AnsweringLayer
from tf_hsm.layers.labels import check_integers
from tf_hsm.layers.row_options import Penalties
from tf_hsm.losses import HeadLoss
from tf_hsm.runtime import (
    arguments,
    first_step,
    private_keras,
    replicas,
)
from tf_hsm.runtime.tree_tensors import mask_tensors


class HeadLayer(AnsweringLayer):
    """A Keras layer that takes inputs to classes or, with labels, to losses.

    See `AnsweringLayer` for what it is made of.
    """

    @property
    def loss(self):
        """The loss for `model.compile`."""
        return HeadLoss()

    def call(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        training=False,
    ):
        """Takes inputs to classes or, with labels, to losses.

        Args:
          inputs: `[..., width]`.
          labels: `[...]` or `[..., 1]`, integers; `[..., M]` where an input has
            several; or None.
          sample_weight: weights of the losses in the mean that the layer adds
            to the model's losses; broadcast from the left. Or `[..., M]`, the
            weight of each of several labels in the loss of their input.
          inputs_mask: `[...]` bool, the inputs that count. Without labels it
            is the mask of the output, for losses and metrics.
          training: whether the layer's own optimizer, if there is one, makes a
            step, and classes are not asked for.

        Returns:
          With labels, `[...]`: the loss of each, in nats, 0 where ignored or
          masked. Without labels, the most probable classes, `[...]` int64; in
          training, which has no use for them, the inputs.
        """
        output = _head_output.HeadOutput(
            self,
            inputs,
            labels,
            inputs_mask,
            training=bool(training),
            model=private_keras.compiled_model(),
        )
        with first_step.lost_values_told(private_keras.called_weights):
            output.updates = self.in_place.updates(self, training)
            if training and private_keras.is_training_step(output.model):
                _training_advice.warn(output.model, self)
            if labels is None:
                if output.model is not None:
                    _compiled_model.check_output(output.model, self, training)
                output.best = self._best_before_step(output)
                answer = self._pass_through if training else self.predict_class
                answer = private_keras.set_mask(answer(inputs), inputs_mask)
                return output.attach(answer)
            if output.model is not None:
                _compiled_model.check_endpoint(output.model, self)
                if sample_weight is None:
                    _compiled_model.warn_of_weights(output.model, self)
                self.check_trains(output)
            return self._added_losses(output, sample_weight)

    def _added_losses(self, output, sample_weight):
        """Returns losses, whose mean is added to the losses of the model."""
        reduce = functools.partial(mean_loss, model=output.model)
        sample_weight, label_weights = self.objective.split_weights(
            sample_weight, output.labels
        )
        # Keras divides what layers add to the losses by the replicas.
        reduction = Reduction(reduce, sample_weight, 1 / replicas.count())
        output.best = self._best_before_step(output)
        losses, mask, *_ = self.label_losses(
            output, output.labels, label_weights, reduction
        )
        self._add_to_losses(reduction.total(losses, mask))
        if label_weights is not None:
            output.label_mass = self.objective.label_mass(
                output.labels, output.inputs, label_weights, self.loss_dtype
            )
        return output.attach(private_keras.set_mask(losses, mask))

    def _best_before_step(self, output):
        """Returns the classes that the metrics of a model ask for, or None.

        Keras asks the metrics after the step, which changes the answer.
        """
        model = output.model
        if model is None or not output.training:
            return None
        if private_keras.in_symbolic_scope():
            return None
        k = _compiled_model.num_classes_asked_for(model, self)
        if not k:
            return None
        return self.top_k(output.inputs, min(k, self.num_classes)).classes

    def _pass_through(self, inputs):
        """Returns the inputs as a new tensor, to attach a `HeadOutput` to."""
        return tf.identity(inputs)

    def _add_to_losses(self, loss):
        """Adds to the losses of the model, which Keras wants in one type.

        The cast does not change the gradient.
        """
        self.add_loss(tf.cast(loss, keras.config.floatx()))

    def compute_output_spec(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        training=False,
    ):
        """Returns the shape and type of what `call` returns."""
        del sample_weight, inputs_mask
        arguments.check_floats(inputs)
        if labels is None:
            spec = (
                keras.KerasTensor(inputs.shape, dtype=inputs.dtype)
                if training
                else keras.KerasTensor(inputs.shape[:-1], dtype="int64")
            )
            return _head_output.HeadOutput(self, inputs).attach(spec)
        # Here already, since the model casts what it is given to this type.
        check_integers(labels, "labels")
        return keras.KerasTensor(inputs.shape[:-1], dtype=self.loss_dtype)

    def compute_output_shape(self, inputs_shape, labels_shape=None):
        """Returns the shape `[...]` of classes and losses."""
        del labels_shape
        return tuple(inputs_shape[:-1])

    # AutoGraph would find nothing to convert, and takes long to look for it.
    @tf.autograph.experimental.do_not_convert
    def label_losses(
        self, output, labels, label_weights=None, reduction=None, reuse=False
    ):
        """Returns the `LabelLosses` of labels, for losses and metrics.

        Args:
          output: the `HeadOutput` of the layer.
          labels: `[...]` or `[..., 1]` integers, `[..., M]` or ragged.
          label_weights: of several labels for each input; None for their mean.
          reduction: the `Reduction` to what is minimized; None when nothing is.
            With one, an optimizer of the layer's own makes a step.
          reuse: whether the result of the last call for the same tensors will
            do. A metric spares the work, and has the losses from before a step.
        """
        if reuse:
            known = output.reusable(labels, label_weights)
            if known is not None:
                return known
        with self._kept_losses(output):
            return self._label_losses(output, labels, label_weights, reduction)

    def _kept_losses(self, output):
        """A scope in which replicas may exchange something."""
        if not self._on_replicas:
            return contextlib.nullcontext()
        return private_keras.kept_losses(output.model or self)

    def _label_losses(self, output, labels, label_weights, reduction):
        self._check_built()
        if label_weights is not None and not self.objective.weighs_labels:
            raise ValueError(
                f"{self.name}: a label tree has one loss for all labels of an "
                "input; sample_weight must have one number for each input"
            )
        step = None
        if output.updates and reduction is not None and self.trainable:
            step = self.in_place.step(self)
        batch = Batch(
            labels,
            output.inputs,
            training=output.training,
            step=step,
            penalties=self._penalties(),
        )
        found = self.objective.losses(
            self._head, batch, output.inputs_mask, label_weights, reduction
        )
        if step is not None:
            step.count(found.losses)
        if not output.updates:
            losses = self.in_place.without_gradient(
                self,
                found.losses,
                "losses outside training",
                "call the layer, or the model, with training=True, or take "
                "tf.stop_gradient of what is only looked at; ",
            )
            found = found._replace(losses=losses)
        if output.labels is None:  # else the output is the losses themselves
            output.known = labels, label_weights, found
        return found

    def regroup(self, tree, inputs=None, *, model=None, optimizer=None):
        """Moves the layer to a tree of the same shape with other groups.

        The layer keeps its variables. New rows are fitted so that the layer
        has about the same probabilities as before: see
        `tf_hsm/layers/regrouped_rows.py`. A group that stands for the same sets
        of classes as an old group keeps its rows, biases and slots, to the bit.
        In other groups a leaf keeps the slots of its class, and an inner row
        keeps the slots that it has.

        >>> tree = head.tree.regroup(vectors)
        >>> head.regroup(tree, body(x[:1024]), model=model)

        `tf_hsm.callbacks.RegroupClasses` makes the vectors and does all of this
        in `model.fit`. A `tf.function` that was traced before holds the old
        tree, and so does another model with this layer that was called before:
        trace your functions again, and compile other models again.

        Args:
          tree: from `layer.tree.regroup`; its shape is the shape of the old
            tree.
          inputs: `[n, width]`, typical inputs of the layer, for example 1,024
            hidden vectors; for an `EmbeddingSoftmax`, ids or bags. None: the
            fit is a tangent where inputs are zero, so that the loss can rise by
            several percent.
          model: the Keras model that trains the layer. The slots of its
            optimizer follow, and Keras traces its functions again.
          optimizer: in a training loop of your own, the built Keras optimizer
            whose slots follow.

        Raises:
          TypeError: `tree` is not a `tf_hsm.Tree`.
          ValueError: the tree has another shape, or other names of classes;
            `inputs` are not finite; the layer has copies on several replicas,
            is not built, or is neither a `HierarchicalSoftmax` nor an
            `EmbeddingSoftmax`.
        """
        regrouping.regroup(self, tree, inputs, model, optimizer)

    def _set_tree(self, tree):
        """Lets the rows of the layer stand for another tree; moves no row."""
        self._head = self._head.with_tree(tree)
        self.tree = tree
        if self.plan is not None:
            self.plan = self._head.rows.plan

    def check_trains(self, output):
        """Raises a ValueError if `fit` minimizes losses that train nothing.

        Args:
          output: the `HeadOutput` of a call by a compiled model.
        """
        if self.in_place.trains(self) and not output.updates:
            _compiled_model.check_untold_training(output.model, self)

    def hits(self, classes, labels):
        """Returns which classes `[..., k]` are right for labels `[...]`, bool.

        A class below the inner node that is the label is right.
        """
        labels = tf.cast(labels, tf.int64)[..., tf.newaxis]
        if not self.node_labels:
            return tf.equal(classes, labels)
        class_ranks, row_spans = mask_tensors(self.tree, self.kernel)
        # Ignored labels may be anything.
        rows = tf.clip_by_value(labels, 0, self.tree.num_rows - 1)
        spans = tf.gather(row_spans, rows)
        ranks = tf.gather(class_ranks, classes)
        return (ranks >= spans[..., 0]) & (ranks < spans[..., 1])

    def _penalties(self):
        """Returns what penalizes the rows that labels touch, or None."""
        if not self.trainable:
            return None
        return Penalties(self.row_options, self._add_to_losses, self.loss_dtype)
