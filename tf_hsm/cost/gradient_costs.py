"""Bytes of gradients, and bytes that replicas exchange to sum them."""

_INDEX_BYTES = 8  # of the number of a row


def sparse_bytes(rows, width, itemsize):
    """Returns the bytes of the sparse gradients of rows and of their biases.

    Args:
      rows: how many rows the gradients have. Each gradient has their numbers.
      width: D, the width of a row.
      itemsize: bytes of a number.
    """
    return rows * ((width + 1) * itemsize + 2 * _INDEX_BYTES)


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


def copies_bytes(rows, touched_rows, width, itemsize, replicas):
    """Returns the bytes that each replica sends to sum a gradient of copies.

    The replicas sum all rows with their biases around a ring, and with a number
    that says whether any replica has touched the row. Or they gather the
    touched rows, if that is less.

    Args:
      rows: how many rows the variables have.
      touched_rows: how many of them a replica has touched.
      width: D, the width of a row.
      itemsize: bytes of a number.
      replicas: W, the number of replicas.

    Returns:
      The bytes, and whether all rows are summed.
    """
    summed = exchanged_bytes(
        rows * (width + 2) * itemsize, replicas, is_sparse=False
    )
    gathered = exchanged_bytes(
        sparse_bytes(touched_rows, width, itemsize), replicas, is_sparse=True
    )
    return min(summed, gathered), summed < gathered
