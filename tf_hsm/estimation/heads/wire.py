"""What a head on several devices sends through the network."""

from tf_hsm import distribute
from tf_hsm.estimation.part import Part, Work


def check_replicas(replicas, shards, options):
    """Checks that each replica can have one shard of a head.

    Args:
      replicas: the number of replicas.
      shards: the number of devices over which the head is cut.
      options: the `TreeOptions` of the head.

    Raises:
      ValueError: the numbers differ, or the head has no optimizer of its own.
    """
    if options.optimizer is None and options.mode is None:
        raise ValueError(
            "a head over replicas updates its own rows: give "
            'head_optimizer, for example "rowwise_adagrad"'
        )
    if replicas != shards:
        raise ValueError(
            f"replicas is {replicas}, but the head is cut over devices: shards "
            f"is {shards}; give both the same number, or leave out one of them"
        )


def part(name, setting, network, num_classes, vectors, replicas):
    """Returns the `Part` of the bytes that shards exchange for examples.

    A replica sends its examples to the shards of other replicas, and results
    for as many examples of the other replicas, in the mean. A body on one
    device sends all examples to shards.

    Args:
      name: the name of the head.
      setting: the `Setting` of a replica, or of the device of the body.
      network: bytes a second out of the device, and into it.
      num_classes: N.
      vectors: pairs: how many examples have their label in a shard, and the
        width of the vectors that the shard takes.
      replicas: the number of replicas; None for a body on one device.
    """
    sent = milliseconds = 0.0
    for examples, width in vectors:
        step = distribute.Step(
            width=width, dtype=setting.compute_dtype, network=network
        )
        if replicas is not None:
            examples *= (replicas - 1) / replicas
            milliseconds += step.exchange_milliseconds(
                examples, examples, num_classes
            )
        wire = step.wire_bytes(examples, num_classes)
        sent += wire
        if replicas is None:
            milliseconds += step.wire_milliseconds(wire)
    uncounted = (
        "the padding of what travels between processes, up to the largest part",
    )
    return Part(
        f"{name} network",
        "network",
        forward=Work(0, sent / 2),
        backward=Work(0, sent / 2),
        seconds=lambda _: milliseconds / 1000,
        uncounted=() if replicas is None else uncounted,
    )
