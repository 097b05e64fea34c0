"""Bytes of gradients, and of what replicas exchange of them."""


def sparse_bytes(rows, width, itemsize, *, bias=True, index_bytes=8):
    """Returns the bytes of a gradient of some rows, with their numbers.

    Args:
      rows: how many rows the gradient has.
      width: D, the width of a row.
      itemsize: bytes of a number.
      bias: whether a row has a bias, whose gradient has row numbers too.
      index_bytes: bytes of the number of a row.
    """
    return rows * ((width + bias) * itemsize + (1 + bias) * index_bytes)


def exchanged_bytes(gradient_bytes, replicas, *, is_sparse):
    """Returns the bytes that each replica sends of its gradient.

    Replicas sum dense gradients around a ring: each sends its gradient twice,
    but for its own share (Patarasuk and Yuan, 2009: 2 (W - 1) / W of it). They
    gather sparse gradients: each sends its gradient to all others.

    Args:
      gradient_bytes: of the gradient of one replica.
      replicas: W, how many there are.
      is_sparse: whether the gradient has touched rows alone.
    """
    others = replicas - 1
    return gradient_bytes * (others if is_sparse else 2 * others / replicas)
