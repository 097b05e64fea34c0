"""A head whose weights are on every device: what is exchanged, and its time."""

import functools

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import machine, timing
from benchmarks.distribute import devices, steps
from tf_hsm import distribute

_RATE = 0.01
_REPLICAS = 2


def measure(sizes, repetitions, threads):
    """Times heads on two virtual devices, in turns; all by plain SGD.

    To be called in a process of its own.

    Returns:
      "one", "shards", "mirrored, sparse" and "mirrored, dense" -> what
      `devices.compared` returns; the mirrored ones also have "bytes", what
      their replicas exchange in a step.
    """
    machine.use_threads(threads)
    cpus = machine.use_cpus(_REPLICAS)
    tree = sizes.tree
    plan = distribute.plan(tree, cpus)
    plans = {"one": None, "shards": plan}
    functions = steps.make_steps(tree, sizes, plans, "sgd") | {
        f"mirrored, {kind}": _Mirrored(tree, sizes, cpus, kind)
        for kind in ("sparse", "dense")
    }
    labels = steps.draw_labels("uniform", plan, 1 + repetitions, sizes.batch)
    batches = [tf.constant(row, tf.int64) for row in labels]
    inputs = sizes.inputs()

    def turns_of(step):
        return lambda turn: timing.seconds_of(step, inputs, batches[turn])

    samples = timing.interleave(
        {name: turns_of(step) for name, step in functions.items()},
        repetitions,
        lambda: None,
    )
    results = {
        name: devices.compared(seconds, samples["one"])
        for name, seconds in samples.items()
    }
    for name, step in functions.items():
        if isinstance(step, _Mirrored):
            results[name]["bytes"] = step.exchanged_bytes()
    return results


class _Mirrored:
    """A step under `MirroredStrategy`, each replica on its part of a batch."""

    def __init__(self, tree, sizes, cpus, kind):
        self._strategy = tf.distribute.MirroredStrategy(cpus)
        self._tree, self._kind = tree, kind
        with self._strategy.scope():
            shape = tree.num_rows, sizes.width
            self._variables = [
                tf.Variable(tf.random.stateless_normal(shape, [0, 0]) / 8),
                tf.Variable(tf.zeros([tree.num_rows])),
            ]
        # Bytes of each replica's gradient in the last step.
        self._sent = tf.Variable(np.zeros(_REPLICAS), trainable=False)
        self._step = tf.function(self._make_step)

    def __call__(self, inputs, labels):
        return self._step(inputs, labels)

    def exchanged_bytes(self):
        """What the last step's all-reduce must send, of all replicas.

        A sparse gradient goes to each other replica. A dense one travels twice
        around a ring, but for one of its parts.
        """
        if self._kind == "sparse":
            return (_REPLICAS - 1) * float(sum(self._sent.numpy()))
        return 2 * (_REPLICAS - 1) * float(self._sent.numpy()[0])

    def _make_step(self, inputs, labels):
        parts = [tf.split(v, _REPLICAS) for v in (inputs, labels)]

        def part(values):
            return self._strategy.experimental_distribute_values_from_function(
                lambda context: values[context.replica_id_in_sync_group]
            )

        *gradients, sent, losses, dx = self._strategy.run(
            functools.partial(self._gradients, labels.shape[0]),
            [part(values) for values in parts],
        )
        self._sent.assign(
            tf.stack(self._strategy.experimental_local_results(sent))
        )
        extended = self._strategy.extended
        for variable, gradient in zip(self._variables, gradients, strict=True):
            total = extended.reduce_to(
                tf.distribute.ReduceOp.SUM, gradient, variable
            )
            extended.update(variable, _descend, [total])
        return [
            tf.concat(self._strategy.experimental_local_results(v), 0)
            for v in (losses, dx)
        ]

    def _gradients(self, batch, inputs, labels):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = tf_hsm.hierarchical_softmax_loss(
                *self._variables, labels, inputs, self._tree
            )
            total = tf.reduce_sum(losses) / batch
        *gradients, dx = tape.gradient(total, [*self._variables, inputs])
        if self._kind == "dense":
            gradients = [tf.convert_to_tensor(g) for g in gradients]
        sent = tf.add_n([_num_bytes(g) for g in gradients])
        return *gradients, sent, losses, dx


def _descend(variable, gradient):
    if isinstance(gradient, tf.IndexedSlices):
        step = tf.IndexedSlices(_RATE * gradient.values, gradient.indices)
        return variable.scatter_sub(step)
    return variable.assign_sub(_RATE * gradient)


def _num_bytes(gradient):
    parts = [gradient]
    if isinstance(gradient, tf.IndexedSlices):
        parts = [gradient.values, gradient.indices]
    return tf.add_n(
        [tf.cast(tf.size(p) * p.dtype.size, tf.float64) for p in parts]
    )
