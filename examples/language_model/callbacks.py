"""What happens during the steps of `model.fit`."""

import keras

from examples.common.progress import Progress

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


class Steps(keras.callbacks.Callback):
    """Shows how far an epoch is, saves every few steps, and ends training."""

    def __init__(self, title, tokens_per_step, save, save_every, is_over):
        """Remembers what to do.

        Args:
            title: what is shown.
            tokens_per_step: the number of tokens in a step.
            save: a function without arguments.
            save_every: after how many steps it is called, except after the
                last one; 0: never.
            is_over: a function without arguments: whether to end training
                after the step at hand.
        """
        super().__init__()
        self._title, self._tokens_per_step = title, tokens_per_step
        self._save, self._save_every = save, save_every
        self._is_over = is_over

    def on_train_begin(self, logs=None):
        """Begins to count."""
        tokens = self.params["steps"] * self._tokens_per_step
        self._progress = Progress(self._title, tokens, "tokens")

    def on_train_batch_end(self, batch, logs=None):
        """Does what is due.

        Raises:
            FloatingPointError: the loss is not a number or huge: the run learns
                nothing any more, and is not saved.
        """
        if not logs["loss"] < _LARGEST_LOSS:
            raise FloatingPointError(
                f"The training loss is {logs['loss']} after "
                f"{int(self.model.optimizer.iterations):,} steps: lower "
                "--learning_rate."
            )
        self._progress.title = f"{self._title}, loss {logs['loss']:.3f}"
        self._progress.add(self._tokens_per_step)
        done = batch + 1
        is_last = done == self.params["steps"]
        if self._save_every and not is_last and done % self._save_every == 0:
            self._save()
        self.model.stop_training |= self._is_over()
