"""Every device of several machines trains: a head over the workers.

    bazel run //examples/distributed:workers -- --workers=2

starts so many workers on this machine. On several machines, start the command
on each with a TF_CONFIG, as launchers of TensorFlow set it; it is one worker
then. Each worker computes the body for its own examples, and has a part of the
head's rows. Each input is a noisy vector of its class. The checkpoints are in a
folder that all workers see; the same command continues from the last one, on
any number of workers.
"""

import json
import os
import subprocess
import sys

from examples.common import program
from examples.distributed import servers

flags = program.Flags()

_WORKERS = flags.define_count(
    "workers", 2, "Workers to start if there is no TF_CONFIG."
)
_CLASSES = flags.define_count("classes", 10_000, "Classes, by Zipf's law.")
_WIDTH = flags.define_count("width", 32, "Width of inputs and hidden vectors.")
_BATCH = flags.define_count(
    "batch_size", 256, "Examples of each device in a step."
)
_STEPS = flags.define_count("steps", 200, "Training steps of this run.")
_SAVE = flags.define_count("save_every", 100, "Steps between checkpoints.")
_FOLDER = flags.DEFINE_string(
    "checkpoints", "workers_model", "Folder to write to."
)


def main():
    """Is a worker, or starts all of them."""
    if "TF_CONFIG" not in os.environ:
        sys.exit(_start_workers(_WORKERS.value))
    # Before TensorFlow runs anything.
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    import tf_hsm

    try:
        with tf_hsm.distribute.workers_explained(strategy):
            _train(strategy)
    except tf_hsm.distribute.LostWorkerError as error:
        print(f"error: {error}", file=sys.stderr)
        program.end_at_once(1)


def _train(strategy):
    import keras
    import numpy as np
    import tensorflow as tf

    import tf_hsm

    counts = 1 / np.arange(1, _CLASSES.value + 1)
    with strategy.scope():
        body = keras.Sequential(
            [
                keras.Input([_WIDTH.value]),
                keras.layers.Dense(_WIDTH.value, activation="tanh"),
            ]
        )
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(body.trainable_variables)
        head = tf_hsm.layers.HierarchicalSoftmax(
            tf_hsm.Tree.huffman(counts),
            devices="replicas",
            optimizer=tf_hsm.optimizers.LazyAdam(0.01),
            counts=counts,
        )
        head.build([None, _WIDTH.value])
    saved = tf.train.Checkpoint(
        body=body,
        optimizer=optimizer,
        head=tf_hsm.distribute.checkpoint(head),
    )
    task = strategy.cluster_resolver.task_id
    latest = tf.train.latest_checkpoint(_FOLDER.value)
    if latest:
        print(f"worker {task} restores {latest}", flush=True)
        saved.restore(latest)

    def step_of_replica(inputs, labels):
        with tf.GradientTape() as tape:
            hidden = body(inputs, training=True)
            loss = head.loss(labels, hidden)
        slopes = tape.gradient(loss, body.trainable_variables)
        optimizer.apply(slopes, body.trainable_variables)
        return loss  # its part of the mean over all replicas

    @tf.function
    def step(inputs, labels):
        losses = strategy.run(step_of_replica, (inputs, labels))
        return strategy.reduce("sum", losses, axis=None)

    vectors = np.random.default_rng(0).normal(size=(counts.size, _WIDTH.value))
    first = int(optimizer.iterations.numpy())
    print(f"worker {task} begins after step {first}", flush=True)
    rng = np.random.default_rng([first, task])  # other examples on each worker

    def batch():
        labels = rng.choice(counts.size, _BATCH.value, p=counts / counts.sum())
        noise = rng.normal(size=(labels.size, _WIDTH.value))
        inputs = vectors[labels] + 0.3 * noise
        return tf.constant(inputs, "float32"), tf.constant(labels)

    distributed = strategy.experimental_distribute_values_from_function
    for number in range(first + 1, first + _STEPS.value + 1):
        inputs, labels = distributed(lambda context: batch())
        loss = float(step(inputs, labels))
        if number % _SAVE.value == 0 or number == first + _STEPS.value:
            path = os.path.join(_FOLDER.value, str(number))
            tf_hsm.distribute.save(saved, path, strategy, max_to_keep=2)
            if task == 0:
                devices = len(head.plan.devices)
                print(
                    f"step {number} on {devices} devices, loss: {loss:.4f}",
                    flush=True,
                )


def _start_workers(count):
    """Starts workers on this machine; returns 0 if all end well, or 1."""
    addresses = [f"127.0.0.1:{port}" for port in servers.free_ports(count)]
    workers = []
    for index in range(count):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": addresses}, "task": task}
        environment = {
            **os.environ,
            "TF_CONFIG": json.dumps(config),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, "-m", __spec__.name, *sys.argv[1:]]
        workers.append(subprocess.Popen(command, env=environment))
    statuses = [worker.wait() for worker in workers]
    return int(any(statuses))


if __name__ == "__main__":
    program.run(main, flags)
