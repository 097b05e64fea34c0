"""The labels of a label tree, and their losses."""

import dataclasses

import tensorflow as tf

from tf_hsm.layers.labels import as_label, pruned_label, split_weights
from tf_hsm.layers.objective import LabelLosses
from tf_hsm.runtime import label_sets


class LabelSetObjective:
    """The losses of a label tree: one for all labels `[..., M]` of an input.

    Attributes:
      num_classes: N.
      ignore_class: a number that stands for no label, beside the negative ones;
        or None.
      name: the name of the layer, for errors.
    """

    several_labels = True
    name = "LabelTree"
    node_labels = False

    def __init__(self, num_classes, ignore_class):
        self.num_classes = num_classes
        self.ignore_class = as_label("ignore_class", ignore_class)

    def losses(self, head, batch, inputs_mask, sample_weight, plain=False):
        """See `Objective.losses`.

        Masked inputs are removed, because an input without labels has a loss.
        Labels have no weights.

        Raises:
          ValueError: there is a weight for each label.
        """
        del plain
        weights, of_labels = self.split_weights(sample_weight, batch.labels)
        if of_labels is not None:
            raise ValueError(
                f"{self.name}: a label tree has one loss for all labels of an "
                "input; sample_weight must have one number for each input"
            )
        labels = self.read_sets(batch.labels, batch.inputs)
        batch = dataclasses.replace(
            batch, labels=labels, ignored=[label_sets.NONE]
        )
        if inputs_mask is None:
            return LabelLosses(head.losses(batch), None, weights)
        mask = tf.cast(inputs_mask, tf.bool)
        kept = tf.where(mask)
        losses = head.losses(
            dataclasses.replace(
                batch,
                labels=tf.gather_nd(labels, kept),
                inputs=tf.gather_nd(batch.inputs, kept),
            )
        )
        shape = tf.shape(mask, out_type=kept.dtype)
        losses = tf.scatter_nd(kept, losses, shape)
        return LabelLosses(losses, mask, weights)

    def read_sets(self, labels, inputs, inputs_mask=None, tree=None):
        """See `Objective.read_sets`."""
        del tree
        return label_sets.read(
            labels, inputs, self.ignore_class, inputs_mask, [self.num_classes]
        )

    def split_weights(self, sample_weight, labels):
        """See `Objective.split_weights`; weights `[..., 1]` are of inputs."""
        weights, label_weights = split_weights(sample_weight, labels)
        if label_weights is not None and label_weights.shape[-1] == 1:
            return label_weights, None
        return weights, label_weights

    def for_classes(self, num_classes):
        """Returns the objective for more classes."""
        return LabelSetObjective(num_classes, self.ignore_class)

    def for_pruned(self, pruned, counts):
        """See `Objective.for_pruned`."""
        del counts
        return LabelSetObjective(
            pruned.tree.num_classes, pruned_label(self.ignore_class, pruned)
        )

    def get_config(self):
        """Returns the options as JSON can hold them."""
        return {"ignore_class": self.ignore_class}
