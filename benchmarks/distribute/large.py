"""A head of many gigabytes on servers: times, and the memory of each process.

The servers have the rows and slots; the process that trains has the top, the
tree, and the batch.
"""

import shutil
import tempfile
import time

import tensorflow as tf

from benchmarks.common import machine
from benchmarks.distribute import servers, steps
from tf_hsm import distribute


def measure(sizes, count, num_steps, folder, restores):
    """Builds a head, trains it, saves it, reads it back and trains on.

    Its optimizer is Adagrad: slots are as large as the weights.

    Args:
      sizes: see `steps.Sizes`.
      count: the number of servers.
      num_steps: the number of steps before the checkpoint.
      folder: where the checkpoint is written for a while.
      restores: whether it is read.

    Returns:
      "head": bytes of weights and slots; and a list of "stages", dicts of
      "name", "seconds", "servers" and "here", which are dicts with the resident
      bytes "now", after the stage, and at "peak" within it.
    """
    sizes = steps.Sizes(*sizes)
    tree = sizes.tree
    with servers.Servers(count) as cluster:
        stages = _Stages(cluster)
        stages.add("start", lambda: None)
        plan = distribute.plan(tree, cluster.devices)
        head = stages.add(
            "build",
            lambda: steps.make_head(tree, sizes.width, plan, "adagrad"),
        )
        step = steps.make_step(head, sizes)
        inputs = sizes.inputs()
        labels = steps.draw_labels("uniform", plan, num_steps, sizes.batch)

        def train(rows):
            for row in rows:
                losses, _ = step(inputs, tf.constant(row, tf.int64))
                losses.numpy()

        stages.add("first step", lambda: train(labels[:1]))
        stages.add(f"{num_steps} steps", lambda: train(labels))
        folder = tempfile.mkdtemp(dir=folder)
        try:
            checkpoint = distribute.checkpoint(head)
            path = stages.add(
                "save", lambda: checkpoint.write(f"{folder}/head")
            )
            if restores:
                stages.add(
                    "restore",
                    lambda: checkpoint.read(path).assert_consumed(),
                )
        finally:
            shutil.rmtree(folder)
        stages.add(f"{num_steps} steps more", lambda: train(labels))
        # Weights and biases, and a slot of each.
        head_bytes = 2 * 4 * tree.num_rows * (sizes.width + 1)
        return {"head": head_bytes, "stages": stages.done}


class _Stages:
    def __init__(self, cluster):
        self._cluster = cluster
        self.done = []

    def add(self, name, function):
        """Calls a function, and notes what it took; returns its result."""
        self._cluster.restart_peaks()
        machine.restart_peak()
        start = time.perf_counter()
        result = function()
        seconds = time.perf_counter() - start
        here = {"now": machine.resident_bytes(), "peak": machine.peak_bytes()}
        self.done.append(
            {
                "name": name,
                "seconds": seconds,
                "servers": self._cluster.memory(),
                "here": here,
            }
        )
        return result
