"""Collectives by which the replicas of several processes exchange tensors.

The launchers of TensorFlow's `MultiWorkerMirroredStrategy` have what a
collective needs: a key for each call, and a token that keeps the collectives of
a device in one order. The strategy's own reductions use the same launchers.
"""

import contextlib

import tensorflow as tf
from tensorflow.python.eager import context


def all_gather(replica, values):
    """Returns the values `[n, ...]` of all replicas, `[W n, ...]`.

    A replica has the result when all replicas of its process have it. An error
    about the values of one replica cancels the collectives that the process has
    not ended, and other processes would wait for these for ever.

    Args:
      replica: the replica's context.
      values: `[n, ...]`, of one shape on all replicas.
    """
    gathered = _launcher(replica)._all_gather(values, None)
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
    launcher = _launcher(replica)
    key = launcher._next_instance_key()
    with tf.device(launcher._device):
        return tf.raw_ops.CollectiveAllToAllV2(
            input=values,
            group_size=launcher._group_size,
            group_key=launcher._group_key,
            instance_key=key,
            ordering_token=[launcher._get_ordering_token()],
            communication_hint=launcher._options.implementation.value,
            timeout_seconds=launcher._options.timeout_seconds,
        )


def tell_workers(message):
    """Ends the collectives of all other workers with an error.

    Args:
      message: what their errors say.
    """
    # The process with the coordination service may have ended, and a context
    # that has run nothing has no service.
    with contextlib.suppress(tf.errors.OpError, ValueError):
        code = tf.errors.UNAVAILABLE
        context.context().report_error_to_cluster(code, message)


def _launcher(replica):
    """Returns what launches collectives on the device of a replica.

    Raises:
      ValueError: the replicas of this process would wait for each other, or
        the caller is an inner graph of the function of strategy.run.
    """
    extended = replica.strategy.extended
    if tf.executing_eagerly() and len(extended.worker_devices) > 1:
        raise ValueError(
            "the replicas of this worker run one after the other in eager "
            "mode, and the first would wait for the others for ever: call "
            "strategy.run in a tf.function"
        )
    _meet(replica)
    number = int(tf.get_static_value(replica.replica_id_in_sync_group))
    local = extended._get_local_replica_id(number)
    return extended._cross_device_ops._launchers[local]


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
