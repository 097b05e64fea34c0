"""A head whose rows are fetched from servers for each step, and sent back."""

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.distribute import on_servers, servers, steps
from tf_hsm import distribute

_RATE = 0.01


def measure(sizes, count, repetitions):
    """Makes steps of one variable, of shards, and of a head that fetches.

    All by plain SGD, on the same servers, in turns.

    Returns:
      "one", "servers" and "fetching" -> what `on_servers.take_turns` returns.
    """
    sizes = steps.Sizes(*sizes)
    tree = sizes.tree
    with servers.Servers(count) as cluster:
        plan = distribute.plan(tree, cluster.devices)
        functions = steps.make_steps(
            tree, sizes, {"one": None, "servers": plan}, "sgd"
        )
        functions["fetching"] = _Fetching(tree, sizes.width, cluster.devices)
        labels = steps.draw_labels(
            "uniform", plan, on_servers.WARM_UP + repetitions, sizes.batch
        )
        return on_servers.take_turns(functions, sizes.inputs(), labels)


class _Fetching:
    """A step that has the root's group here, and each row it needs fetched.

    Rows that several examples need travel once, and so do their gradients. The
    loss is that of our op, on a copy whose rows it does not need are old.
    """

    def __init__(self, tree, width, devices):
        self._tree = tree
        self._devices = devices
        offsets = tree.group_offsets
        self._offsets = tf.constant(offsets)
        self._groups = tf.constant(tree.row_groups[tree.class_rows])
        # Devices have about as many rows each, and whole groups.
        even = np.linspace(offsets[1], offsets[-1], len(devices) + 1)
        cuts = np.searchsorted(offsets, even[1:-1])
        self._starts = [
            int(r) for r in (offsets[1], *offsets[cuts], offsets[-1])
        ]
        self._copy = tf.Variable(tf.random.normal([tree.num_rows, width]) / 8)
        self._parts = []
        for start, end, device in zip(
            self._starts[:-1], self._starts[1:], devices, strict=True
        ):
            with tf.device(device):
                self._parts.append(
                    tf.Variable(tf.random.normal([end - start, width]) / 8)
                )
        self._step = tf.function(self._make_step)

    def __call__(self, inputs, labels):
        return self._step(inputs, labels)

    def _make_step(self, inputs, labels):
        groups = tf.sort(tf.unique(tf.gather(self._groups, labels))[0])
        rows = tf.ragged.range(
            tf.gather(self._offsets, groups),
            tf.gather(self._offsets, groups + 1),
        ).flat_values
        fetched = []
        for number, part in enumerate(self._parts):
            with tf.device(self._devices[number]):
                fetched.append(tf.gather(part, self._of(number, rows)[0]))
        values = tf.concat(fetched, 0)
        copied = self._copy.scatter_update(tf.IndexedSlices(values, rows))
        with (
            tf.control_dependencies([copied]),
            tf.GradientTape() as tape,
        ):
            tape.watch(inputs)
            losses = tf_hsm.hierarchical_softmax_loss(
                self._copy, None, labels, inputs, self._tree
            )
            total = tf.reduce_mean(losses)
        gradient, dx = tape.gradient(total, [self._copy, inputs])
        steps = _RATE * gradient.values
        for number, part in enumerate(self._parts):
            here, mask = self._of(number, gradient.indices)
            step = tf.boolean_mask(steps, mask)
            with tf.device(self._devices[number]):
                part.scatter_sub(tf.IndexedSlices(step, here))
        in_top = gradient.indices < self._starts[0]
        self._copy.scatter_sub(
            tf.IndexedSlices(
                tf.boolean_mask(steps, in_top),
                tf.boolean_mask(gradient.indices, in_top),
            )
        )
        return losses, dx

    def _of(self, number, rows):
        """The rows of a server, as it counts; and which of `rows` those are."""
        start, end = self._starts[number : number + 2]
        with tf.device("CPU:0"):
            mask = tf.logical_and(rows >= start, rows < end)
            return tf.cast(tf.boolean_mask(rows, mask) - start, tf.int32), mask
