"""What happens during the steps of `model.fit`."""

import math
import sys
import time

import keras

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


class Progress(keras.callbacks.Callback):
    """Keras's progress bar with perplexity and tokens per second.

    Attributes:
        step_ms: mean duration of the last call of `fit`'s steps, without
            checkpoints, and without the first if there are others: it can build
            the graph.
        tokens_per_s: the same as a rate.
    """

    def __init__(self, tokens_per_step):
        """Makes a bar for steps of `tokens_per_step` tokens."""
        super().__init__()
        self._tokens_per_step = tokens_per_step
        self.step_ms = self.tokens_per_s = math.nan

    def on_train_begin(self, logs=None):
        """Starts a new bar."""
        self._bar = keras.utils.Progbar(
            self.params["steps"],
            stateful_metrics=["loss", "perplexity", "tokens/s"],
            # Without a terminal each update is a line of its own.
            interval=0.1 if sys.stdout.isatty() else _SECONDS_BETWEEN_LINES,
        )

    def on_train_batch_begin(self, batch, logs=None):
        """Starts the step's clock."""
        self._begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        """Moves the bar."""
        seconds = time.perf_counter() - self._begin
        self._seconds = seconds if batch < 2 else self._seconds + seconds
        mean = self._seconds / max(batch, 1)
        self.step_ms = 1e3 * mean
        self.tokens_per_s = self._tokens_per_step / mean
        values = [
            ("loss", logs["loss"]),
            ("perplexity", math.exp(logs["loss"])),
        ]
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
