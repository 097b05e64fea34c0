"""Examples of a batch to the parts of a partition, and results back.

    for part, route in enumerate(routes(parts, num_parts)):
        results = run(part, route.take(inputs))
        losses = route.add(losses, results)

A part sees only the examples that need it. An example may have several entries,
such as candidates or draws, `parts` `[B, C]`: a part then computes all entries
of its examples, and of the results only its own entries count.
"""

import typing

import tensorflow as tf


class Route(typing.NamedTuple):
    """The way of M examples to a part, and back.

    Attributes:
      examples: `[M, 1]` int64, the places of the examples in the batch.
      is_own: `[M, C]` bool, which entries of these examples are the part's;
        None where examples have no entries.
    """

    examples: tf.Tensor
    is_own: tf.Tensor | None

    def take(self, batch):
        """Returns the examples `[M, ...]` of a batch `[B, ...]`."""
        return tf.gather_nd(batch, self.examples)

    def own(self, values, others=0):
        """Returns `values` `[M, C]`, `others` for entries of other parts."""
        if self.is_own is None:
            return values
        return tf.where(self.is_own, values, others)

    def add(self, batch, results):
        """Returns the batch with the results added to the examples."""
        return tf.tensor_scatter_nd_add(batch, self.examples, self.own(results))

    def replace(self, batch, results):
        """Returns the batch with the results instead of the examples."""
        if self.is_own is not None:
            results = self.own(results, self.take(batch))
        return tf.tensor_scatter_nd_update(batch, self.examples, results)


def route(is_own):
    """Returns the `Route` of what `is_own` names, `[B]` or `[B, C]` bool."""
    if is_own.shape.rank == 1:
        return Route(tf.where(is_own), None)
    examples = tf.where(tf.reduce_any(is_own, -1))
    return Route(examples, tf.gather_nd(is_own, examples))


def routes(parts, num_parts, first=0):
    """Yields the `Route` to each part.

    Args:
      parts: the number of the part of each example, `[B]`, or of each of its
        entries, `[B, C]`. Examples with other numbers are on no route.
      num_parts: how many parts there are.
      first: the number of the first part.
    """
    for number in range(first, first + num_parts):
        yield route(tf.equal(parts, number))
