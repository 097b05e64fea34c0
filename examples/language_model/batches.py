"""Cuts a text into parallel streams for truncated backpropagation.

Row i of every batch continues row i of the batch before, so that a recurrent
network keeps its state from batch to batch. Each label is the next token.
"""

import numpy as np

from examples.corpora import formats


def of_parts(text, settings):
    """Returns the `Windows` of each part of a `corpus.Corpus`, by its name."""
    return {
        part: Windows(
            getattr(text, part),
            settings.batch_size,
            settings.steps,
            f"{part} part",
        )
        for part in formats.PARTS
    }


class Windows:
    """The batches of a text, in its order; none is held in memory.

    `len(windows)` is their number, and `windows[i]` a pair of `tokens` and
    `labels`, each `[batch_size, steps]` int32.
    """

    def __init__(self, ids, batch_size, steps, name):
        """Cuts `ids`; what fills no batch at the end is left out.

        Args:
            ids: `[num_tokens]` class ids, an array or a file in memory.
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
        self._labels = ids[1 : used + 1].reshape(batch_size, -1)

    def __len__(self):
        """The number of batches."""
        return self._num

    def __getitem__(self, i):
        """Batch i; raises `IndexError` behind the last one."""
        if not 0 <= i < self._num:
            raise IndexError(i)
        columns = slice(i * self._steps, (i + 1) * self._steps)
        return tuple(
            np.ascontiguousarray(part[:, columns])
            for part in (self._tokens, self._labels)
        )

    @property
    def labels(self):
        """All labels, `[batch_size, len(self) * steps]`."""
        return self._labels

    def dataset(self, indices=None):
        """A `tf.data.Dataset` of what the model takes.

        Args:
            indices: a sequence of the numbers of the batches, in their order;
                all by default.
        """
        import tensorflow as tf

        indices = range(len(self)) if indices is None else indices
        spec = tf.TensorSpec((len(self._tokens), self._steps), tf.int32)

        def elements():
            for i in indices:
                tokens, labels = self[i]
                yield ({"tokens": tokens, "labels": labels},)

        data = tf.data.Dataset.from_generator(
            elements, output_signature=({"tokens": spec, "labels": spec},)
        )
        length = tf.data.experimental.assert_cardinality(len(indices))
        # A batch costs little, and the thread that would make it ahead of time
        # may outlive the generator.
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        return data.apply(length).with_options(options)
