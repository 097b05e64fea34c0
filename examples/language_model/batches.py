"""Cuts a text into parallel streams for truncated backpropagation.

Row i of every batch continues row i of the batch before, so that a recurrent
network keeps its state from batch to batch. Each label is the next token.
"""


class Windows:
    """The batches of a text, in its order.

    `len(windows)` is their number, and `windows[i]` a pair of `tokens` and
    `labels`, each `[batch_size, steps]` int32.

    Attributes:
        labels: All labels, `[batch_size, len(self) * steps]`.
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
        self._steps = steps
        self._num = (len(ids) - 1) // batch_size // steps
        if self._num < 1:
            raise ValueError(
                f"The {name} has {len(ids):,} tokens; one batch of "
                f"--batch_size={batch_size} times --steps={steps} needs "
                f"{batch_size * steps + 1:,}. Give more text or smaller "
                "batches."
            )
        used = batch_size * self._num * steps
        self._tokens = ids[:used].reshape(batch_size, -1)
        self.labels = ids[1 : used + 1].reshape(batch_size, -1)

    def __len__(self):
        """The number of batches."""
        return self._num

    def __getitem__(self, i):
        """Batch i; raises `IndexError` behind the last one."""
        if not 0 <= i < self._num:
            raise IndexError(i)
        columns = slice(i * self._steps, (i + 1) * self._steps)
        return self._tokens[:, columns], self.labels[:, columns]

    def dataset(self, first=0):
        """A `tf.data.Dataset` of what the model takes, from one batch on."""
        import tensorflow as tf

        streams = {"tokens": self._tokens, "labels": self.labels}
        streams = {name: tf.constant(ids) for name, ids in streams.items()}

        def window(i):
            columns = slice(i * self._steps, (i + 1) * self._steps)
            shape = len(self._tokens), self._steps
            return (
                {
                    name: tf.ensure_shape(ids[:, columns], shape)
                    for name, ids in streams.items()
                },
            )

        return tf.data.Dataset.range(first, self._num).map(window)
