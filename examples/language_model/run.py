"""One training run: prepare, train, finish."""

import dataclasses
import math
import pathlib
import shutil
import time

import keras
import tensorflow as tf

from examples.common import files
from examples.common import settings as settings_lib
from examples.corpora import corpus, formats
from examples.language_model import (
    batches,
    callbacks,
    checkpoint,
    generation,
    head_share,
    optimization,
    plot,
    predictions,
    recurrent,
    validation,
)
from examples.language_model import model as model_lib

_SAMPLE_TOKENS = 60
_CHECK_S = 2  # of evaluation after the time is over
_TENSORBOARD = "tensorboard"
_EARLIER_TENSORBOARD = "earlier_tensorboard"


def prepare(settings, save_dir, resume=False):
    """Reads the corpus and makes or reloads the model; returns a `Job`.

    Args:
        settings: a `settings.Settings`.
        save_dir: folder of the run, made if it does not exist.
        resume: whether to continue the run in `save_dir`, if there is one.

    Raises:
        OSError: the corpus, `save_dir` or the run to resume cannot be read.
        ValueError: too little text, no such cell, or a run with other settings
            or text.
    """
    save_dir = pathlib.Path(save_dir)
    recurrent.check(settings)
    print(f"Reading the corpus, {settings.corpus} ...", flush=True)
    text = corpus.load(settings)
    shape = (settings.batch_size, settings.steps)
    windows = {
        part: batches.Windows(getattr(text, part), *shape, f"{part} part")
        for part in formats.PARTS
    }
    num_steps = settings.epochs * len(windows["train"])
    print(text.description())
    save_dir.mkdir(parents=True, exist_ok=True)
    # A resumed run repeats the uninterrupted one to the last bit.
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(settings.seed)
    if resume and checkpoint.exists(save_dir):
        model, state = checkpoint.load(save_dir)
        before = state.settings
        settings_lib.check_resumed(
            save_dir,
            before,
            dataclasses.replace(settings, epochs=before.epochs),
            state.digest == text.digest,
        )
        done = int(model.optimizer.iterations)
        if done > num_steps:
            raise ValueError(
                f"Cannot resume the run in {save_dir}: it has done {done:,} "
                f"steps, and --epochs={settings.epochs} are {num_steps:,}."
            )
        print(f"Resuming after {done:,} of {num_steps:,} steps.")
        if before.epochs != settings.epochs:
            said = f"--epochs: {before.epochs} before, {settings.epochs} now."
            state.settings = settings
            if settings.decay == "cosine":
                said += (
                    " The learning rate is now that of a run of "
                    f"{settings.epochs}."
                )
                optimization.set_rate(
                    model, optimization.rate(settings, num_steps)
                )
            print(said)
    else:
        model = model_lib.build(
            settings, text, optimization.rate(settings, num_steps)
        )
        if resume:
            print("Nothing is saved there yet: starting from the beginning.")
        elif checkpoint.exists(save_dir):
            checkpoint.set_aside(save_dir)
            _set_aside_summaries(save_dir)
            print(f"The earlier run there is now {checkpoint.EARLIER}.")
        state = checkpoint.Run(
            settings, text.digest, text.words, text.tokens, text.boundary, []
        )
    head = model.get_layer("head")
    if hasattr(head, "tree"):
        print(f"{head.tree.summary()}")
    elif hasattr(head, "cutoffs"):
        print(f"Cutoffs of the adaptive softmax: {head.cutoffs}")
    print(f"{model.count_params():,} parameters. Writing to {save_dir}")
    if path := recurrent.path(model):
        print(path)
    return Job(save_dir, text, windows, model, state)


def _set_aside_summaries(save_dir):
    """Keeps the curves of an earlier run apart from those of the next."""
    if (save_dir / _TENSORBOARD).is_dir():
        shutil.rmtree(save_dir / _EARLIER_TENSORBOARD, ignore_errors=True)
        files.rename(save_dir / _TENSORBOARD, save_dir / _EARLIER_TENSORBOARD)


@dataclasses.dataclass
class Job:
    """A run in memory.

    Attributes:
        save_dir: its folder.
        text: its `corpus.Corpus`.
        windows: the `batches.Windows` of each part of the text.
        model: the compiled model.
        state: the `checkpoint.Run`.
    """

    save_dir: pathlib.Path
    text: corpus.Corpus
    windows: dict[str, batches.Windows]
    model: keras.Model
    state: checkpoint.Run

    def __post_init__(self):
        """Makes what measures and records."""
        self._summaries = validation.Summaries(self.save_dir / _TENSORBOARD)
        self._clock = validation.Clock(self.state.seconds)
        self._interrupted = lambda: False

    @property
    def steps_done(self):
        """Training steps done of the epoch after the finished ones."""
        whole = self.state.epochs_done * len(self.windows["train"])
        return int(self.model.optimizer.iterations) - whole

    def train(
        self,
        deadline=math.inf,
        save_every=0,
        validate_every=0,
        interrupted=lambda: False,
    ):
        """Trains up to the last epoch, and saves after each.

        Args:
            deadline: `time.monotonic()` seconds; the run is saved where it
                stands then, if it has not ended before.
            save_every: training steps between further checkpoints within an
                epoch; 0: none.
            validate_every: seconds of training between further validations; 0:
                none.
            interrupted: a function that says whether the user ends the run,
                which is saved after the step that this comes in.

        Raises:
            FloatingPointError: training diverged; what was saved before stays.
            KeyboardInterrupt: the user has ended the run, which is saved.
        """
        settings, self._interrupted = self.state.settings, interrupted
        progress = callbacks.Progress(settings.batch_size * settings.steps)
        if self.state.history:
            # A kill may have come between the checkpoint and these files.
            self._write_for_reading()
        while self.state.epochs_done < settings.epochs:
            optimization.begin_epoch(self.model, settings, self.state.history)
            self._train_epoch(progress, save_every, validate_every, deadline)
            left = len(self.windows["train"]) - self.steps_done
            if left or self._validation_ends_after(deadline, progress):
                self._save()
                self._write_for_reading()
                self._raise_if_interrupted()
                # The progress bar has not ended its line.
                print(
                    "\n"
                    * (left > 0)
                    + f"--max_minutes is over, {self._place()}. The run is "
                    "saved; the same command with --resume continues."
                )
                break
            self._end_epoch(progress)
            self._raise_if_interrupted()

    def _place(self):
        """How far the run is, as part of a sentence."""
        epoch = self.state.epochs_done + 1
        if epoch > self.state.settings.epochs:
            return "after its last epoch"
        return f"{self.steps_done:,} steps into epoch {epoch}"

    def _raise_if_interrupted(self):
        """Ends the run, which is saved, where the user wants that."""
        if self._interrupted():
            raise KeyboardInterrupt(f"The run is saved, {self._place()}.")

    def _validation_ends_after(self, deadline, progress):
        """Whether it would, if its steps took as long as those of training."""
        seconds = 1e-3 * progress.step_ms * len(self.windows["valid"])
        return time.monotonic() + seconds > deadline

    def _train_epoch(self, progress, save_every, validate_every, deadline):
        """Trains from where the model stands, until the epoch or time ends."""
        done, num_steps = self.steps_done, len(self.windows["train"])
        print(
            f"epoch {self.state.epochs_done + 1}/{self.state.settings.epochs}"
            + (f" from step {done:,} of {num_steps:,}" if done else ""),
            flush=True,
        )
        if done < num_steps:
            self.model.fit(
                self.windows["train"].dataset(range(done, num_steps)),
                shuffle=False,
                verbose=0,
                callbacks=[
                    callbacks.ContinueMetrics(),
                    callbacks.StopIfDiverged(),
                    progress,
                    self._clock,
                    validation.Every(
                        validate_every, self._clock, self._validate
                    ),
                    callbacks.Checkpoint(self._save, save_every),
                    callbacks.StopAt(deadline, self._interrupted),
                ],
            )

    def _validate(self, **more):
        """Adds an entry with `more` to the history; None if interrupted."""
        # Before the evaluation sets it to zero: the mean of the epoch's steps.
        train_loss = model_lib.text_loss(self.model.get_metrics_result())
        done = int(self.model.optimizer.iterations)
        with validation.unnoticed(self.model):
            loss, _ = self.loss("valid", interrupted=self._interrupted)
        if self._interrupted():
            return None
        entry = {
            "ends_epoch": False,
            "epoch": done / len(self.windows["train"]),
            "step": done,
            "seconds": self._clock.seconds,
            "train_perplexity": math.exp(train_loss),
            "validation_perplexity": math.exp(loss),
            **more,
        }
        self.state.history.append(entry)
        self._summaries.write(
            done,
            train_perplexity=entry["train_perplexity"],
            validation_perplexity=entry["validation_perplexity"],
        )
        return entry

    def _end_epoch(self, progress):
        """Evaluates, reports and saves; the model then begins the next epoch.

        Interrupted, it saves the model as it is before the validation.

        Args:
            progress: the `callbacks.Progress` of the epoch's steps.
        """
        share = head_share.head_share(
            self.model, *self.windows["train"][0], progress.processor_ms
        )
        # A run resumed at the end of an epoch has timed no step of it.
        timed = not math.isnan(progress.step_ms)
        entry = self._validate(
            ends_epoch=True,
            unigram_perplexity=self.text.unigram_perplexity(
                self.windows["valid"].labels
            ),
            tokens_per_s=progress.tokens_per_s if timed else None,
            step_ms=progress.step_ms if timed else None,
            head_ms=share * progress.step_ms if share else None,
        )
        if entry is None:
            self._save()
            return
        model_lib.reset_states(self.model)
        self.model.reset_metrics()
        shown = [
            "  perplexity: train {train_perplexity:.1f}, validation "
            "{validation_perplexity:.1f}, unigram {unigram_perplexity:.1f}"
        ]
        if timed:
            shown.append("{tokens_per_s:,.0f} tokens/s")
        if share:
            shown.append(f"head {share:.0%} of a step")
        print("; ".join(shown).format(**entry), flush=True)
        self._save()
        self._write_for_reading()

    def _save(self):
        self.state.seconds = self._clock.seconds
        checkpoint.save(self.save_dir, self.model, self.state)

    def _write_for_reading(self):
        """Writes the files that no run depends on."""
        history = self.state.history
        settings = dataclasses.asdict(self.state.settings)
        files.write_json(self.save_dir / "history.json", history)
        files.write_json(self.save_dir / "settings.json", settings)
        files.write_json(self.save_dir / "vocabulary.json", self.text.words)
        if history:
            plot.training_curve(self.save_dir / "curve.png", history)

    def loss(
        self,
        part,
        model=None,
        num_windows=None,
        deadline=math.inf,
        interrupted=lambda: False,
    ):
        """Mean loss on a part of the text, in nats per token.

        The model's recurrent states and metrics change.

        Args:
            part: "valid" or "test".
            model: a compiled model; that of the run by default.
            num_windows: how many windows of the text; all by default.
            deadline: `time.monotonic()` seconds; no window is begun later, but
                for the first.
            interrupted: a function that says whether to begin no more windows.

        Returns:
            The loss, and the number of windows.
        """
        model = self.model if model is None else model
        model_lib.reset_states(model)
        count = callbacks.Count()
        windows = self.windows[part]
        logs = model.evaluate(
            windows.dataset(range(len(windows))[:num_windows]),
            verbose=0,
            callbacks=[count, callbacks.StopAt(deadline, interrupted)],
            return_dict=True,
        )
        return model_lib.text_loss(logs), count.batches

    def finish(self, deadline=math.inf):
        """Tests the saved model against this one, shows what it has learned.

        Args:
            deadline: `time.monotonic()` seconds; the text is read up to where
                this time comes, or for two seconds after it.

        Returns:
            The test losses of the model in memory and of the saved one.

        Raises:
            RuntimeError: the saved model's loss differs by more than 1e-5.
        """
        reloaded, _ = checkpoint.load(self.save_dir)
        deadline = max(deadline, time.monotonic() + _CHECK_S)
        loss, num_windows = self.loss("test", deadline=deadline)
        losses = loss, self.loss("test", reloaded, num_windows)[0]
        text = "Test loss in memory {:.7f}, reloaded {:.7f} nats".format(
            *losses
        )
        if abs(losses[0] - losses[1]) > 1e-5:
            raise RuntimeError(f"The saved model is another one. {text}.")
        total = len(self.windows["test"])
        part = f", on the first {num_windows / total:.0%} of that text"
        print(
            f"{text}: perplexity {math.exp(loss):.1f}"
            f"{part if num_windows < total else ''}."
        )
        print("Contexts of the test | the true next token, the model's guess:")
        print(
            predictions.table(
                reloaded, self.text.words, *self.windows["test"][0]
            )
        )
        print("A text drawn from the model, as `bazel run //:generate` does:")
        (sample,) = generation.generate(
            reloaded,
            self.state,
            length=_SAMPLE_TOKENS,
            seed=self.state.settings.seed,
        )
        print(sample)
        return losses
