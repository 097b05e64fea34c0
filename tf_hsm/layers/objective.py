"""The labels of a head, and their losses.

An objective takes labels and a `tf_hsm.heads` head to losses. It knows no Keras
layer. The loss of a label is

    class weight of the label * focal loss of (the smoothed loss of the label)
"""

import dataclasses
import typing

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.heads.head import PathOptions
from tf_hsm.layers.class_arrays import (
    PACKED,
    as_class_weights,
    as_prior,
    pack,
)
from tf_hsm.layers.labels import (
    as_label,
    loss_dtype,
    of_known_rank,
    pruned_label,
    split_weights,
)
from tf_hsm.ops import focal
from tf_hsm.runtime import arguments, label_sets
from tf_hsm.runtime.tree_tensors import array_tensors, cpu_of
from tf_hsm.tree import pruned_tree

# The label of masked positions: no class, and nobody's ignore_class.
_MASKED = -(2**63)


class LabelLosses(typing.NamedTuple):
    """The losses of labels, in nats.

    Attributes:
      losses: `[...]`, one for each input.
      mask: `[...]` bool, the inputs whose losses count; None when all do.
      weights: the weights of the inputs, broadcast from the left; or None.
      mass: where each of several labels has a weight, their sum `[...]` for
        each input; else None.
    """

    losses: tf.Tensor
    mask: tf.Tensor | None
    weights: tf.Tensor | None
    mass: tf.Tensor | None = None


@dataclasses.dataclass(eq=False)
class Objective:
    """The losses of one label for each input, or of several.

    Attributes:
      num_classes: N.
      ignore_class: a label whose loss is 0 and does not count, or None.
      several_labels: whether labels are `[..., M]`, or ragged: several for each
        input.
      node_labels: whether labels are rows of the tree instead of classes.
      label_smoothing: the share of the target that is spread, in [0, 1].
      smoothing_prior: `[N]` float64, the counts by which label smoothing
        spreads its share; None: evenly.
      class_weights: `[N]` float64, by which the losses of each class are
        multiplied; or None.
      focal_gamma: the exponent of the focal loss, at least 0.
      z_loss: the factor of the square of log-sum-exp in the loss, at least 0.
    """

    num_classes: int
    ignore_class: int | None = None
    several_labels: bool = False
    node_labels: bool = False
    label_smoothing: float = 0.0
    smoothing_prior: typing.Any = None
    class_weights: typing.Any = None
    focal_gamma: float = 0.0
    z_loss: float = 0.0
    # The last head, and what its `prior` returned for the smoothing prior.
    _prior: tuple = dataclasses.field(default=(None, None), init=False)

    def __post_init__(self):
        """Checks the options, and which of them exclude each other.

        Raises:
          IndexError: a class of a mapping is out of range.
          TypeError: an option is not of its type.
          ValueError: an option is out of its range, or two exclude each other.
        """
        self.several_labels = bool(self.several_labels)
        self.node_labels = bool(self.node_labels)
        self.ignore_class = as_label("ignore_class", self.ignore_class)
        self.label_smoothing = arguments.share(
            "label_smoothing", self.label_smoothing
        )
        self.focal_gamma = _checks.check_real(
            "focal_gamma", self.focal_gamma, 0
        )
        self.z_loss = _checks.check_real("z_loss", self.z_loss, 0)
        if self.smoothing_prior is not None:
            self.smoothing_prior = as_prior(
                self.smoothing_prior, self.num_classes
            )
        if self.class_weights is not None:
            self.class_weights = as_class_weights(
                self.class_weights, self.num_classes
            )
        for is_wrong, message in (
            (
                self.smoothing_prior is not None and not self.label_smoothing,
                "smoothing_prior is for a label_smoothing above 0, but that is "
                "0; set label_smoothing, or leave out the prior",
            ),
            (
                self.focal_gamma and self.label_smoothing,
                "focal_gamma needs the label's probability, which a smoothed "
                "loss does not give; leave out focal_gamma or label_smoothing",
            ),
            (
                self.focal_gamma and self.z_loss,
                "focal_gamma needs the label's probability, which a loss with "
                "z_loss does not give; leave out focal_gamma or z_loss",
            ),
            (
                self.class_weights is not None and self.node_labels,
                "class_weights are for classes, but with node_labels a label "
                "may be an inner node; give sample weights instead",
            ),
        ):
            if is_wrong:
                raise ValueError(message)

    def losses(self, head, batch, inputs_mask, sample_weight, plain=False):
        """Returns the `LabelLosses` of a batch of labels.

        Args:
          head: the head, as in `tf_hsm.heads`.
          batch: a `Batch` whose labels are `[...]` or `[..., 1]` integers; with
            `several_labels` `[..., M]` or ragged.
          inputs_mask: `[...]` bool, the inputs that count; None when all do.
          sample_weight: the weights of inputs; or, with `several_labels`, the
            weight of each label in the loss of its input; None for their mean.
          plain: whether to return -log p(label) without label smoothing, class
            weights, the focal loss and z-loss.
        """
        batch = dataclasses.replace(batch, path=self._path(head, plain))
        if not self.several_labels:
            batch, mask = self._read_masked(batch, inputs_mask)
            losses = self._minimized(head, batch, plain)
            return LabelLosses(losses, mask, sample_weight)
        labels, inputs = batch.labels, batch.inputs
        weights, label_weights = split_weights(sample_weight, labels)
        label_weights = label_sets.of_same_rows(label_weights, labels)
        tree = head.tree_heads()[0].tree if self.node_labels else None
        labels = self.read_sets(labels, inputs, inputs_mask, tree)
        mask = tf.reduce_any(tf.not_equal(labels, label_sets.NONE), -1)
        dtype = loss_dtype(head)
        if label_weights is None:
            shares, mass = label_sets.shares(labels, dtype), None
        else:
            shares = label_sets.weights(label_weights, labels, dtype)
            mass = tf.reduce_sum(shares, -1)
        batch = dataclasses.replace(
            batch,
            labels=labels,
            inputs=label_sets.repeated(inputs, labels),
            ignored=[label_sets.NONE],
        )
        each = self._minimized(head, batch, plain)
        losses = tf.reduce_sum(shares * each, -1)
        return LabelLosses(losses, mask, weights, mass)

    def _path(self, head, plain):
        """The `PathOptions`; plain losses have no label smoothing or z-loss."""
        if plain:
            return PathOptions(nodes=self.node_labels)
        if not self.label_smoothing:
            return PathOptions(nodes=self.node_labels, z_loss=self.z_loss)
        if self.smoothing_prior is not None and self._prior[0] is not head:
            self._prior = head, head.prior(self.smoothing_prior)
        return PathOptions(
            self.label_smoothing,
            self._prior[1],
            self.node_labels,
            self.z_loss,
        )

    def _read_masked(self, batch, inputs_mask):
        """Returns a batch with one label for each input, and their mask."""
        labels, mask = self.read_one(batch.labels, batch.inputs, inputs_mask)
        ignored = [] if self.ignore_class is None else [self.ignore_class]
        if inputs_mask is not None:
            # A masked input may have any label, whose loss is 0.
            labels = tf.where(
                tf.cast(inputs_mask, tf.bool),
                tf.cast(labels, tf.int64),
                _MASKED,
            )
            ignored.append(_MASKED)
        return dataclasses.replace(batch, labels=labels, ignored=ignored), mask

    def _minimized(self, head, batch, plain):
        losses = head.losses(batch)
        if self.focal_gamma and not plain:
            slopes = focal.slopes(losses, self.focal_gamma)
            losses = focal.values(losses, slopes, self.focal_gamma)
        if self.class_weights is None or plain:
            return losses
        # A class weight of 0 cancels even an infinite loss.
        weights = self._weights_of(batch.labels, head)
        return tf.math.multiply_no_nan(losses, weights)

    def _weights_of(self, labels, head):
        """The weight of each label's class; any number for no class."""
        near = head.variables()[0]
        with tf.device(cpu_of(near)):
            (weights,) = array_tensors(self, ["class_weights"], near)
            classes = tf.clip_by_value(
                tf.cast(labels, tf.int64), 0, self.num_classes - 1
            )
            return tf.cast(tf.gather(weights, classes), loss_dtype(head))

    def read_one(self, labels, inputs, inputs_mask=None):
        """Returns labels `[...]`, and which of them count, bool or None.

        Args:
          labels: `[...]` or `[..., 1]`, integers.
          inputs: `[..., width]`.
          inputs_mask: `[...]` bool, the inputs that count; or None.

        Raises:
          TypeError: labels are not integers.
          ValueError: labels and inputs do not fit.
        """
        labels = arguments.integers(labels)
        if labels.shape.rank is None:
            labels = of_known_rank(labels, inputs)
        if labels.shape.rank == inputs.shape.rank and labels.shape[-1] == 1:
            labels = tf.squeeze(labels, -1)
        if not labels.shape.is_compatible_with(inputs.shape[:-1]):
            raise ValueError(
                f"labels, of shape {labels.shape}, must have the shape of "
                f"inputs, {inputs.shape}, without the last dimension"
            )
        mask = None if inputs_mask is None else tf.cast(inputs_mask, tf.bool)
        if self.ignore_class is not None:
            counted = tf.not_equal(labels, self.ignore_class)
            mask = counted if mask is None else tf.logical_and(mask, counted)
        return labels, mask

    def read_sets(self, labels, inputs, inputs_mask=None, tree=None):
        """Returns several labels as `label_sets.read` does.

        Args:
          labels: `[..., M]` integers, or ragged.
          inputs: `[..., width]`.
          inputs_mask: `[...]` bool, the inputs that have labels; or None.
          tree: the tree whose rows the labels are with `node_labels`.
        """
        counts = [self.num_classes]
        if self.node_labels:
            counts.append(tree.num_rows)
        return label_sets.read(
            labels, inputs, self.ignore_class, inputs_mask, counts
        )

    def split_weights(self, sample_weight, labels):
        """Returns `(weights of inputs, weights of labels)`.

        At most one of the two is not None.

        Args:
          sample_weight: the weights of inputs or, where each input has several
            labels, of these; or None.
          labels: the labels.
        """
        if not self.several_labels:
            return sample_weight, None
        return split_weights(sample_weight, labels)

    def for_classes(self, num_classes):
        """Returns the objective for more classes.

        A new class has the class weight 1, and the mean of the smoothing prior.
        """
        more = num_classes - self.num_classes
        options = {**self._options(), "num_classes": num_classes}
        if self.class_weights is not None:
            options["class_weights"] = np.append(
                self.class_weights, np.ones(more)
            )
        if self.smoothing_prior is not None:
            mean = self.smoothing_prior.mean()
            options["smoothing_prior"] = np.append(
                self.smoothing_prior, np.full(more, mean)
            )
        return Objective(**options)

    def for_pruned(self, pruned, counts):
        """Returns the objective for the classes of a pruned tree.

        A merged class has the mean of the class weights, and the sum of the
        smoothing prior.

        Args:
          pruned: a `PrunedTree`.
          counts: `[N]`, the weights of the mean; or None.

        Raises:
          ValueError: `ignore_class` is merged with other classes.
        """
        classes = pruned.classes
        options = {
            **self._options(),
            "num_classes": pruned.tree.num_classes,
            "ignore_class": pruned_label(
                self.ignore_class, pruned, self.node_labels
            ),
        }
        if self.class_weights is not None:
            options["class_weights"] = pruned_tree.means(
                classes, self.class_weights, counts
            )
        if self.smoothing_prior is not None:
            options["smoothing_prior"] = pruned_tree.sums(
                classes, self.smoothing_prior
            )
        return Objective(**options)

    def get_config(self):
        """Returns the options as JSON can hold them, without the classes."""
        config = self._options()
        del config["num_classes"]
        return {**config, **{name: pack(config[name]) for name in PACKED}}

    def _options(self):
        names = [f.name for f in dataclasses.fields(self) if f.init]
        return {name: getattr(self, name) for name in names}
