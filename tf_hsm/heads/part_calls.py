"""Calls of the parts of a head, each with the examples that it is for.

A part is a shard of a tree, or a tail of an adaptive softmax. One process may
call one part after the other. Or each replica of a strategy has some parts:
then the examples of all replicas travel to the replica of their part, and the
results come back.
"""

import itertools

import tensorflow as tf

from tf_hsm.runtime import gradients, replicas, row_parts


def call_parts(parts, owners, function, values, nothing, step=None):
    """Calls a function for each part of a head, in a step of training.

    Args:
      parts: a list, whose items have a `device`.
      owners: the number of the replica of each part; None: this process calls
        all parts.
      function: takes a part, the inputs of its examples and their other values,
        and returns a tensor `[b, ...]`, differentiable by the inputs.
      values: first a list of the inputs, `[b, width]` for each part; then a
        list for each other value: `[b]` for each part.
      nothing: the result of each part for no example, a list.
      step: the `GradientStep` that the gradient of the results makes; or None.

    Returns:
      A list with the result of each part.
    """
    replica = None if owners is None else replicas.context()
    if replica is None:
        return _call_here(parts, function, values)
    return _exchange(
        replica,
        parts,
        owners,
        function,
        values,
        nothing,
        [True] + [False] * (len(values) - 1),
        [] if step is None else [step.anchor],
    )


def ask_parts(parts, owners, function, values, nothing, has_gradients=False):
    """Calls a function for each part of a head, for an answer.

    Under a strategy of one process, and outside of replicas, the caller calls
    all parts itself. Under a strategy of several processes the examples of all
    replicas travel to the replica of their part. All replicas must then call
    this function in the same order, with values of the same widths.

    Args:
      parts: see `call_parts`.
      owners: see `call_parts`.
      function: takes a part and the values of its examples, and returns a
        tensor `[b, ...]` or a tuple of them.
      values: a list for each value: `[b, ...]` for each part; or None, which
        the function gets as it is.
      nothing: see `call_parts`.
      has_gradients: whether the results of the function are differentiable by
        the values that are floats.

    Returns:
      A list with the result of each part.

    Raises:
      ValueError: other processes have some of the parts, and this is not a
        function that runs on all replicas; or the width of a value or of a
        result is not known.
    """
    replica = asks_other_processes(owners)
    if replica is None:
        return _call_here(parts, function, values)
    for tensor in tf.nest.flatten([nothing, [v for v in values if v]]):
        if not tensor.shape[1:].is_fully_defined():
            raise ValueError(
                "for a head over workers k and num_samples must be Python "
                "integers, and the last dimension of classes and of allowed "
                "must be static: pass lists of classes in place of a tensor "
                "of booleans or a RaggedTensor"
            )
    differentiable = [
        has_gradients and v is not None and v[0].dtype.is_floating
        for v in values
    ]
    results = _exchange(
        replica, parts, owners, function, values, nothing, differentiable
    )
    if has_gradients:
        return results
    floats = [v[0] for v in values if v and v[0].dtype.is_floating]
    results = _connected(results, [v[:0] for v in floats])
    return tf.nest.map_structure(_refused, results)


def _refused(result):
    """A result whose gradient is an error on all replicas.

    Otherwise only the replicas that call a part would have the error, and the
    others would wait for them.
    """
    return gradients.refused(
        result, "of the answers of a head only log_probs has a gradient"
    )


def last_size(values):
    """The last dimension of a tensor, an int where it is known."""
    size = values.shape[-1]
    return tf.shape(values)[-1] if size is None else size


def asks_other_processes(owners):
    """The context of the replica if `ask_parts` asks other processes; or None.

    Args:
      owners: see `call_parts`.
    """
    replica = None if owners is None else replicas.context()
    if replica is None or not replicas.are_of_processes(replica.strategy):
        return None
    return replica


def _call_here(parts, function, values):
    """Calls a function for each part in this process."""
    check_here([part.head for part in parts])
    results = []
    for i, part in enumerate(parts):
        own = [None if value is None else value[i] for value in values]
        with row_parts.on(part.device):
            results.append(function(part, *own))
    return results


def _exchange(
    replica,
    parts,
    owners,
    function,
    values,
    nothing,
    differentiable,
    anchors=(),
):
    """Calls a function for the parts of this replica, for all replicas.

    `differentiable` says of each value whether it has gradients. The results
    have gradients by `anchors` too, scalars that are 0. The rest is as for
    `ask_parts`.
    """
    if not parts:
        return []
    exchange = _PartExchange(replica, owners, values[0])
    none = [None for _ in exchange.own]
    received = [
        none if v is None else exchange.send(v, has_gradients)
        for v, has_gradients in zip(values, differentiable, strict=True)
    ]
    found = [
        _connected(
            exchange.of_round(nothing, number),
            [*itertools.compress(of_part, differentiable), *anchors],
        )
        if i is None
        else _as_wide_as(nothing[i], function(parts[i], *of_part))
        for number, (i, *of_part) in enumerate(
            zip(exchange.own, *received, strict=True)
        )
    ]
    # One list for each tensor of a result.
    columns = zip(*map(tf.nest.flatten, found), strict=True)
    widths = zip(*map(tf.nest.flatten, nothing), strict=True)
    columns = [
        exchange.send_back(column, [part.shape[1:] for part in of_parts])
        for column, of_parts in zip(columns, widths, strict=True)
    ]
    return [
        tf.nest.pack_sequence_as(nothing[i], of_part)
        for i, of_part in enumerate(zip(*columns, strict=True))
    ]


def _as_wide_as(nothing, results):
    """Results whose width TensorFlow knows: the width for no example."""
    return tf.nest.map_structure(
        lambda x, y: tf.ensure_shape(y, [None, *x.shape[1:]]), nothing, results
    )


def _connected(results, values):
    """Results whose gradient goes to values without examples, and is 0.

    A tape then has the same exchanges of gradients, or the same error, on all
    replicas.

    Args:
      results: tensors, of which the floats are connected.
      values: floats `[0, ...]`, or scalars that are 0; a list.
    """
    if not values:
        return results
    zero = tf.add_n([tf.cast(tf.reduce_sum(v), tf.float64) for v in values])
    return tf.nest.map_structure(
        lambda x: x + tf.cast(zero, x.dtype) if x.dtype.is_floating else x,
        results,
    )


def check_here(heads):
    """Checks that this process has the rows of all parts.

    Args:
      heads: the `TreeHead`s of the parts, a list.

    Raises:
      ValueError: other processes have some of the parts.
    """
    if any(head.weights is None for head in heads):
        raise ValueError(
            "other workers have shards or tails of this head: call the head, "
            "or ask it, in the function that strategy.run takes, on all "
            "workers; or save the head by tf_hsm.distribute.save and restore "
            "it in one process"
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

    def of_round(self, values, number):
        """Returns the value of the first part of a round."""
        return values[next(i for i in self._rounds[number] if i is not None)]

    def send(self, values, has_gradients=True):
        """Returns for each round the values of all examples of the own part.

        Args:
          values: `[b, ...]` for each part.
          has_gradients: whether gradients travel back.
        """
        found = self._exchange.send(self._groups(values), has_gradients)
        self._sizes = [[tf.shape(x)[0] for x in group] for group in found]
        return [tf.concat(group, 0) for group in found]

    def send_back(self, results, widths):
        """Returns the result for each part of what this replica has sent.

        Args:
          results: `[b, ...]` for each round.
          widths: `[...]` of the results of each part.
        """
        found = self._exchange.send_back(
            [
                tf.split(result, tf.stack(sizes), num=len(sizes))
                for result, sizes in zip(results, self._sizes, strict=True)
            ],
            [
                [
                    self.of_round(widths, number) if i is None else widths[i]
                    for i in numbers
                ]
                for number, numbers in enumerate(self._rounds)
            ],
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
