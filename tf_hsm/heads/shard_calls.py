"""How the shards of a head are called, each with the examples that it is for.

Where the head has a device for each shard, the process calls one shard after
the other. Where each replica of a strategy has a shard, the examples of all
replicas go to the replica of their shard, and the results come back.
"""

import tensorflow as tf

from tf_hsm.runtime import replicas


def call_shards(rows, function, values, nothing):
    """Calls a function for each shard of a head.

    Args:
      rows: the `ShardedRows`.
      function: takes a `Part` and the values of its examples, and returns a
        tensor `[b, ...]`, differentiable by the values.
      values: a list for each value: `[b, ...]` for each shard; or None, which
        the function gets as it is.
      nothing: the result for no example.

    Returns:
      A list with the result of each shard.
    """
    replica = replicas.context() if rows.on_replicas else None
    if replica is None:
        results = []
        for i, part in enumerate(rows.shards):
            own = [None if value is None else value[i] for value in values]
            with tf.device(part.device):
                results.append(function(part, *own))
        return results
    sent = [
        None if value is None else _for_replicas(rows, value)
        for value in values
    ]
    exchange = replicas.Exchange(replica, sent[0])
    received = [None if v is None else exchange.send(v) for v in sent]
    sizes = [tf.shape(part)[0] for part in received[0]]
    received = [None if v is None else tf.concat(v, 0) for v in received]
    own = rows.shard_of[replicas.number(replica)]
    if own is not None:
        result = function(rows.shards[own], *received)
    else:
        result = _without_shard(nothing, received)
    found = exchange.send_back(
        tf.split(result, tf.stack(sizes), num=len(sizes))
    )
    return [
        part
        for part, shard in zip(found, rows.shard_of, strict=True)
        if shard is not None
    ]


def _without_shard(nothing, received):
    """The result for no example, with a gradient by the values, as others have.

    Every replica takes part in the exchange of the gradients.
    """
    for value in received:
        if value is not None and value.dtype.is_floating:
            nothing += tf.cast(tf.reduce_sum(value), nothing.dtype)
    return nothing


def _for_replicas(rows, value):
    """The values of each shard by replica: none where it has no shard."""
    return [
        value[0][:0] if shard is None else value[shard]
        for shard in rows.shard_of
    ]
