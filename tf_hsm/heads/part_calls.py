"""How the parts of a head are called, each with the examples that it is for.

A part is a shard of a tree, or a tail of an adaptive softmax. One process may
call one part after the other. Or each replica of a strategy has some parts:
then the examples of all replicas travel to the replica of their part, and the
results come back.
"""

import itertools

import tensorflow as tf

from tf_hsm.runtime import replicas, row_parts


def call_parts(parts, owners, function, inputs, others, nothing):
    """Calls a function for each part of a head.

    Args:
      parts: a list, whose items have a `device`.
      owners: the number of the replica of each part; None: this process calls
        all parts.
      function: takes a part, the inputs of its examples and their other values,
        and returns a tensor `[b, ...]`, differentiable by the inputs.
      inputs: a list, `[b, width]` for each part.
      others: a list for each other value: `[b]` for each part; or None, which
        the function gets as it is.
      nothing: the result for no example.

    Returns:
      A list with the result of each part.
    """
    replica = None if owners is None else replicas.context()
    if replica is None:
        check_here([part.head for part in parts])
        results = []
        for i, part in enumerate(parts):
            own = [None if value is None else value[i] for value in others]
            with row_parts.on(part.device):
                results.append(function(part, inputs[i], *own))
        return results
    if not parts:
        return []
    exchange = _PartExchange(replica, owners, inputs)
    inputs = exchange.send(inputs)
    none = [None for _ in exchange.own]
    others = [none if v is None else exchange.send_other(v) for v in others]
    found = [
        # A gradient by the inputs, for the exchange of all replicas.
        nothing + tf.cast(tf.reduce_sum(of_part), nothing.dtype)
        if i is None
        else function(parts[i], of_part, *values)
        for i, of_part, *values in zip(
            exchange.own, inputs, *others, strict=True
        )
    ]
    return exchange.send_back(found)


def check_here(heads):
    """Checks that this process has the rows of all parts.

    Args:
      heads: the `TreeHead`s of the parts, a list.

    Raises:
      ValueError: other processes have some of the parts.
    """
    if any(head.weights is None for head in heads):
        raise ValueError(
            "other workers have shards or tails of this head, and only its "
            "losses exchange examples with them: call head(inputs, labels) in "
            "the function that strategy.run takes, or save the head by "
            "tf_hsm.distribute.save and restore it in one process"
        )


def losses_on_copies(head, batch):
    """Returns the losses of a `TreeHead` of which each replica has a copy.

    A step of the batch ends with these losses. Outside of replicas this is
    `head.losses(batch)`.

    Args:
      head: the `TreeHead`.
      batch: a `Batch` of labels `[B]`.
    """
    if batch.step is None or replicas.context() is None:
        return head.losses(batch)
    return batch.step.losses_on_copies(
        lambda inputs: head.losses(batch.replace(inputs=inputs, step=None)),
        batch.inputs,
        head.variables(),
        batch.loss_weights,
    )


class _PartExchange:
    """Sends values from all replicas to the replicas of parts, and back.

    Where replicas have several parts, each round has one part of a replica.

    Attributes:
      own: for each round the number of the part of this replica, or None.

    Args:
      replica: the context of this replica.
      owners: see `call_parts`.
      inputs: see `call_parts`.
    """

    def __init__(self, replica, owners, inputs):
        """See the class."""
        parts_of = [
            [i for i, owner in enumerate(owners) if owner == number]
            for number in range(replica.num_replicas_in_sync)
        ]
        self._num_parts = len(owners)
        self._rounds = list(itertools.zip_longest(*parts_of))
        self._exchange = replicas.Exchange(replica, self._groups(inputs))
        self._sizes = None
        mine = replicas.number(replica)
        self.own = [numbers[mine] for numbers in self._rounds]

    def send(self, inputs):
        """Returns for each round the inputs of all examples of the own part."""
        found = self._exchange.send(self._groups(inputs))
        self._sizes = [[tf.shape(x)[0] for x in group] for group in found]
        return [tf.concat(group, 0) for group in found]

    def send_other(self, values):
        """Sends values `[b]` without gradients; returns them by round."""
        found = self._exchange.send(self._groups(values), has_gradients=False)
        return [tf.concat(group, 0) for group in found]

    def send_back(self, results):
        """Returns the result for each part of what this replica has sent.

        Args:
          results: `[b, ...]` for each round.
        """
        found = self._exchange.send_back(
            [
                tf.split(result, tf.stack(sizes), num=len(sizes))
                for result, sizes in zip(results, self._sizes, strict=True)
            ]
        )
        of_parts = [None] * self._num_parts
        for numbers, group in zip(self._rounds, found, strict=True):
            for i, result in zip(numbers, group, strict=True):
                if i is not None:
                    of_parts[i] = result
        return of_parts

    def _groups(self, values):
        return [
            [values[0][:0] if i is None else values[i] for i in numbers]
            for numbers in self._rounds
        ]
