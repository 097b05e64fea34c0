"""Every device trains: a head over the replicas of a MirroredStrategy.

    bazel run //examples/distributed:replicas -- --cpus=4

takes all GPUs of the machine or, without any, as many CPU devices as --cpus
says. Each replica computes the body for its part of the batch, and has a part
of the head's rows. Each input is a noisy vector of its class. The model is
saved after training; the same command continues from the file, on any number
of replicas.
"""

import os

from examples.common import program

flags = program.Flags()

_CPUS = flags.define_count("cpus", 2, "CPU devices, if there is no GPU.")
_CLASSES = flags.define_count("classes", 10_000, "Classes, by Zipf's law.")
_WIDTH = flags.define_count("width", 32, "Width of inputs and hidden vectors.")
_BATCH = flags.define_count(
    "batch_size", 512, "Examples in a step, of all replicas."
)
_STEPS = flags.define_count("steps", 200, "Training steps.")
_MODEL = flags.DEFINE_string("model", "replicas.keras", "File of the model.")


def main():
    """Trains and saves a model."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tf_hsm  # noqa: F401  (the classes that a file names)

    # Before TensorFlow looks for its devices.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * _CPUS.value,
    )
    gpus = tf.config.list_logical_devices("GPU")
    cpus = tf.config.list_logical_devices("CPU")
    devices = [device.name for device in gpus or cpus]
    strategy = tf.distribute.MirroredStrategy(devices)
    counts = 1 / np.arange(1, _CLASSES.value + 1)
    with strategy.scope():
        if os.path.exists(_MODEL.value):
            model = keras.models.load_model(_MODEL.value)
        else:
            model = _make_model(counts)
    print(model.layers[-1].plan)

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(counts.size, _WIDTH.value)).astype("float32")
    size = _BATCH.value * _STEPS.value
    labels = rng.choice(counts.size, size=size, p=counts / counts.sum())
    noise = rng.normal(size=(size, _WIDTH.value)).astype("float32")
    model.fit(
        vectors[labels] + 0.3 * noise,
        labels,
        batch_size=_BATCH.value,
        verbose=2,
    )
    model.save(_MODEL.value)


def _make_model(counts):
    """A dense layer and the head, both on all replicas."""
    import keras

    import tf_hsm

    head = tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.huffman(counts),
        devices="replicas",
        optimizer=tf_hsm.optimizers.LazyAdam(0.01),
        counts=counts,
    )
    model = keras.Sequential(
        [
            keras.Input([_WIDTH.value]),
            keras.layers.Dense(_WIDTH.value, activation="tanh"),
            head,
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), loss=head.loss)
    return model


if __name__ == "__main__":
    program.run(main, flags)
