"""What heads minimize in training instead of the loss itself."""

import numbers
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.runtime import arguments, focal
from tf_hsm.runtime.tree_tensors import array_tensors, cpu_of
from tf_hsm.tree import files


class TrainingLoss:
    """To be named before `HeadLayer` among the bases of a head.

    A subclass calls `check_training_loss` once it has `num_classes`.

    Args:
      *args: of `HeadLayer`.
      class_weights: `[N]`, by which the losses of each class are multiplied; or
        a dictionary of classes, of which others have 1; or None.
      focal_gamma: that of `tf_hsm.losses.focal_loss`, which losses become.
      **kwargs: of `HeadLayer`.

    Raises:
      ValueError: `focal_gamma` is no number of at least 0.
    """

    def __init__(self, *args, class_weights=None, focal_gamma=0.0, **kwargs):
        """See the class."""
        super().__init__(*args, **kwargs)
        self._class_weights = class_weights
        self.focal_gamma = arguments.exponent("focal_gamma", focal_gamma)

    @property
    def class_weights(self):
        """`[N]` float64, or None. Graphs have them: they cannot be set."""
        return self._class_weights

    def check_training_loss(self):
        """Makes an array of the class weights.

        Raises:
          IndexError: a class of a dictionary is out of range.
          TypeError: one is no number.
          ValueError: they are not one for each class, finite and at least 0.
        """
        if self.class_weights is not None:
            self._class_weights = _as_array(
                self.class_weights, self.num_classes
            )

    def minimized_losses(self, labels, inputs, ignored, loss_weights):
        """Returns what is minimized for each label; see `HeadLayer`."""
        class_weights = slopes = None
        if self.class_weights is not None:
            class_weights = self._weights_of(labels)
            if loss_weights is not None:
                loss_weights *= class_weights
        if self.focal_gamma and loss_weights is not None:
            # A step needs to know how the focal losses are about to change.
            before = self.training_losses(labels, inputs, ignored, None)
            slopes = focal.slopes(before, self.focal_gamma)
            loss_weights *= slopes
        losses = self.training_losses(labels, inputs, ignored, loss_weights)
        if self.focal_gamma:
            if slopes is None:
                slopes = focal.slopes(losses, self.focal_gamma)
            losses = focal.values(losses, slopes, self.focal_gamma)
        if class_weights is None:
            return losses
        # An infinite loss of a class that does not count is none.
        return tf.math.multiply_no_nan(losses, class_weights)

    def _weights_of(self, labels):
        """The weight of each label's class; any for what is no class."""
        near = self.variables[0]
        with tf.device(cpu_of(near)):
            (weights,) = array_tensors(self, ["class_weights"], near)
            classes = tf.clip_by_value(
                tf.cast(labels, tf.int64), 0, self.num_classes - 1
            )
            return tf.cast(tf.gather(weights, classes), self.loss_dtype)

    def class_weights_config(self, num_classes):
        """Those of `get_config` for this many classes: new ones have 1."""
        if self.class_weights is None:
            return {"class_weights": None}
        new = np.ones(num_classes - self.num_classes)
        weights = np.concatenate([self.class_weights, new])
        return {"class_weights": files.pack(weights.view(np.int64))}

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            **self.class_weights_config(self.num_classes),
            "focal_gamma": self.focal_gamma,
        }


def unpacked(config):
    """A config of `get_config` with the class weights as the layer takes them.

    Layers of earlier versions have none.
    """
    packed = config.get("class_weights")
    if packed is None:
        return config
    weights = files.unpack(packed).view(np.float64)
    return {**config, "class_weights": weights}


def _as_array(weights, num_classes):
    """Class weights as `[N]` float64."""
    if isinstance(weights, Mapping):
        array = np.ones(num_classes)
        for c, weight in weights.items():
            if not isinstance(weight, numbers.Real):
                raise TypeError(
                    f"the weight of class {c} in class_weights is {weight!r}; "
                    "it must be a number"
                )
            array[_checks.check_class(c, num_classes)] = weight
    else:
        array = np.array(weights, np.float64)
    if array.shape != (num_classes,):
        raise ValueError(
            f"class_weights must be one for each class, [{num_classes}], but "
            f"their shape is {list(array.shape)}"
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        c = int(np.argmax(wrong))
        raise ValueError(
            f"the weight of class {c} in class_weights is {array[c]}; it must "
            "be finite and not negative"
        )
    array.setflags(write=False)
    return array
