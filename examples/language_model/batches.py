"""Cuts a text into parallel streams for truncated backpropagation.

Row i of every batch continues row i of the batch before, so that a recurrent
network keeps its state from batch to batch. Each label is the next token.
"""

import numpy as np


def windows(ids, batch_size, steps, name):
    """Returns `tokens` and `labels`, each `[num_batches, batch_size, steps]`.

    The up to `batch_size * steps` tokens at the end that fill no batch are
    left out.

    Args:
        ids: `[num_tokens]` class ids.
        batch_size: parallel streams.
        steps: tokens of a stream in one window.
        name: what the text is, for the error message.

    Raises:
        ValueError: `ids` fills no batch.
    """
    per_row = (len(ids) - 1) // batch_size // steps * steps
    if per_row < steps:
        raise ValueError(
            f"The {name} has {len(ids):,} tokens; one batch of "
            f"--batch_size={batch_size} times --steps={steps} needs "
            f"{batch_size * steps + 1:,}. Give more text or smaller batches."
        )

    def arrange(flat):
        rows = flat.reshape(batch_size, per_row // steps, steps)
        return np.ascontiguousarray(rows.transpose(1, 0, 2))

    used = batch_size * per_row
    return arrange(ids[:used]), arrange(ids[1 : used + 1])


def dataset(tokens, labels):
    """A `tf.data.Dataset` of what the model takes, in the text's order."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(
        ({"tokens": tokens, "labels": labels},)
    ).prefetch(2)
