"""Threads, in which NumPy works side by side."""

import concurrent.futures
import os

# More take more memory, since each works on rows of its own.
_MOST = 8


def pool():
    """Returns an executor with a thread for each CPU of the process."""
    count = min(len(os.sched_getaffinity(0)), _MOST)
    return concurrent.futures.ThreadPoolExecutor(count, "tf_hsm_tree")
