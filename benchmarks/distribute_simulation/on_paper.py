"""What the steps of a regular tree cost over some devices, by formulae.

No array is made of its classes, so that there may be a billion. A tree has L
levels of groups of k rows; its top is the root's group, whose k subtrees are
spread. Each device is a replica with a copy of the top, or one more device has
the top. Labels are uniform, or all in one shard.
"""

from typing import NamedTuple

from tf_hsm.distribute.chance import expected_largest


class Point(NamedTuple):
    """The means of one step.

    Attributes:
      shards: how many.
      num_bytes: those of the fullest device: weights, biases and slots.
      top: milliseconds of the top; of a replica, for its part of the batch.
      network: milliseconds of the network, labels being uniform.
      worst_network: milliseconds of the network, all labels being in one shard.
      mean: milliseconds of the mean shard.
      slowest: milliseconds of the slowest shard, labels being uniform.
      worst: milliseconds of the shard that has all labels.
    """

    shards: int
    num_bytes: float
    top: float
    network: float
    worst_network: float
    mean: float
    slowest: float
    worst: float

    @property
    def waiting(self):
        """The share of the time in which the mean shard waits."""
        return 1 - self.mean / self.slowest

    @property
    def total(self):
        """Milliseconds of a step in which nothing overlaps."""
        return self.top + self.network + self.slowest

    @property
    def total_of_worst(self):
        """Likewise, where all labels are in one shard."""
        return self.top + self.worst_network + self.worst


def fanout_of(num_classes, depth):
    """Returns the k for which k^depth is the number of classes, or above."""
    fanout = max(round(num_classes ** (1 / depth)), 1)
    while fanout**depth < num_classes:
        fanout += 1
    return fanout


def point(fanout, depth, count, step):
    """Returns the `Point` of a tree of `fanout ** depth` classes.

    Args:
      fanout: k, of every group.
      depth: L.
      count: the number of devices.
      step: the `tf_hsm.distribute.Step`.
    """
    batch, units = step.batch, fanout
    busy = min(count, units)
    # The first so many shards have one unit more than the others.
    fewest, more = divmod(units, busy)
    sizes = [fewest + 1] * more + [fewest] * (busy - more)
    work = (depth - 1) * fanout  # of an example, below the top
    shares = [size / units for size in sizes]
    largest = expected_largest(
        [batch * share * work for share in shares],
        [batch * share * work**2 for share in shares],
    )

    def touched(size, among, examples):
        """Rows below `size` units that examples of `among` units touch."""
        rows = 0.0
        for _ in range(depth - 1):
            rows += fanout * size * (1 - (1 - 1 / among) ** examples)
            size, among = fanout * size, fanout * among
        return rows

    def shard(size, among, examples):
        scored = examples * work * size / among
        return step.milliseconds(scored, touched(size, among, examples))

    below = sum(fanout ** (level + 1) for level in range(1, depth))
    num_bytes, of_top = step.bytes_of(below * max(shares)), batch
    network, worst_network = (
        _milliseconds(step, fanout, depth, count, share)
        for share in (shares, [1.0])
    )
    if step.on_replicas:
        num_bytes += step.bytes_of(fanout)
        of_top = -(-batch // count)
    return Point(
        shards=count,
        num_bytes=num_bytes,
        top=step.milliseconds(of_top * fanout, fanout),
        network=network,
        worst_network=worst_network,
        mean=sum(shard(size, units, batch) for size in sizes) / count,
        slowest=shard(sizes[0], sizes[0], largest / work),
        worst=shard(sizes[0], sizes[0], batch),
    )


def _milliseconds(step, fanout, depth, count, shares):
    """Returns the milliseconds of the network.

    Args:
      step: the `tf_hsm.distribute.Step`.
      fanout: as of `point`.
      depth: as of `point`.
      count: as of `point`.
      shares: the shares of the labels in the busy shards.
    """
    batch, num_classes = step.batch, fanout**depth
    if not step.on_replicas:
        return step.wire_milliseconds(step.wire_bytes(batch, num_classes))
    own = batch / count
    gradients = step.top_gradient_bytes(fanout, count)
    return 1e3 * gradients / step.network + max(
        step.exchange_milliseconds(
            own * (1 - share), (batch - own) * share, num_classes
        )
        for share in shares
    )
