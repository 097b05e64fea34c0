"""What happens during the steps of `model.fit`."""

import contextlib
import math
import sys
import time

import keras

from examples.language_model import model as model_lib
from examples.language_model import recurrent

_SECONDS_BETWEEN_LINES = 10
_LARGEST_LOSS = 100  # nats per token; guessing among 1e43 classes


class ContinueMetrics(keras.callbacks.Callback):
    """Lets metrics continue from their values; `fit` would reset them."""

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


class StopIf(keras.callbacks.Callback):
    """Ends training after the step in which a function becomes true."""

    def __init__(self, is_over):
        """Remembers the function, which has no arguments."""
        super().__init__()
        self._is_over = is_over

    def on_train_batch_end(self, batch, logs=None):
        """Ends training if the function says so."""
        self.model.stop_training |= self._is_over()


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


class Clock(keras.callbacks.Callback):
    """The time of training steps, without validation and checkpoints.

    The first step of each `fit` does not count: it builds the graph.

    Attributes:
        seconds: The time of all steps up to now.
        processor_seconds: The time on all processors together.
        steps: The number of these steps.
    """

    def __init__(self):
        """Begins at zero."""
        super().__init__()
        self.seconds = self.processor_seconds = 0.0
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
        """Begins now.

        Args:
            seconds: The time between two calls.
            clock: A `Clock`, which comes before this callback.
            call: The function, without arguments.
        """
        super().__init__()
        self._every = seconds
        self._clock = clock
        self._call = call
        self._calls = 0

    def on_train_batch_end(self, batch, logs=None):
        """Calls if it is time."""
        if self._clock.seconds // self._every > self._calls:
            self._calls = self._clock.seconds // self._every
            self._call()


class ProgressBar(keras.callbacks.Callback):
    """Keras' progress bar with perplexity and tokens per second."""

    def __init__(self, clock, tokens_per_step):
        """Takes a `Clock`, which comes before this callback."""
        super().__init__()
        self._clock = clock
        self._tokens_per_step = tokens_per_step

    def on_train_begin(self, logs=None):
        """Starts a new bar."""
        self._bar = keras.utils.Progbar(
            self.params["steps"],
            stateful_metrics=["loss", "perplexity", "tokens/s"],
            # Without a terminal each update is a line of its own.
            interval=0.1 if sys.stdout.isatty() else _SECONDS_BETWEEN_LINES,
        )

    def on_train_batch_end(self, batch, logs=None):
        """Moves the bar."""
        loss = model_lib.text_loss(logs)
        values = [("loss", loss), ("perplexity", math.exp(loss))]
        if self._clock.steps:
            tokens = self._clock.steps * self._tokens_per_step
            values.append(("tokens/s", tokens / self._clock.seconds))
        self._bar.update(batch + 1, values)


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
