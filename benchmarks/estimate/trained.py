"""Trains a model in this process, and reads what it took."""

import statistics
import time

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.estimate import heads, models, process
from benchmarks.estimate.sampled_machine import SampledMachine

_STEPS = 3  # the peak is that of so many; the first is traced


def measure(name, threads, repetitions, calibrates):
    """Makes a model, trains it for some steps, and counts its tensors.

    To be called in a process of its own.

    Args:
      name: one of `models.MODELS`.
      threads: the number of threads.
      repetitions: steps that are timed; with 0 none is.
      calibrates: whether to measure the machine beside them.

    Returns:
      A dict that JSON can hold: bytes of "parameters", "slots" and
      "gradients"; "peak", the most that the process had beyond what it had
      before; "process", that; "ms" and "samples_ms" of a step; and "machine",
      the numbers of a `Machine` if it `calibrates`, else None.
    """
    process.start(threads)
    model = models.MODELS[name]
    batches = batches_of(model, _STEPS)
    peak, training = process.peak_of(lambda: train(model, batches))
    timed = {}
    if repetitions:
        samples, here = _time(training, batches, repetitions, calibrates)
        timed = {
            "ms": statistics.median(samples),
            "samples_ms": samples,
            "machine": here,
        }
    return {
        "process": peak.before,
        "peak": peak.beyond,
        "parameters": bytes_of(training.variables()),
        "slots": bytes_of(training.slots()),
        "gradients": training.gradient_bytes(*batches[0]),
        **timed,
    }


def train(model, batches):
    """Makes a model, and trains it for a step on each of the batches.

    Returns:
      What `training_of` does.
    """
    training = training_of(model)
    for batch in batches:
        training.step(*batch)
    return training


def _time(training, batches, repetitions, calibrates):
    """Returns the ms of steps, and the numbers of the machine meanwhile."""
    here, samples = SampledMachine(), []
    for number in range(repetitions):
        here.sample()
        batch = batches[number % len(batches)]
        start = time.perf_counter()
        training.step(*batch)
        samples.append(1000 * (time.perf_counter() - start))
    return samples, here.calibrated().to_dict() if calibrates else None


def batches_of(model, count):
    """Returns inputs and uniform labels for so many steps."""
    rng = np.random.default_rng(0)
    shape = [model.batch] + [model.length] * (model.length is not None)

    def inputs():
        if model.vocabulary is None:
            numbers = rng.standard_normal([*shape, model.width], np.float32)
            return numbers / model.width**0.5
        return rng.integers(model.vocabulary, size=shape).astype(np.int32)

    return [
        (
            inputs(),
            rng.integers(model.head.num_classes, size=shape).astype(np.int64),
        )
        for _ in range(count)
    ]


def training_of(model):
    """Makes a model with its optimizer, ready for `step(inputs, labels)`."""
    if isinstance(model.head, heads.LayerHead):
        return _KerasTraining(model)
    return _FunctionTraining(model)


class _KerasTraining:
    """A model with a head that is a layer: compile and train."""

    def __init__(self, model):
        self._model = make_model(model)

    def step(self, inputs, labels):
        self._model.train_on_batch(inputs, labels)

    def variables(self):
        # Without the scalar of a head's own optimizer, which stays 0.
        return [v for v in self._model.weights if not v.overwrite_with_gradient]

    def slots(self):
        own = getattr(self._model.layers[-1], "optimizer", None)
        return [
            *_slots(self._model.optimizer),
            *(_slots(own) if own is not None else []),
        ]

    def gradient_bytes(self, inputs, labels):
        model = self._model
        trained = [v for v in self.variables() if v.trainable]
        if not trained:
            return 0

        @tf.function
        def sizes(inputs, labels):
            with tf.GradientTape() as tape:
                outputs = model(inputs, training=True)
                loss = model.compute_loss(inputs, labels, outputs)
            return _sizes(tape.gradient(loss, trained))

        return sum(int(size) for size in sizes(inputs, labels))


class _FunctionTraining:
    """A body and a loss on variables, trained by a `tf.function`."""

    def __init__(self, model):
        self._body = body = model.make_body()
        width = body.output_shape[-1]
        self._weights = model.head.make(width)
        self._optimizer = optimizer_of(model)
        trained = [*body.trainable_variables, *self._weights]
        self._optimizer.build(trained)

        def gradients(inputs, labels):
            with tf.GradientTape() as tape:
                hidden = tf.reshape(body(inputs, training=True), [-1, width])
                losses = model.head.loss(
                    *self._weights, tf.reshape(labels, [-1]), hidden
                )
                loss = tf.reduce_mean(losses)
            return loss, tape.gradient(loss, trained)

        @tf.function
        def step(inputs, labels):
            loss, found = gradients(inputs, labels)
            self._optimizer.apply(found, trained)
            return loss

        self._step = step
        self._sizes = tf.function(lambda *batch: _sizes(gradients(*batch)[1]))

    def step(self, inputs, labels):
        self._step(inputs, labels).numpy()

    def variables(self):
        return [*self._body.weights, *self._weights]

    def slots(self):
        return _slots(self._optimizer)

    def gradient_bytes(self, inputs, labels):
        return sum(int(size) for size in self._sizes(inputs, labels))


def make_model(model):
    """Makes the compiled Keras model of a `Model` whose head is a layer."""
    inputs, head = model.inputs(), model.head.make()
    made = keras.Model(inputs, head(model.body(inputs)))
    is_dense = isinstance(head, keras.layers.Dense)
    loss = _cross_entropy() if is_dense else head.loss
    made.compile(optimizer_of(model), loss)
    return made


def optimizer_of(model):
    """Makes the optimizer of a `Model`."""
    if model.optimizer == "lazy_adam":
        return tf_hsm.optimizers.LazyAdam(1e-3)
    return keras.optimizers.get(model.optimizer)


def _cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _slots(optimizer):
    """The variables of an optimizer that are as many as the model's."""
    return [
        v
        for v in optimizer.variables
        if v is not optimizer.iterations
        and v.path != "learning_rate"
        and not v.path.endswith("/learning_rate")
    ]


def bytes_of(variables):
    """Returns the bytes of variables."""
    return sum(
        int(np.prod(v.shape)) * tf.as_dtype(v.dtype).size for v in variables
    )


def _sizes(gradients):
    """Returns the bytes of gradients, as int64 tensors."""
    tensors = []
    for gradient in gradients:
        if isinstance(gradient, tf.IndexedSlices):
            tensors += [gradient.values, gradient.indices]
        elif gradient is not None:
            tensors.append(gradient)
    return [tf.size(t, tf.int64) * t.dtype.size for t in tensors]
