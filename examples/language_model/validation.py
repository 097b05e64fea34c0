"""Validation between two training steps, of which those know nothing."""

import contextlib
import pathlib
import time

import keras
import tensorflow as tf

from examples.language_model import recurrent


class Clock(keras.callbacks.Callback):
    """The time of training steps: without validation and checkpoints.

    The step that may build the graph, the first of each `fit`, does not count.

    Attributes:
        seconds: of all steps up to now.
        processor_seconds: the same, of all processors together.
        steps: how many these were.
    """

    def __init__(self, seconds=0.0):
        """Goes on from the `seconds` of an earlier process."""
        super().__init__()
        self.seconds = seconds
        self.processor_seconds = 0.0
        self.steps = 0

    def on_train_batch_begin(self, batch, logs=None):
        """Remembers when the step begins."""
        self._begin = time.perf_counter()
        self._processor_begin = time.process_time()

    def on_train_batch_end(self, batch, logs=None):
        """Adds the step."""
        if batch:
            self.seconds += time.perf_counter() - self._begin
            self.processor_seconds += (
                time.process_time() - self._processor_begin
            )
            self.steps += 1


class Every(keras.callbacks.Callback):
    """Calls a function when so many seconds of training have passed."""

    def __init__(self, seconds, clock, call):
        """Begins from where the clock stands.

        Args:
            seconds: between two calls; 0: there is none.
            clock: a `Clock`, which comes before this one.
            call: the function, without arguments.
        """
        super().__init__()
        self._every = seconds
        self._clock = clock
        self._call = call
        self._calls = clock.seconds // seconds if seconds else 0

    def on_train_batch_end(self, batch, logs=None):
        """Calls if it is time."""
        if self._every and self._clock.seconds // self._every > self._calls:
            self._calls = self._clock.seconds // self._every
            self._call()


@contextlib.contextmanager
def unnoticed(model):
    """Sets a model's recurrent states and metrics back at the end."""
    variables = [*recurrent.states(model), *model.metrics_variables]
    values = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


class Summaries:
    """Scalars for TensorBoard."""

    def __init__(self, folder):
        """Writes to new files in `folder`, once there is something to write."""
        self._folder = pathlib.Path(folder)
        self._writer = None

    def write(self, step, **scalars):
        """Writes named numbers of a training step."""
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(str(self._folder))
        # As `tf.summary.scalar` does, which needs the package tensorboard.
        metadata = tf.compat.v1.SummaryMetadata(
            plugin_data={"plugin_name": "scalars"},
            data_class="DATA_CLASS_SCALAR",
        )
        with self._writer.as_default():
            for name, value in scalars.items():
                tf.summary.write(
                    name, tf.constant(value, tf.float32), step, metadata
                )
        self._writer.flush()
