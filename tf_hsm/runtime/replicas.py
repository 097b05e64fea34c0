"""The exchange between replicas of a `tf.distribute` strategy in a step."""

import contextlib
import functools

import keras
import tensorflow as tf

from tf_hsm.runtime import collectives


def context():
    """The replica context, if this is one of several replicas; or None."""
    found = tf.distribute.get_replica_context()
    if found is None or found.num_replicas_in_sync == 1:
        return None
    return found


def count():
    """Returns the number of replicas; 1 outside of replicas."""
    replica = context()
    return 1 if replica is None else replica.num_replicas_in_sync


def number(replica):
    """The number of the replica of a context, an int."""
    return int(tf.get_static_value(replica.replica_id_in_sync_group))


def copies_of(variable):
    """The copies that a strategy has of a variable, a list; or it alone."""
    if isinstance(variable, keras.Variable):
        variable = variable.value
    if isinstance(variable, tf.distribute.DistributedValues):
        strategy = variable.distribute_strategy
        return list(strategy.experimental_local_results(variable))
    return [variable]


def strategy_of(variable):
    """A scope of the strategy that has copies of a Keras variable, or none."""
    if isinstance(variable.value, tf.distribute.DistributedValues):
        return variable.value.distribute_strategy.scope()
    return contextlib.nullcontext()


def are_of_processes(strategy):
    """Whether a strategy has replicas in other processes."""
    here = len(strategy.extended.worker_devices)
    return strategy.num_replicas_in_sync > here


def of_all_workers(values):
    """Gathers the values `[n]` of all replicas of several processes.

    Each replica must call this function.

    Returns:
      `[W, n]`; None if all replicas are in this process, or this is none.
    """
    replica = context()
    if replica is None or not are_of_processes(replica.strategy):
        return None
    return collectives.all_gather(replica, values[tf.newaxis])


def gathered(strategy, value):
    """Gathers an integer of each replica; all workers must call this.

    Args:
      strategy: one with replicas in several processes.
      value: the integer of the replicas of this process.

    Returns:
      An array `[W]`, and the number of the first replica of this process.
    """
    found, number_here = _gathering(strategy)(tf.constant([value], tf.int64))
    found, numbers = map(
        strategy.experimental_local_results, (found, number_here)
    )
    return found[0].numpy()[:, 0], min(int(n) for n in numbers)


@functools.cache
def _gathering(strategy):
    """The function of `gathered`, which is traced once."""

    def of_replica(values):
        return of_all_workers(values), tf.constant(number(context()))

    return tf.function(
        lambda values: strategy.run(of_replica, (values,)), autograph=False
    )


class Exchange:
    """Sends tensors from each replica to each other replica, and results back.

    All replicas must make an exchange, and call it, in the same order.
    Gradients travel back the same way. An exchange takes one or more tensors
    for each replica: a list of groups, each with one tensor for each replica.

    Within one process the tensors are copied. Between processes a collective
    sends tensors of one shape. The replicas first exchange the sizes of their
    tensors, and pad all tensors of a group to the largest size and the largest
    width.

    Args:
      replica: the replica's context.
      groups: `[b, ...]` for each replica in each group: the first tensors to
        send.
    """

    def __init__(self, replica, groups):
        self._replica = replica
        self._sent = self._received = self._room = None
        if not are_of_processes(replica.strategy):
            return
        sizes = [[tf.shape(part)[0] for part in group] for group in groups]
        sizes = tf.stack(sizes)[tf.newaxis]
        sizes = collectives.all_gather(replica, sizes)
        mine = number(replica)
        self._sent, self._received = sizes[mine], tf.transpose(sizes[..., mine])
        # A collective takes no tensor without elements.
        self._room = tf.maximum(tf.reduce_max(sizes, [0, 2]), 1)

    def send(self, groups, has_gradients=True):
        """Returns what each replica sends to this one, in groups.

        Args:
          groups: `[b]`, or `[b, width]` with a width for each replica; of the
            sizes of the first tensors.
          has_gradients: whether gradients travel back.
        """
        mine = number(self._replica)
        widths = [[part.shape[1:] for part in group] for group in groups]
        mine = [[of_all[mine]] * len(of_all) for of_all in widths]
        return self._swap(groups, self._received, mine, widths, has_gradients)

    def send_back(self, groups, widths):
        """Returns what each replica sends back to this one, in groups.

        Gradients travel back if the tensors are floats.

        Args:
          groups: `[b]`, or `[b, width]` with one width in a group; of the size
            of what came from each replica.
          widths: for each group the width `[]` or `[width]` of what comes from
            each replica.
        """
        has_gradients = groups[0][0].dtype.is_floating
        return self._swap(groups, self._sent, widths, widths, has_gradients)

    def _swap(self, groups, sizes, widths, room_widths, has_gradients):
        """Swaps groups of tensors.

        Each replica sends this one `sizes [groups, W]` rows of `widths`;
        `room_widths` has the widths of all that this one sends.
        """
        if sizes is None:
            return _copied(self._replica, groups, has_gradients)
        stacked = []
        rooms = tf.unstack(self._room, len(groups))
        for group, room, of_all in zip(groups, rooms, room_widths, strict=True):
            widest = max(map(tuple, of_all))
            stacked.append(tf.stack([_padded(x, room, widest) for x in group]))
        found = _all_to_all(self._replica, stacked, has_gradients)
        return [
            [
                parts[(i, slice(sizes[k, i]), *map(slice, width))]
                for i, width in enumerate(of_group)
            ]
            for k, (parts, of_group) in enumerate(
                zip(found, widths, strict=True)
            )
        ]


def _padded(part, room, widest):
    """Values `[b, ...]` with zeros to `[room, *widest]`."""
    missing = [room - tf.shape(part)[0]]
    missing += [
        most - size for most, size in zip(widest, part.shape[1:], strict=True)
    ]
    return tf.pad(part, [[0, more] for more in missing])


def _copied(replica, groups, has_gradients):
    """Sends tensors to each replica of the process, as copies."""
    count = replica.num_replicas_in_sync

    def exchange(*parts):
        rows = replica.merge_call(_by_sender, args=parts)
        mine = number(replica)
        return [
            tf.identity(row[first + mine])
            for first in range(0, len(parts), count)
            for row in rows
        ]

    def grouped(parts):
        return [parts[i : i + count] for i in range(0, len(parts), count)]

    parts = [part for group in groups for part in group]
    if not has_gradients:
        return grouped(exchange(*map(tf.stop_gradient, parts)))
    return grouped(_with_gradients(exchange, parts))


def _by_sender(strategy, *parts):
    """The parts of all replicas: a list for each, by whom they are for."""
    replicas = range(strategy.num_replicas_in_sync)
    # A tensor that is the same object for all replicas comes once.
    columns = [strategy.experimental_local_results(part) for part in parts]
    return [
        [column[sender % len(column)] for column in columns]
        for sender in replicas
    ]


def _all_to_all(replica, tensors, has_gradients):
    """Sends `values[i]` of each tensor to replica i of all processes."""

    def exchange(*tensors):
        return [
            tf.ensure_shape(
                collectives.all_to_all(replica, values), values.shape
            )
            for values in tensors
        ]

    if not has_gradients:
        return exchange(*map(tf.stop_gradient, tensors))
    return _with_gradients(exchange, tensors)


def _with_gradients(exchange, tensors):
    """Calls an exchange of floats, and lets their gradients travel back."""

    @tf.custom_gradient
    def differentiable(before, *tensors):
        def gradient(_, *grads):
            return [None, *_with_gradients(exchange, grads)]

        return [tf.identity(before), *exchange(*tensors)], gradient

    return in_order(differentiable, *tensors)


def in_order(function, *tensors):
    """Calls a function whose gradient the replicas compute together.

    A tape may take the gradients of independent calls in any order, and the
    tapes of replicas take different orders: a replica would then wait for
    another one that waits for it. So each call takes a number from the call
    before, which makes the tapes of all replicas go back in the same order, as
    far as the calls are in one graph.

    Args:
      function: takes a number and tensors, and returns the number and results;
        a function of `tf.custom_gradient`.
      *tensors: its other arguments.

    Returns:
      A list of the results.
    """
    last, mine = _last_calls(), number(context())
    last[mine], *found = function(last.get(mine, tf.zeros([])), *tensors)
    return found


def _last_calls():
    """By replica, the number of the last call in the graph that is traced."""
    graph = tf.compat.v1.get_default_graph()
    if not hasattr(graph, "_tf_hsm_last_calls"):
        graph._tf_hsm_last_calls = {}
    return graph._tf_hsm_last_calls
