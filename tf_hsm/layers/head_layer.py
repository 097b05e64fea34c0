"""The calls of a head by Keras: for hidden vectors and for losses."""

import contextlib
import weakref

import keras
import tensorflow as tf

from tf_hsm import _compiled_model
from tf_hsm._head_reference import check_hidden
from tf_hsm.heads.head import Batch
from tf_hsm.layers import in_place, regrouped_layer
from tf_hsm.layers.answering_layer import AnsweringLayer
from tf_hsm.layers.row_options import Penalties
from tf_hsm.losses import HeadLoss, reduced
from tf_hsm.runtime import (
    arguments,
    private_keras,
    private_tensorflow,
    replicas,
)
from tf_hsm.runtime.tree_tensors import mask_tensors
from tf_hsm.runtime.variables import explain_lost_values


class HeadLayer(AnsweringLayer):
    """A Keras layer that returns hidden vectors or, with labels, losses.

    See `AnsweringLayer` for what it is made of.
    """

    _caller_reference = None  # a weak reference
    _called_in = None  # what `traced_function` was then

    @property
    def loss(self):
        """The loss of this head for `model.compile`."""
        return HeadLoss(self)

    def call(self, inputs, labels=None, sample_weight=None, inputs_mask=None):
        """Returns the hidden vectors or, with labels, their losses.

        Args:
          inputs: `[..., width]`.
          labels: `[...]` or `[..., 1]`, integers; `[..., M]` where an input has
            several; or None.
          sample_weight: weights of the losses in the mean that the layer adds
            to the model's losses; broadcast from the left. Or `[..., M]`, the
            weight of each of several labels in the loss of their input.
          inputs_mask: `[...]` bool, the inputs that count. Without labels it
            is the mask of the output, for losses and metrics.

        Returns:
          Without labels, the inputs: `head.loss` and the metrics of the head
          take them, and so do its answers. With labels, `[...]`: the loss of
          each, in nats, 0 where ignored or masked.
        """
        with self._explain_lost_values():
            self._note_caller()
            if self.optimizer is not None and not self.optimizer.built:
                # Keras has built the layer on placeholders.
                self.in_place.build(self)
            if labels is None:
                inputs = arguments.floats(inputs, self.compute_dtype)
                return private_keras.set_mask(tf.identity(inputs), inputs_mask)
            inputs = check_hidden(self, inputs, "inputs")
            found = self._find_losses(
                labels, inputs, sample_weight, inputs_mask
            )
            mean = reduced(*found[:3], caller=self._caller() or self)
            # Keras divides what layers add to the losses by the replicas.
            self._add_to_losses(mean * replicas.count())
            return private_keras.set_mask(found.losses, found.mask)

    def _note_caller(self):
        """Notes the model that calls the layer, and checks its `compile`."""
        caller = private_keras.called()
        if caller is None or caller is self:
            self._caller_reference = None
            return
        self._caller_reference = weakref.ref(caller)
        self._called_in = private_tensorflow.traced_function()
        if not getattr(caller, "compiled", False):
            return
        _compiled_model.check(caller, self, heads_of(caller))
        if private_tensorflow.has_tape():
            _compiled_model.warn(caller, self)
            if self.optimizer is not None:
                self.in_place.let_fit_ask(self, caller)

    def _caller(self):
        """Returns the model that has called the layer last; or None.

        A loss knows no model, but a model has the scale of its losses and the
        layers whose losses replicas share.
        """
        reference = self._caller_reference
        return None if reference is None else reference()

    def _explain_lost_values(self):
        """Returns the scope `explain_lost_values` of the caller."""
        return explain_lost_values(
            lambda: (private_keras.called() or self._caller() or self).weights
        )

    def _loss_scale(self):
        """Returns what the caller's optimizer multiplies losses by, or None.

        Raises:
          ValueError: there is a scale, but the caller called the layer in
            another function, such as a `fit` of before.
        """
        caller = self._caller()
        optimizer = getattr(caller, "optimizer", None)
        if optimizer is None:
            return None
        one = tf.ones([])
        scale = optimizer.scale_loss(one)
        if scale is one:
            return None
        if self._called_in != private_tensorflow.traced_function():
            raise ValueError(
                f"{self.name}: cannot tell whether these losses are scaled. "
                f"The model {caller.name!r}, whose optimizer scales losses, "
                "has called the layer last, in another function. Call the "
                "model in the function that computes the losses, if it scales "
                "them, or the layer if it does not: head(hidden)"
            )
        return scale

    def _add_to_losses(self, loss):
        """Adds to the losses of the model, which Keras wants in one type.

        The cast does not change the gradient.
        """
        self.add_loss(tf.cast(loss, keras.config.floatx()))

    def compute_output_spec(
        self, inputs, labels=None, sample_weight=None, inputs_mask=None
    ):
        """Returns the shape and type of what `call` returns."""
        del sample_weight, inputs_mask
        arguments.check_floats(inputs)
        if labels is None:
            return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)
        # Here already, since the model casts what it is given to this type.
        arguments.check_integers(labels, "labels")
        return keras.KerasTensor(inputs.shape[:-1], dtype=self.loss_dtype)

    def compute_output_shape(self, inputs_shape, labels_shape=None):
        """Returns the shape of hidden vectors or, with labels, of losses."""
        return tuple(
            inputs_shape if labels_shape is None else inputs_shape[:-1]
        )

    def label_losses(self, labels, inputs, inputs_mask=None):
        """Returns the loss `[...]` of each label, in nats.

        For a loss of your own in a training loop or a subclass of
        `keras.losses.Loss`:

        >>> total = tf.reduce_mean(tf.square(head.label_losses(labels, hidden)))

        An optimizer of the layer's own makes its step in the gradient of such a
        total. With another scale of the total the step has another scale.
        It divides by the loss scale of the model that has called the layer
        last. In a loop that scales no losses, after a `fit` that did, call
        `head(hidden)` before: then it divides by nothing. Without this call
        the step is divided by the old scale: an error in graphs, silent where
        both run eagerly.

        Args:
          labels: as for `call`.
          inputs: `[..., width]`.
          inputs_mask: `[...]` bool, the inputs that count; or None.

        Returns:
          `[...]`, 0 where ignored or masked.
        """
        return self._find_losses(labels, inputs, None, inputs_mask).losses

    def _reduced_loss(
        self, labels, inputs, sample_weight, inputs_mask, reduction, dtype
    ):
        """Returns the reduced losses of labels; see `HeadLoss`."""
        with self._explain_lost_values():
            found = self._find_losses(
                labels, inputs, sample_weight, inputs_mask
            )
            caller = self._caller() or self
            return reduced(*found[:3], reduction, dtype, caller)

    # AutoGraph would find nothing to convert, and takes long to look for it.
    @tf.autograph.experimental.do_not_convert
    def _find_losses(
        self, labels, inputs, sample_weight=None, inputs_mask=None, plain=False
    ):
        """Returns the `LabelLosses` of labels, for losses and metrics.

        With `plain` they are -log p(label) over all classes: without a step,
        label smoothing, class weights, the focal loss and z-loss. The other
        arguments are those of `call`.
        """
        self._check_built()
        inputs = check_hidden(self, inputs)
        step = penalties = None
        if self.optimizer is not None and not plain:
            step = self.in_place.step(self)
        if self.trainable and self.row_options.has_regularizer and not plain:
            penalties = Penalties(
                self.row_options, self._add_to_losses, self.loss_dtype
            )
        is_training = (
            private_tensorflow.has_tape() or private_tensorflow.will_recompute()
        )
        batch = Batch(
            labels,
            inputs,
            training=is_training and not plain,
            step=step,
            penalties=penalties,
        )
        with (
            # Replicas may exchange something, and then run in turns.
            private_keras.kept_losses(self._caller() or self)
            if self._on_replicas
            else contextlib.nullcontext()
        ):
            found = self.objective.losses(
                self._head, batch, inputs_mask, sample_weight, plain
            )
        losses = found.losses
        if step is not None:
            losses = step.counted(losses)
        elif self.optimizer is not None:
            losses = self.in_place.without_gradient(
                self, losses, "these losses", in_place.NO_TAPE
            )
        return found._replace(losses=losses)

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
        regrouped_layer.regroup(self, tree, inputs, model, optimizer)

    def _set_tree(self, tree):
        """Lets the rows of the layer stand for another tree; moves no row."""
        self._head = self._head.with_tree(tree)
        self.tree = tree
        if self.plan is not None:
            self.plan = self._head.plan

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


def heads_of(model):
    """Returns the heads among the layers of a model, also within others."""
    layers = private_keras.layers_of(model)
    return [layer for layer in layers if isinstance(layer, HeadLayer)]
