"""The losses of a head whose weights are in 8 or 4 bits."""

import tensorflow as tf

from tf_hsm.runtime import arguments


def losses(head, batch):
    """Returns the loss of each label, which has no gradient.

    Args:
      head: a `TreeHead` on `QuantizedRows`.
      batch: the `Batch`.

    Raises:
      ValueError: the losses are to be trained by, or have path options.
    """
    path = batch.path
    if batch.training or batch.step is not None:
        raise ValueError(
            "the head is quantized: it answers and does not train; train the "
            "model before model.quantize"
        )
    if path.label_smoothing or path.nodes:
        raise ValueError(
            "a quantized head has no losses with label_smoothing or "
            "node_labels; ask head.log_prob"
        )
    labels = arguments.integers(batch.labels)
    counted = arguments.counted(labels, batch.ignored)
    if counted is not None:
        labels = tf.where(counted, labels, tf.zeros_like(labels))
    found = head.log_prob(labels[..., tf.newaxis], batch.inputs)[..., 0]
    found = tf.stop_gradient(-found)
    return found if counted is None else tf.where(counted, found, 0)
