"""Examples of a batch to the parts of a partition, and results back.

    for part, route in enumerate(routes(parts, num_parts)):
        losses = route.add(losses, run(part, route.take(inputs)))

A part sees only the examples that need it. Where an example has C entries, such
as candidates or draws, a part computes all entries of its examples, and of the
results only its own entries count.
"""

import typing

import tensorflow as tf


class Route(typing.NamedTuple):
    """The way of M examples to a part, and back.

    Attributes:
      examples: `[M, 1]` int64, the places of the examples in the batch.
      is_own: `[M, C]` bool, which of their entries are the part's; or None.
    """

    examples: tf.Tensor
    is_own: tf.Tensor | None

    def take(self, batch):
        """Returns the examples `[M, ...]` of a batch `[B, ...]`."""
        return tf.gather_nd(batch, self.examples)

    def own(self, values, others=0):
        """Returns `values` `[M, C]`; `others` for entries of other parts."""
        if self.is_own is None:
            return values
        return tf.where(self.is_own, values, others)

    def add(self, batch, results):
        """Returns the batch with the results added to the examples."""
        results = self.own(results)
        return tf.tensor_scatter_nd_add(batch, self.examples, results)

    def replace(self, batch, results):
        """Returns the batch with the results instead of the examples."""
        if self.is_own is not None:
            results = self.own(results, self.take(batch))
        return tf.tensor_scatter_nd_update(batch, self.examples, results)


def route(is_own):
    """Returns the `Route` of examples `[B]`, or of entries `[B, C]`, bool."""
    if is_own.shape.rank == 1:
        return Route(tf.where(is_own), None)
    examples = tf.where(tf.reduce_any(is_own, -1))
    return Route(examples, tf.gather_nd(is_own, examples))


def routes(parts, num_parts, first=0):
    """Yields the `Route` to each part, numbered from `first`.

    `parts` is the number of each example `[B]`, or of each entry `[B, C]`.
    """
    for number in range(first, first + num_parts):
        yield route(tf.equal(parts, number))
