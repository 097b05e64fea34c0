"""The memory that a tree takes while it is built, and what there is of it."""

import os

import numpy as np

_CGROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def check_fits(argument, size, item_bytes):
    """Raises a ValueError if a builder needs more memory than there is.

    `argument` is what is too large then, such as "num_classes is 5". Each of
    `size` rows, classes or nodes takes at most `item_bytes`, by tracemalloc:
    the arrays of the builder, and the copies and checks of `Tree`.
    """
    needed, limit = size * item_bytes, memory_bytes()
    if needed > limit:
        raise ValueError(
            f"{argument}; such a tree needs {_gigabytes(needed)} of memory "
            f"while it is built, and this machine has {_gigabytes(limit)}"
        )


def check_array_fits(name, values, item_bytes):
    """Does `check_fits` for an argument that is an array; a view takes none."""
    if isinstance(values, np.ndarray):
        size = values.size
        check_fits(f"{name} has {size} entries", size, item_bytes)


def memory_bytes():
    """Returns the bytes that this process may have at most."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        try:
            with open(path) as file:
                sizes.append(int(file.read()))
        except (OSError, ValueError):  # no such limit, or "max"
            continue
    return min(sizes)


def _gigabytes(num_bytes):
    return f"{num_bytes / 1e9:,.1f} GB"
