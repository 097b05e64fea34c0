"""What an output tensor of a head carries to losses and metrics.

A loss that depends on weights cannot be a function of `y_pred` alone. So a head
layer attaches a `HeadOutput` to the tensor that it returns, as Keras attaches
masks, and losses and metrics find it there.
"""

import dataclasses
import typing

import tensorflow as tf

from tf_hsm.runtime import first_step, label_sets, private_keras


class LabelLosses(typing.NamedTuple):
    """The losses of labels, in nats.

    Attributes:
      losses: `[...]`, one for each input.
      mask: `[...]` bool, the inputs whose losses count; None when all do.
      each: for several labels of each input, the loss `[..., M]` of each label;
        else None.
      labels: beside `each`, the labels `[..., M]` as `label_sets.read` returns
        them.
    """

    losses: tf.Tensor
    mask: tf.Tensor | None
    each: tf.Tensor | None = None
    labels: tf.Tensor | None = None

    def as_mean(self):
        """Returns the same with the mean of `each` as the loss of an input."""
        shares = label_sets.shares(self.labels, self.each.dtype)
        return self._replace(losses=tf.reduce_sum(shares * self.each, -1))


@dataclasses.dataclass(eq=False)
class HeadOutput:
    """What an output tensor of a head carries.

    Attributes:
      layer: the layer whose output the tensor is.
      inputs: the inputs `[..., width]` of the layer.
      labels: the labels that the layer was called with, whose losses the tensor
        then holds; None where the loss has the labels.
      inputs_mask: `[...]` bool, the inputs that count; None when all do.
      training: whether the layer was called for training.
      updates: whether the losses of this output make a step of the layer's own
        optimizer.
      model: the compiled model whose call made the output, or None.
      best: the most probable classes `[..., k]` before that step, or None.
      label_mass: the sum `[...]` of the weights of each input's labels; None
        for 1.
      known: None; or the labels, their weights, and the `LabelLosses` that the
        loss has found for them, which metrics reuse.
    """

    layer: typing.Any
    inputs: typing.Any
    labels: typing.Any = None
    inputs_mask: typing.Any = None
    training: bool = False
    updates: bool = False
    model: typing.Any = None
    best: typing.Any = None
    label_mass: typing.Any = None
    known: tuple | None = None

    def attach(self, tensor):
        """Attaches this to a tensor; returns the tensor."""
        tensor._tf_hsm_output = self
        return tensor

    def reusable(self, labels, label_weights):
        """Returns the `LabelLosses` that are known for labels, or None."""
        if self.known is None or self.known[0] is not labels:
            return None
        _, known_weights, found = self.known
        if known_weights is label_weights:
            return found
        if label_weights is None and found.each is not None:
            return found.as_mean()
        return None

    def best_classes(self, k):
        """Returns the k most probable classes `[..., k]`.

        In training they are the classes that were best before the step.
        """
        best = self.best
        if best is None or best.shape[-1] < k:
            best = self.layer.top_k(self.inputs, k).classes
        return best[..., :k]


def find(tensor):
    """Returns the `HeadOutput` that a tensor carries, or None."""
    output = getattr(tensor, "_tf_hsm_output", None)
    if output is not None and output.labels is None:
        # Keras gives an output its mask when the call of the layer has ended.
        output.inputs_mask = private_keras.mask_of(tensor)
    return output


def require(tensor, or_losses=False, note=None):
    """Returns the `HeadOutput` that a tensor carries.

    Args:
      tensor: what a head returned for inputs.
      or_losses: whether the losses that a head returned for inputs and labels
        will do.
      note: another sentence for the error; or None.

    Raises:
      ValueError: the tensor did not come from a head.
    """
    output = find(tensor)
    if output is None or (output.labels is not None and not or_losses):
        raise ValueError(
            "y_pred does not come from a tf_hsm head: make the output of "
            "layer(inputs), unchanged, the model's output. A head takes inputs "
            "[..., width] itself, without TimeDistributed"
            + (f". {note}" if note else "")
        )
    return output


def lost_values_told(tensor):
    """Returns a scope of `first_step.lost_values_told` for a tensor's model."""
    model = getattr(find(tensor), "model", None)
    return first_step.lost_values_told(
        lambda: [] if model is None else model.weights
    )


def is_placeholder(tensor):
    """Returns whether a tensor that carries nothing asks for shapes alone."""
    return private_keras.in_symbolic_scope() and find(tensor) is None
