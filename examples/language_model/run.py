"""One training run: prepare, train, finish."""

import dataclasses
import math
import pathlib

import keras

from examples.language_model import (
    batches,
    callbacks,
    checkpoint,
    corpus,
    head_share,
    plot,
    predictions,
)
from examples.language_model import (
    model as model_lib,
)


def prepare(settings, save_dir, resume=False):
    """Reads the corpus and makes or reloads the model; returns a `Job`.

    Args:
        settings: a `settings.Settings`.
        save_dir: folder of the run, made if it does not exist.
        resume: whether to continue the run in `save_dir`.

    Raises:
        OSError: the corpus, `save_dir` or the run to resume cannot be read.
        ValueError: too little text, or a run with other settings or text.
    """
    save_dir = pathlib.Path(save_dir)
    print(f"Reading the corpus, {settings.corpus} ...", flush=True)
    text = corpus.load(settings.corpus, settings.min_count)
    shape = (settings.batch_size, settings.steps)
    train = batches.windows(text.train, *shape, "training text")
    held_out = batches.windows(text.held_out, *shape, "held-out text")
    print(_description(text))
    save_dir.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(settings.seed)
    if resume:
        model, state = checkpoint.load(save_dir)
        differences = state.settings.differences(settings)
        if state.digest != text.digest:
            differences.append("--corpus: the text itself has changed")
        if differences:
            raise ValueError(
                f"Cannot resume the run in {save_dir}: {'; '.join(differences)}"
            )
        print(f"Resuming after epoch {len(state.history)}.")
    else:
        if (save_dir / checkpoint.MODEL).exists():
            print("The first epoch's end replaces the earlier run there.")
        model = model_lib.build(
            settings, text.counts, settings.epochs * len(train[0])
        )
        state = checkpoint.Run(settings, text.digest, text.words, [])
    head = model.get_layer("head")
    if hasattr(head, "tree"):
        print(f"{head.tree.summary()}")
    print(f"{model.count_params():,} parameters. Writing to {save_dir}")
    return Job(save_dir, text, train, held_out, model, state)


def _description(text):
    unknown_train, unknown_held_out = text.unknown_rates
    return (
        f"{len(text.train):,} training and {len(text.held_out):,} held-out "
        f"tokens, {len(text.words):,} classes; <unk> is {unknown_train:.1%} of "
        f"the training and {unknown_held_out:.1%} of the held-out tokens."
    )


@dataclasses.dataclass
class Job:
    """A run in memory.

    Attributes:
        save_dir: its folder.
        text: its `corpus.Corpus`.
        train_windows: `tokens` and `labels` of `batches.windows`.
        held_out_windows: the same of the held-out text.
        model: the compiled model.
        state: the `checkpoint.Run`.
    """

    save_dir: pathlib.Path
    text: corpus.Corpus
    train_windows: tuple
    held_out_windows: tuple
    model: keras.Model
    state: checkpoint.Run

    def train(self, deadline=None):
        """Trains up to the last epoch, and saves after each.

        Args:
            deadline: `time.monotonic()` seconds; no epoch is begun that would
                end later.

        Raises:
            FloatingPointError: training diverged; the epochs before are saved.
        """
        settings = self.state.settings
        unigram = self.text.unigram_perplexity(self.held_out_windows[1])
        progress = callbacks.Progress(settings.batch_size * settings.steps)

        def report(epoch, train_loss, held_out_loss):
            tokens, labels = (part[0] for part in self.train_windows)
            head_ms = head_share.head_ms(self.model, tokens, labels)
            entry = {
                "epoch": epoch + 1,
                "train_perplexity": math.exp(train_loss),
                "held_out_perplexity": math.exp(held_out_loss),
                "unigram_perplexity": unigram,
                "tokens_per_s": progress.tokens_per_s,
                "step_ms": progress.step_ms,
                "head_ms": head_ms,
            }
            self.state.history.append(entry)
            self._save()
            print(
                "  perplexity: train {train_perplexity:.1f}, held-out "
                "{held_out_perplexity:.1f}, unigram {unigram_perplexity:.1f}; "
                "{tokens_per_s:,.0f} tokens/s; ".format(**entry)
                + f"head {head_ms / progress.step_ms:.0%} of a step "
                f"({head_ms:.1f} of {progress.step_ms:.1f} ms)",
                flush=True,
            )

        self.model.fit(
            batches.dataset(*self.train_windows),
            validation_data=batches.dataset(*self.held_out_windows),
            initial_epoch=len(self.state.history),
            epochs=settings.epochs,
            shuffle=False,
            verbose=0,
            callbacks=[
                callbacks.StartOfText(),
                callbacks.StopIfDiverged(),
                progress,
                callbacks.EndOfEpoch(report, deadline),
            ],
        )

    def _save(self):
        checkpoint.save(self.save_dir, self.model, self.state)
        history = self.state.history
        checkpoint.write_json(self.save_dir / "history.json", history)
        if len(history) == 1:
            settings = dataclasses.asdict(self.state.settings)
            checkpoint.write_json(self.save_dir / "settings.json", settings)
            checkpoint.write_json(
                self.save_dir / "vocabulary.json", self.text.words
            )
        plot.training_curve(self.save_dir / "curve.png", history)

    def held_out_loss(self, model):
        """Mean loss of `model` on the held-out text, in nats per token."""
        return model.evaluate(
            batches.dataset(*self.held_out_windows),
            verbose=0,
            callbacks=[callbacks.StartOfText()],
        )

    def finish(self):
        """Checks the saved model against this one, shows predictions.

        Returns:
            The held-out losses of the model in memory and of the saved one.

        Raises:
            RuntimeError: the saved model's loss differs by more than 1e-5.
        """
        reloaded, _ = checkpoint.load(self.save_dir)
        losses = self.held_out_loss(self.model), self.held_out_loss(reloaded)
        text = "Held-out loss in memory {:.7f}, reloaded {:.7f} nats.".format(
            *losses
        )
        if abs(losses[0] - losses[1]) > 1e-5:
            raise RuntimeError(f"The saved model is another one. {text}")
        print(text)
        tokens, labels = (part[0] for part in self.held_out_windows)
        print("Held-out contexts | the true next token, and the model's guess:")
        print(predictions.table(reloaded, self.text.words, tokens, labels))
        return losses
