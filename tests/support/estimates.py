"""Estimates for a machine that is the same everywhere."""

import tf_hsm

MACHINE = {"flops": 1e11, "read_write": 1e10, "memory": 16e9, "op": 1e-6}


def estimate(*args, **kwargs):
    """`tf_hsm.estimate` of batches of 8 on `MACHINE`."""
    return tf_hsm.estimate(*args, **{"machine": MACHINE, "batch": 8, **kwargs})
