"""What the replicas of a `tf.distribute` strategy exchange within a step."""

import functools

import tensorflow as tf

from tf_hsm.runtime import private_collectives


def context():
    """The replica context, if this is one of several replicas; or None."""
    found = tf.distribute.get_replica_context()
    if found is None or found.num_replicas_in_sync == 1:
        return None
    return found


def count():
    """How many replicas run this; 1 outside of replicas."""
    replica = context()
    return 1 if replica is None else replica.num_replicas_in_sync


def number(replica):
    """The number of the replica of a context, an int."""
    return int(tf.get_static_value(replica.replica_id_in_sync_group))


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
    return private_collectives.all_gather(replica, values[tf.newaxis])


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
    Gradients travel back the same way.

    Within one process the tensors are copied. Between processes a collective
    sends parts of one size. The replicas first exchange the sizes of their
    parts, and pad all parts to the largest one.

    Args:
      replica: the replica's context.
      parts: `[b, ...]` for each replica, a list: the first tensors to send.
    """

    def __init__(self, replica, parts):
        """See the class."""
        self._replica = replica
        self._sent = self._received = self._room = None
        if not are_of_processes(replica.strategy):
            return
        sizes = tf.stack([tf.shape(part)[0] for part in parts])
        sizes = private_collectives.all_gather(replica, sizes[tf.newaxis])
        mine = number(replica)
        self._sent, self._received = sizes[mine], sizes[:, mine]
        # A collective takes no tensor without elements.
        self._room = tf.maximum(tf.reduce_max(sizes), 1)

    def send(self, parts):
        """Returns the part that each replica sends to this one, a list.

        Args:
          parts: `[b, ...]` for each replica, of the sizes of the first tensors.
        """
        return self._swap(parts, self._received)

    def send_back(self, parts):
        """Returns the part that each replica sends back to this one, a list.

        Args:
          parts: `[b, ...]` for each replica, of the size that came from it.
        """
        return self._swap(parts, self._sent)

    def _swap(self, parts, sizes):
        if sizes is None:
            return _copied(self._replica, parts)
        stacked = tf.stack([self._padded(part) for part in parts])
        found = _all_to_all(self._replica, stacked)
        return [found[i, : sizes[i]] for i in range(len(parts))]

    def _padded(self, part):
        missing = self._room - tf.shape(part)[0]
        rest = [[0, 0]] * (part.shape.rank - 1)
        return tf.pad(part, [[0, missing], *rest])


def _copied(replica, parts):
    """Sends a tensor to each replica of the process, as copies."""

    def exchange(*parts):
        rows = replica.merge_call(_by_sender, args=parts)
        mine = number(replica)
        return [tf.identity(row[mine]) for row in rows]

    if not parts[0].dtype.is_floating:
        return exchange(*parts)

    @tf.custom_gradient
    def differentiable(*parts):
        return exchange(*parts), lambda *grads: _copied(replica, grads)

    return differentiable(*parts)


def _by_sender(strategy, *parts):
    """The parts of all replicas: a list for each, by whom they are for."""
    replicas = range(strategy.num_replicas_in_sync)
    # A tensor that is the same object for all replicas comes once.
    columns = [strategy.experimental_local_results(part) for part in parts]
    return [
        [column[sender % len(column)] for column in columns]
        for sender in replicas
    ]


def _all_to_all(replica, values):
    """Sends `values[i]` to replica i of all processes."""

    def exchange(values):
        found = private_collectives.all_to_all(replica, values)
        return tf.ensure_shape(found, values.shape)

    if not values.dtype.is_floating:
        return exchange(values)

    @tf.custom_gradient
    def differentiable(values):
        return exchange(values), lambda grad: _all_to_all(replica, grad)

    return differentiable(values)
