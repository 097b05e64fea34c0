"""What a head on several devices sends through the network."""

from tf_hsm import distribute
from tf_hsm.estimation.part import Part, Work


def part(name, setting, network, num_classes, vectors, replicas):
    """Returns the `Part` of the bytes for examples.

    With replicas, each sends its examples to the shards of other replicas, and
    sends back results for as many examples of these, in the mean. Otherwise the
    device of the body sends all examples to shards.

    Args:
      name: of the head.
      setting: the `Setting` of a replica, or of the device of the body.
      network: bytes a second out of the device, and into it.
      num_classes: N.
      vectors: pairs: how many examples have their label in a shard, and the
        width of the vectors that the shard takes.
      replicas: how many there are; 1 for a body on one device.
    """
    sent = milliseconds = 0.0
    for examples, width in vectors:
        step = distribute.Step(
            width=width, dtype=setting.compute_dtype, network=network
        )
        if replicas > 1:
            examples *= (replicas - 1) / replicas
            milliseconds += step.exchange_milliseconds(
                examples, examples, num_classes
            )
        wire = step.wire_bytes(examples, num_classes)
        sent += wire
        if replicas == 1:
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
        uncounted=uncounted if replicas > 1 else (),
    )
