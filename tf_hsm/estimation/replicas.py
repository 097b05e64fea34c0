"""Data parallel training: what travels between copies of a model."""

from tf_hsm._units import read_amount
from tf_hsm.estimation.result import Replicas


def spread(parts, count, network):
    """Returns the `Replicas`, or None for one device.

    Gradients are summed around a ring: every device sends each of them twice,
    but for its own share (Patarasuk and Yuan, 2009: 2 (S - 1) / S of all). A
    sparse gradient is gathered instead: everyone gets that of all others.

    Args:
      parts: those of one device.
      count: S.
      network: bytes a second.
    """
    network = read_amount("network", network, "B")
    if count == 1:
        return None
    sent = sum(
        part.gradient_bytes * (count - 1) * (1 if part.is_sparse else 2 / count)
        for part in parts
    )
    return Replicas(count, network, sent)
