"""Cuts a text into parallel streams for truncated backpropagation.

Row i of every batch continues row i of the batch before, so that a recurrent
network keeps its state from batch to batch. Each label is the next token.
"""


class Windows:
    """The batches of a text, in its order.

    `len(windows)` is their number, and `windows[i]` a pair of `tokens` and
    `labels`, each `[batch_size, steps]` int32.

    Attributes:
        tokens: All batches, `[len(self), batch_size, steps]`.
        labels: All labels, of the same shape.
    """

    def __init__(self, ids, batch_size, steps, name):
        """Cuts `ids`; what fills no batch at the end is left out.

        Args:
            ids: `[num_tokens]` int32 class ids.
            batch_size: parallel streams.
            steps: tokens of a stream in one window.
            name: what the text is, for the error message.

        Raises:
            ValueError: `ids` fills no batch.
        """
        num = (len(ids) - 1) // batch_size // steps
        if num < 1:
            raise ValueError(
                f"The {name} has {len(ids):,} tokens; one batch of "
                f"--batch_size={batch_size} times --steps={steps} needs "
                f"{batch_size * steps + 1:,}. Give more text or smaller "
                "batches."
            )
        used = batch_size * num * steps
        self.tokens, self.labels = (
            ids[first : first + used]
            .reshape(batch_size, num, steps)
            .swapaxes(0, 1)
            for first in (0, 1)
        )

    def __len__(self):
        """The number of batches."""
        return len(self.labels)

    def __getitem__(self, i):
        """Batch i; raises `IndexError` behind the last one."""
        return self.tokens[i], self.labels[i]

    def dataset(self, first=0):
        """A `tf.data.Dataset` of what the model takes, from one batch on."""
        import tensorflow as tf

        inputs = {"tokens": self.tokens[first:], "labels": self.labels[first:]}
        return tf.data.Dataset.from_tensor_slices((inputs,))
