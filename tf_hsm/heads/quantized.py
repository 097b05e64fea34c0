"""The losses of a head whose weights are in 8 or 4 bits."""

import tensorflow as tf

from tf_hsm.runtime import arguments


def losses(head, batch):
    """Returns the loss of each label, which has no gradient.

    Args:
      head: a `TreeHead` on `QuantizedRows`.
      batch: the `Batch`.

    Raises:
      ValueError: the losses are to be trained by.
    """
    if batch.training or batch.step is not None:
        raise ValueError(
            "the head is quantized and cannot train: train the model before "
            "model.quantize"
        )
    labels = arguments.integers(batch.labels)
    counted = arguments.counted(labels, batch.ignored)
    if counted is not None:
        labels = tf.where(counted, labels, tf.zeros_like(labels))
    found = -head.log_prob(
        labels[..., tf.newaxis], batch.inputs, nodes=batch.path.nodes
    )[..., 0]
    return found if counted is None else tf.where(counted, found, 0)
