"""What the replicas of a `tf.distribute` strategy exchange within a step."""

import tensorflow as tf


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


def all_to_all(replica, parts):
    """Sends a tensor to each replica of the process, as copies.

    No replica may call this alone. The gradient of what came goes back.

    Args:
      replica: the replica's context.
      parts: `[b, ...]` for each replica, a list.

    Returns:
      A list: what each replica has for this one.
    """

    def exchange(*parts):
        rows = replica.merge_call(_by_sender, args=parts)
        mine = number(replica)
        return [tf.identity(row[mine]) for row in rows]

    if not parts[0].dtype.is_floating:
        return exchange(*parts)

    @tf.custom_gradient
    def differentiable(*parts):
        return exchange(*parts), lambda *grads: all_to_all(replica, grads)

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
