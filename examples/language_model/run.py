"""One training run, from the corpus to the test and a text of the model."""

import dataclasses
import math
import pathlib

import keras
import tensorflow as tf

from examples.common import files
from examples.common.settings import as_flag
from examples.corpora import corpus, formats
from examples.language_model import (
    batches,
    callbacks,
    checkpoint,
    generation,
    recurrent,
)
from examples.language_model import model as model_lib

_SAMPLE_TOKENS = 60


def prepare(settings, save_dir, resume=False):
    """Reads the corpus and makes or reloads the model; returns a `Job`.

    Args:
        settings: A `settings.Settings`.
        save_dir: The folder of the run; made if it is missing.
        resume: Whether to continue the run in `save_dir`, if there is one.

    Raises:
        OSError: The corpus, `save_dir` or the run to resume cannot be read.
        ValueError: There is too little text, or the run to resume has other
            settings or another text.
    """
    save_dir = pathlib.Path(save_dir)
    print(f"Reading the corpus, {settings.corpus} ...", flush=True)
    text = corpus.load(settings)
    print(text.description())
    shape = settings.batch_size, settings.steps
    windows = {
        part: batches.Windows(getattr(text, part), *shape, f"{part} part")
        for part in formats.PARTS
    }
    num_steps = settings.epochs * len(windows["train"])
    save_dir.mkdir(parents=True, exist_ok=True)
    # A resumed run repeats the uninterrupted one to the last bit.
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(settings.seed)
    rate = keras.optimizers.schedules.CosineDecay(
        settings.learning_rate, num_steps, alpha=0.05
    )
    if resume and checkpoint.exists(save_dir):
        model, state = checkpoint.load(save_dir)
        _check_resumed(save_dir, settings, state, text.digest)
        done = int(model.optimizer.iterations)
        if done > num_steps:
            raise ValueError(
                f"Cannot resume the run in {save_dir}: it has done {done:,} "
                f"steps, and --epochs={settings.epochs} are {num_steps:,}."
            )
        print(f"Resuming after {done:,} of {num_steps:,} steps.")
        if state.settings.epochs != settings.epochs:
            state.settings = settings
            model.optimizer.learning_rate = rate
    else:
        model = model_lib.build(settings, text, rate)
        if resume:
            print("Nothing is saved there yet: starting from the beginning.")
        elif checkpoint.exists(save_dir):
            checkpoint.set_aside(save_dir)
            print(f"The earlier run there is now {checkpoint.EARLIER}.")
        state = checkpoint.Run(
            settings, text.digest, text.words, text.tokens, text.boundary, []
        )
    head = model.get_layer("head")
    if settings.head == "hierarchical":
        print(head.tree.summary())
    print(f"{model.count_params():,} parameters. Writing to {save_dir}")
    return Job(save_dir, text, windows, model, state)


def _check_resumed(save_dir, settings, state, digest):
    """Raises `ValueError` if more than the number of epochs differs."""
    before, now = map(dataclasses.asdict, (state.settings, settings))
    found = [
        f"--{name}: {as_flag(before[name])} before, {as_flag(value)} now"
        for name, value in now.items()
        if name != "epochs" and value != before[name]
    ]
    if state.digest != digest:
        found.append("--corpus: the text itself has changed")
    if found:
        raise ValueError(
            f"Cannot resume the run in {save_dir}: {'; '.join(found)}"
        )


@dataclasses.dataclass
class Job:
    """A run in memory.

    Attributes:
        save_dir: The folder of the run.
        text: The `corpus.Corpus`.
        windows: The `batches.Windows` of each part of the text.
        model: The compiled model.
        state: The `checkpoint.Run`.
    """

    save_dir: pathlib.Path
    text: corpus.Corpus
    windows: dict[str, batches.Windows]
    model: keras.Model
    state: checkpoint.Run

    @property
    def steps_done(self):
        """Training steps done of the epoch after the finished ones."""
        whole = len(self.state.history) * len(self.windows["train"])
        return int(self.model.optimizer.iterations) - whole

    def train(self, save_every=0, is_over=lambda: False):
        """Trains up to the last epoch, and saves after each.

        Args:
            save_every: Training steps between further checkpoints within an
                epoch; 0: none.
            is_over: A function. When it returns true, the run is saved after
                the step or the epoch at hand, and `train` returns.

        Raises:
            FloatingPointError: Training diverged; what was saved before stays.
        """
        settings, num_steps = self.state.settings, len(self.windows["train"])
        if self.state.history:
            # A kill may have come between the checkpoint and these files.
            self._write_for_reading()
        while len(self.state.history) < settings.epochs:
            done = self.steps_done
            title = f"epoch {len(self.state.history) + 1}/{settings.epochs}"
            print(
                title
                + (f" from step {done:,} of {num_steps:,}" if done else ""),
                flush=True,
            )
            self.model.fit(
                self.windows["train"].dataset(done),
                shuffle=False,
                verbose=0,
                callbacks=[
                    callbacks.ContinueMetrics(),
                    callbacks.Steps(
                        title,
                        settings.batch_size * settings.steps,
                        self._save,
                        save_every,
                        is_over,
                    ),
                ],
            )
            if self.steps_done < num_steps:
                self._save()
                return
            self._end_epoch()
            if is_over():
                return

    def place(self):
        """Returns how far the run is, as part of a sentence."""
        epochs = len(self.state.history)
        if epochs == self.state.settings.epochs:
            return "after its last epoch"
        return f"{self.steps_done:,} steps into epoch {epochs + 1}"

    def _end_epoch(self):
        """Validates, reports and saves; resets states for the next epoch."""
        # The mean of the epoch's steps, which the validation resets.
        train_loss = float(self.model.get_metrics_result()["loss"])
        entry = {
            "epoch": len(self.state.history) + 1,
            "step": int(self.model.optimizer.iterations),
            "train_perplexity": math.exp(train_loss),
            "validation_perplexity": math.exp(self.loss("valid")),
            "unigram_perplexity": self.text.unigram_perplexity(
                self.windows["valid"].labels
            ),
        }
        self.state.history.append(entry)
        recurrent.reset_states(self.model)
        self.model.reset_metrics()
        print(
            "  perplexity: train {train_perplexity:.1f}, validation "
            "{validation_perplexity:.1f}, unigram {unigram_perplexity:.1f}"
            "".format(**entry),
            flush=True,
        )
        self._save()
        self._write_for_reading()

    def _save(self):
        checkpoint.save(self.save_dir, self.model, self.state)

    def _write_for_reading(self):
        """Writes the files that no run depends on."""
        history = self.state.history
        settings = dataclasses.asdict(self.state.settings)
        files.write_json(self.save_dir / "history.json", history)
        files.write_json(self.save_dir / "settings.json", settings)
        files.write_json(self.save_dir / "vocabulary.json", self.text.words)

    def loss(self, part, model=None):
        """Returns the mean loss on a part of the text, in nats per token.

        The recurrent states and the metrics of the model change.

        Args:
            part: "valid" or "test".
            model: A compiled model; the model of the run by default.
        """
        model = self.model if model is None else model
        recurrent.reset_states(model)
        logs = model.evaluate(
            self.windows[part].dataset(), verbose=0, return_dict=True
        )
        return float(logs["loss"])

    def finish(self):
        """Tests the saved model, and shows a text that it writes.

        Returns:
            The loss on the test part, in nats per token.
        """
        model, state = checkpoint.load(self.save_dir)
        loss = self.loss("test", model)
        print(f"Test: loss {loss:.4f} nats, perplexity {math.exp(loss):.1f}.")
        print("A text drawn from the model, as `bazel run //:generate` does:")
        (sample,) = generation.generate(
            model, state, length=_SAMPLE_TOKENS, seed=state.settings.seed
        )
        print(sample)
        return loss
