"""Collectives by which the replicas of several processes exchange tensors.

They share the keys and the order of the collectives of TensorFlow's
`MultiWorkerMirroredStrategy`, which its own reductions use.
"""

import tensorflow as tf

from tf_hsm.runtime import private_tensorflow


def all_gather(replica, values):
    """Returns the values `[n, ...]` of all replicas, `[W n, ...]`.

    A replica has the result when all replicas of its process have it. An error
    about the values of one replica cancels the collectives that the process has
    not ended, and other processes would wait for these for ever.

    Args:
      replica: the replica's context.
      values: `[n, ...]`, of one shape on all replicas.
    """
    device = _device(replica)
    gathered = private_tensorflow.all_gather(replica.strategy, device, values)
    with tf.control_dependencies(_meet(replica, gathered)):
        return tf.identity(gathered)


def all_to_all(replica, values):
    """Returns what each replica has for this one, `[W, ...]`.

    Nothing that follows may fail on one replica alone: see `all_gather`. What
    can fail is checked before.

    Args:
      replica: the replica's context.
      values: `[W, ...]`, of one shape on all replicas: `values[i]` is for
        replica i.
    """
    device = _device(replica)
    return private_tensorflow.all_to_all(replica.strategy, device, values)


def _device(replica):
    """Returns the number of a replica among the replicas of this process.

    Raises:
      ValueError: the replicas of this process would wait for each other, or
        the caller is an inner graph of the function of strategy.run.
    """
    count = len(replica.strategy.extended.worker_devices)
    if tf.executing_eagerly() and count > 1:
        raise ValueError(
            "the replicas of this worker run one after the other in eager "
            "mode, and the first would wait for the others for ever: call "
            "strategy.run in a tf.function"
        )
    _meet(replica)
    return int(tf.get_static_value(replica.replica_id_in_sync_group)) % count


def _meet(replica, *values):
    """Waits until all replicas of this process are traced up to this point.

    TensorFlow runs the assertions of a function in the order in which they are
    traced. An assertion that a replica traces after a collective waits for that
    collective, and must not come before an assertion of another replica that
    the collective waits for.

    Returns:
      The values of all replicas of this process, a list.
    """
    if len(replica.strategy.extended.worker_devices) == 1:
        return list(values)
    try:
        return replica.merge_call(_values_here, args=values)
    except RuntimeError as error:
        raise ValueError(
            "a worker with several devices cannot exchange examples within a "
            "tf.function, tf.cond or tf.while_loop in the function that "
            "strategy.run takes: call strategy.run in a tf.function, and the "
            "head in the function itself"
        ) from error


def _values_here(strategy, *values):
    """The values of all replicas of this process, a list."""
    of_values = map(strategy.experimental_local_results, values)
    return [value for of_value in of_values for value in of_value]
