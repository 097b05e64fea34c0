"""Runs a tree of many labels, ours or a peer's; needs no library."""

import time


def run(train, find, data):
    """Trains on the examples of `data`, and finds labels of its tests.

    Args:
      train: a function without arguments that trains a model and returns it.
      find: a function of the model that returns the 5 best labels `[n, 5]` of
        the tests, best first; -1 where it finds fewer.
      data: the arrays of `label_trees`.

    Returns:
      "seconds" and "cpu_seconds" of training; "ms", the CPU time in which an
      example's labels are found; "pairs", the examples; and "found".
    """
    seconds, cpu_seconds = time.perf_counter(), time.process_time()
    model = train()
    seconds = time.perf_counter() - seconds
    cpu_seconds = time.process_time() - cpu_seconds
    search = time.process_time()
    found = find(model)
    search = time.process_time() - search
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "ms": 1e3 * search / len(found),
        "pairs": len(data["train_inputs"]),
        "found": found,
    }
