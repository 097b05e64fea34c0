"""What happens during `model.fit`: the progress bar and the end of an epoch."""

import math
import sys
import time

import keras

from examples.language_model import model as model_lib

_SECONDS_BETWEEN_LINES = 10
_LARGEST_LOSS = 100  # nats per token; guessing among 1e43 classes


class StartOfText(keras.callbacks.Callback):
    """Makes each pass over a text independent of what ran before it.

    Recurrent states become zero. Dropout generators are set to where they are
    after so many epochs: Keras does not save them.
    """

    def on_epoch_begin(self, epoch, logs=None):
        """Before the training text."""
        model_lib.reset_states(self.model)
        for layer in self.model.layers:
            if isinstance(layer, keras.layers.Dropout) and layer.rate > 0:
                draws = epoch * self.params["steps"]
                layer.seed_generator.state.assign([layer.seed, draws])

    def on_test_begin(self, logs=None):
        """Before the held-out text."""
        model_lib.reset_states(self.model)


class Progress(keras.callbacks.Callback):
    """Keras's progress bar with perplexity and tokens per second.

    Attributes:
        step_ms: mean duration of the last epoch's steps but its first, which
            in the first epoch builds the graph.
        tokens_per_s: the same as a rate.
    """

    def __init__(self, tokens_per_step):
        """Makes a bar for steps of `tokens_per_step` tokens."""
        super().__init__()
        self.tokens_per_step = tokens_per_step
        self.step_ms = self.tokens_per_s = math.nan

    def on_epoch_begin(self, epoch, logs=None):
        """Starts a new bar."""
        print(f"epoch {epoch + 1}/{self.params['epochs']}")
        self._bar = keras.utils.Progbar(
            self.params["steps"],
            stateful_metrics=["loss", "perplexity", "tokens/s"],
            # Without a terminal each update is a line of its own.
            interval=0.1 if sys.stdout.isatty() else _SECONDS_BETWEEN_LINES,
        )

    def on_train_batch_end(self, batch, logs=None):
        """Moves the bar."""
        now = time.perf_counter()
        if batch == 0:
            self._first_end = now
        else:
            seconds = (now - self._first_end) / batch
            self.step_ms = 1e3 * seconds
            self.tokens_per_s = self.tokens_per_step / seconds
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
                f"The training loss is {logs['loss']} after step {batch + 1} "
                "of the epoch: lower --learning_rate."
            )


class EndOfEpoch(keras.callbacks.Callback):
    """Reports each epoch and keeps to a time limit."""

    def __init__(self, report, deadline=None):
        """Remembers whom to call and when to stop.

        Args:
            report: called as `report(epoch, train_loss, held_out_loss)` with
                the number of the epoch, from 0, and losses in nats per token.
            deadline: `time.monotonic()` seconds by which training should be
                over, or None. No epoch is begun that would take longer.
        """
        super().__init__()
        self._report = report
        self._deadline = deadline

    def on_epoch_begin(self, epoch, logs=None):
        """Starts the epoch's clock."""
        self._begin = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        """Reports, then decides whether there is time for another epoch."""
        self._report(epoch, logs["loss"], logs["val_loss"])
        now = time.monotonic()
        late = self._deadline and 2 * now - self._begin > self._deadline
        if late and epoch + 1 < self.params["epochs"]:
            print("--max_minutes leaves no time for another epoch.")
            self.model.stop_training = True
