r"""Many trainers: a head whose rows are spread over servers.

    bazel run //examples/distributed:train -- --servers=2 --trainers=2

Starts everything on this machine: servers, which hold the variables; trainers,
each of which takes steps without waiting for the others; and this process,
which hands out the examples. Each is `python -m tf_hsm cluster_task`. Each
input is a noisy vector of its class.

Saves to --checkpoints after every --save_every steps. The same command
continues from there after a kill or an error. Lost trainers are started again.

The servers have no authentication, as TensorFlow's protocol has none, and their
ports are open on every interface: not for a machine that strangers can reach.
"""

import contextlib
import json
import os
import sys
import time

from examples.common import program

flags = program.Flags()

_SERVERS = flags.define_count("servers", 2, "Tasks that hold the variables.")
_TRAINERS = flags.define_count("trainers", 2, "Tasks that compute the steps.")
_CLUSTER = flags.DEFINE_string(
    "cluster",
    "",
    "Servers and trainers that run already, as JSON. None are started then: "
    '{"ps": ["host1:2222"], "worker": ["host2:2222"], "chief": '
    '["host3:2222"]}. The chief is this process; the others must reach it.',
)
_FOLDER = flags.DEFINE_string(
    "checkpoints",
    "distributed_model",
    "Folder of the checkpoints. Every server writes there, so several "
    "machines need a shared folder.",
)
_CLASSES = flags.define_count("classes", 10_000, "Classes, by Zipf's law.")
_WIDTH = flags.define_count("width", 32, "Width of inputs and hidden vectors.")
_BATCH = flags.define_count("batch_size", 256, "Examples in a step.")
_STEPS = flags.define_count("steps", 400, "Training steps of this run.")
_SAVE = flags.define_count("save_every", 100, "Steps between checkpoints.")
_RATE = flags.DEFINE_float("learning_rate", 0.01, "Rate of LazyAdam.")


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    import tensorflow as tf

    import tf_hsm

    # TensorFlow writes pages about each loss, which this command says in a
    # line.
    tf.get_logger().setLevel("CRITICAL")
    try:
        with _addresses() as addresses:
            cluster = tf_hsm.distribute.connect(addresses, coordinator=True)
            with cluster.explained():
                _train(cluster)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        program.end_at_once(1)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The same command continues.") from None
    program.end_at_once(0)


@contextlib.contextmanager
def _addresses():
    """Yields the addresses of the cluster, or of processes started here."""
    from examples.distributed.servers import Servers

    if _CLUSTER.value:
        yield json.loads(_CLUSTER.value)
        return
    with Servers(_SERVERS.value, _TRAINERS.value) as servers:
        yield servers.addresses


def _train(cluster):
    import keras
    import numpy as np
    import tensorflow as tf

    import tf_hsm

    devices = cluster.devices()
    counts = 1 / np.arange(1, _CLASSES.value + 1)
    # Outside of the coordinator's strategy, in which heads do not step in
    # place: the body is on the first server, and the head on all of them.
    with tf.device(devices[0]):
        body = keras.layers.Dense(_WIDTH.value, activation="tanh")
        body.build([None, _WIDTH.value])
        weights = body.trainable_variables
        optimizer = tf_hsm.optimizers.LazyAdam(_RATE.value)
        optimizer.build(weights)
        head = tf_hsm.layers.HierarchicalSoftmax(
            tf_hsm.Tree.huffman(counts),
            devices=devices,
            optimizer=tf_hsm.optimizers.LazyAdam(_RATE.value),
            counts=counts,
        )
        head.build([None, _WIDTH.value])
        applied = tf.Variable(0, dtype=tf.int64)  # steps
    given = tf.Variable(0, dtype=tf.int64)  # steps that trainers were given
    variables = [*weights, *optimizer.variables]
    saved = tf.train.Checkpoint(
        # Each server writes its own variables.
        body=tf.train.Checkpoint(
            **{v.path.replace("/", "."): v.value for v in variables}
        ),
        head=tf_hsm.distribute.checkpoint(head),
        applied=applied,
        given=given,
    )
    # Servers have another working folder.
    folder = os.path.abspath(_FOLDER.value)
    manager = tf.train.CheckpointManager(saved, folder, max_to_keep=2)
    if manager.restore_or_initialize():
        print(f"continues after step {int(given)}", flush=True)

    def step(inputs, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(head.label_losses(labels, body(inputs)))
        optimizer.apply(tape.gradient(loss, weights), weights)
        with tf.control_dependencies([loss]):
            applied.assign_add(1)
        return loss

    # Traced here, for the same reason as above.
    batch = [
        tf.TensorSpec([_BATCH.value, _WIDTH.value]),
        tf.TensorSpec([_BATCH.value], tf.int64),
    ]
    function = tf.function(step).get_concrete_function(*batch)

    vectors = np.random.default_rng(0).normal(size=(counts.size, _WIDTH.value))
    first = int(given)
    rng = np.random.default_rng(first)

    def examples():
        labels = rng.choice(counts.size, _BATCH.value, p=counts / counts.sum())
        noise = rng.normal(size=(labels.size, _WIDTH.value))
        inputs = vectors[labels] + 0.3 * noise
        return tf.constant(inputs, "float32"), tf.constant(labels)

    for done in range(0, _STEPS.value, _SAVE.value):
        begin = time.monotonic()
        num_steps = min(_SAVE.value, _STEPS.value - done)
        # No trainer waits for another.
        losses = [
            cluster.coordinator.schedule(function, args=examples())
            for _ in range(num_steps)
        ]
        cluster.join()
        loss = np.mean([loss.fetch() for loss in losses])
        seconds = time.monotonic() - begin
        given.assign_add(num_steps)
        manager.save()
        print(
            f"step {int(given)}, {int(applied)} applied, loss: {loss:.4f}, "
            f"{num_steps / seconds:.0f} steps/s; saved",
            flush=True,
        )


if __name__ == "__main__":
    program.run(main, flags, interrupted=program.end_at_once)
