"""Bytes of gradients, and bytes that replicas exchange to sum them."""


def sparse_bytes(rows, width, itemsize, *, bias=True, index_bytes=8):
    """Returns the bytes of a sparse gradient: values and row numbers.

    Args:
      rows: how many rows the gradient has.
      width: D, the width of a row.
      itemsize: bytes of a number.
      bias: whether a row has a bias, whose gradient has row numbers too.
      index_bytes: bytes of the number of a row.
    """
    return rows * ((width + bias) * itemsize + (1 + bias) * index_bytes)


def exchanged_bytes(gradient_bytes, replicas, *, is_sparse):
    """Returns the bytes that each replica sends to sum a gradient.

    Replicas sum dense gradients around a ring: each replica sends 2 (W - 1) / W
    times the bytes of the gradient (Patarasuk and Yuan, 2009). They gather
    sparse gradients: each replica sends its gradient to all others.

    Args:
      gradient_bytes: the bytes of the gradient of one replica.
      replicas: W, the number of replicas.
      is_sparse: whether the gradient holds touched rows only.
    """
    others = replicas - 1
    return gradient_bytes * (others if is_sparse else 2 * others / replicas)
