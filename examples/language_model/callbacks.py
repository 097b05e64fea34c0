"""What happens during the steps of `model.fit`."""

import math
import sys
import time

import keras
import numpy as np

from examples.language_model import model as model_lib

_SECONDS_BETWEEN_LINES = 10
_LARGEST_LOSS = 100  # nats per token; guessing among 1e43 classes


class ContinueMetrics(keras.callbacks.Callback):
    """Lets metrics go on from their values; `fit` would set them to zero."""

    def on_train_begin(self, logs=None):
        """Remembers the values."""
        self._values = [v.numpy() for v in self.model.metrics_variables]

    def on_epoch_begin(self, epoch, logs=None):
        """Brings them back."""
        for variable, value in zip(
            self.model.metrics_variables, self._values, strict=True
        ):
            variable.assign(value)


class Checkpoint(keras.callbacks.Callback):
    """Saves every few steps, except after the last one."""

    def __init__(self, save, every):
        """Remembers to call `save()` every so many steps; 0: never."""
        super().__init__()
        self._save = save
        self._every = every

    def on_train_batch_end(self, batch, logs=None):
        """Saves if it is time."""
        done = batch + 1
        if (
            self._every
            and done % self._every == 0 < self.params["steps"] - done
        ):
            self._save()


class StopAt(keras.callbacks.Callback):
    """Ends training or evaluation after the step during which a time came."""

    def __init__(self, deadline, interrupted=lambda: False):
        """Remembers what ends it.

        Args:
            deadline: the time, in seconds of `time.monotonic()`.
            interrupted: a function that says whether the user ends it earlier.
        """
        super().__init__()
        self._deadline = deadline
        self._interrupted = interrupted

    def on_train_batch_end(self, batch, logs=None):
        """Ends training if it is time."""
        self.model.stop_training |= self._is_over()

    def on_test_batch_end(self, batch, logs=None):
        """Ends evaluation if it is time."""
        self.model.stop_evaluating |= self._is_over()

    def _is_over(self):
        return self._interrupted() or time.monotonic() >= self._deadline


class Count(keras.callbacks.Callback):
    """Counts the batches of an evaluation, in `batches`."""

    def on_test_begin(self, logs=None):
        """Begins at zero."""
        self.batches = 0

    def on_test_batch_end(self, batch, logs=None):
        """Counts one."""
        self.batches += 1


class Progress(keras.callbacks.Callback):
    """Keras's progress bar with perplexity and tokens per second.

    Attributes:
        step_ms: mean duration of the last call of `fit`'s steps, without
            checkpoints, and without the first if there are others: it can build
            the graph. Not a number if there was no step.
        processor_ms: mean time of those steps on all processors together.
        tokens_per_s: `step_ms` as a rate.
    """

    def __init__(self, tokens_per_step):
        """Makes a bar for steps of `tokens_per_step` tokens."""
        super().__init__()
        self._tokens_per_step = tokens_per_step
        self.step_ms = self.processor_ms = self.tokens_per_s = math.nan

    def on_train_begin(self, logs=None):
        """Starts a new bar."""
        self._bar = keras.utils.Progbar(
            self.params["steps"],
            stateful_metrics=["loss", "perplexity", "tokens/s"],
            # Without a terminal each update is a line of its own.
            interval=0.1 if sys.stdout.isatty() else _SECONDS_BETWEEN_LINES,
        )

    def on_train_batch_begin(self, batch, logs=None):
        """Starts the step's clocks."""
        self._begin = np.array([time.perf_counter(), time.process_time()])

    def on_train_batch_end(self, batch, logs=None):
        """Moves the bar."""
        end = np.array([time.perf_counter(), time.process_time()])
        seconds = end - self._begin
        self._seconds = seconds if batch < 2 else self._seconds + seconds
        self.step_ms, self.processor_ms = (
            1e3 * self._seconds / max(batch, 1)
        ).tolist()
        self.tokens_per_s = 1e3 * self._tokens_per_step / self.step_ms
        loss = model_lib.text_loss(logs)
        values = [("loss", loss), ("perplexity", math.exp(loss))]
        if batch:
            values.append(("tokens/s", self.tokens_per_s))
        self._bar.update(batch + 1, values)


class StopIfDiverged(keras.callbacks.Callback):
    """Ends a run that learns nothing any more, before it is saved."""

    def on_train_batch_end(self, batch, logs=None):
        """Raises `FloatingPointError` when the loss is not a number or huge."""
        if not logs["loss"] < _LARGEST_LOSS:
            raise FloatingPointError(
                f"The training loss is {logs['loss']} after "
                f"{int(self.model.optimizer.iterations):,} steps: lower "
                "--learning_rate."
            )
