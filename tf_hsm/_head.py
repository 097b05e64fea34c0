"""How a head's outputs carry the head to losses and metrics.

A loss that depends on weights cannot be a function of `y_pred` alone. So the
layer marks the tensor that it returns, as Keras does with masks, and the loss
and the metrics find the layer, and each other's result, on it.
"""


def mark(outputs, head):
    """Marks `outputs` [..., width] as those of `head`; returns them."""
    outputs._tf_hsm_head = head
    return outputs


def is_marked(outputs):
    """Whether `outputs` came from a head."""
    return hasattr(outputs, "_tf_hsm_head")


def label_losses(labels, outputs):
    """Computes a head's loss per label, once for the same two tensors.

    Args:
      labels: `[...]` or `[..., 1]`, integers.
      outputs: `[..., width]`, what a head returned for its inputs.

    Returns:
      losses: `[...]`, in nats.
      mask: `[...]` bool, the labels that count; None when all do.

    Raises:
      ValueError: `outputs` did not come from a head.
    """
    if not is_marked(outputs):
        raise ValueError(
            "y_pred does not come from a tf_hsm head: make the output of "
            "layer(inputs), unchanged, the model's output"
        )
    known = getattr(outputs, "_tf_hsm_losses", None)
    if known is None or known[0] is not labels:
        known = (labels, *outputs._tf_hsm_head.label_losses(labels, outputs))
        outputs._tf_hsm_losses = known
    return known[1:]


def get_mask(tensor):
    """The Keras mask of `tensor`, or None."""
    return getattr(tensor, "_keras_mask", None)


def set_mask(tensor, mask):
    """Gives `tensor` a Keras mask, unless `mask` is None; returns it."""
    if mask is not None:
        tensor._keras_mask = mask
    return tensor
