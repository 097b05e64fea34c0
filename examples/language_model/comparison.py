"""Trains the same model with one head after another, for exactly as long each.

The time is that of training steps: building the graph and validation do not
count. The learning rate falls with the time, not with the steps, so that
no head has to be timed before it is trained.
"""

import dataclasses
import json
import math
import os
import pathlib

import keras
import tensorflow as tf

from examples.common import files
from examples.common.progress import Progress
from examples.corpora import corpus, formats
from examples.language_model import (
    batches,
    compare_plot,
    compare_table,
    head_share,
    optimization,
    validation,
)
from examples.language_model import model as model_lib

RESULTS = "heads.json"

_VALIDATIONS = 12
_VALIDATION_TOKENS = 50_000
_BUSY = 0.5  # processes that run or wait to, beside this one


class OfTime(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of `optimization.rate` by the share of the time.

    Attributes:
        share: a variable: how much of the time has passed.
    """

    _STEPS = 10_000

    def __init__(self, settings):
        """Makes the schedule of a `settings.Settings`."""
        self._rate = optimization.rate(settings, self._STEPS)
        self.share = tf.Variable(0.0, trainable=False)

    def __call__(self, step):
        """The learning rate now."""
        del step
        if not callable(self._rate):
            return self._rate
        return self._rate(self.share * self._STEPS)


class _Time(keras.callbacks.Callback):
    """Moves the schedule, shows progress, ends training with its time."""

    def __init__(self, clock, seconds, schedule, progress, tokens):
        super().__init__()
        self._clock = clock
        self._seconds = seconds
        self._schedule = schedule
        self._progress = progress
        self._tokens = tokens
        self._before = 0.0

    def on_train_batch_end(self, batch, logs=None):
        now = min(self._clock.seconds, self._seconds)
        self._progress.add(now - self._before, self._tokens)
        self._before = now
        self._schedule.share.assign(now / self._seconds)
        self.model.stop_training |= now == self._seconds


def train(choice, text, minutes, title):
    """Trains one head, and returns what the table says of it.

    Args:
        choice: a `settings.Settings`.
        text: a `corpus.Corpus`.
        minutes: of training steps.
        title: what the progress is called.

    Returns:
        A dict: "steps", "seconds" of training, "tokens_per_s", "step_ms",
        "processor_ms" (of a step, on all processors together), "head_ms" (None
        where it could not be told), "parameters" of the head, "curve" (pairs of
        seconds and the perplexity on the first tokens of the part valid),
        "validation_perplexity" and "test_perplexity" on the whole parts at the
        end.
    """
    keras.utils.set_random_seed(choice.seed)
    shape = (choice.batch_size, choice.steps)
    windows = {
        part: batches.Windows(getattr(text, part), *shape, f"{part} part")
        for part in formats.PARTS
    }
    schedule = OfTime(choice)
    model = model_lib.build(choice, text, schedule)
    clock = validation.Clock()
    curve = []
    some = range(len(windows["valid"]))[
        : math.ceil(_VALIDATION_TOKENS / math.prod(shape))
    ]

    def validate():
        with validation.unnoticed(model):
            perplexity = _perplexity(model, windows["valid"], some)
        curve.append((clock.seconds, perplexity))

    seconds = 60 * minutes
    progress = Progress(title, seconds, "tokens")
    validate()
    model.fit(
        windows["train"].dataset().repeat(),
        # As long as the time lasts.
        steps_per_epoch=10**9,
        shuffle=False,
        verbose=0,
        callbacks=[
            clock,
            validation.Every(seconds / _VALIDATIONS, clock, validate),
            _Time(clock, seconds, schedule, progress, math.prod(shape)),
        ],
    )
    progress.end()
    if curve[-1][0] < clock.seconds:
        validate()
    num_timed = max(clock.steps, 1)
    step_ms = 1e3 * clock.seconds / num_timed
    processor_ms = 1e3 * clock.processor_seconds / num_timed
    share = head_share.head_share(model, *windows["train"][0], processor_ms)
    return {
        "steps": int(model.optimizer.iterations),
        "seconds": clock.seconds,
        "tokens_per_s": 1e3 * math.prod(shape) / step_ms,
        "step_ms": step_ms,
        "processor_ms": processor_ms,
        "head_ms": share and share * step_ms,
        "parameters": model.get_layer("head").count_params(),
        "curve": curve,
        "validation_perplexity": _perplexity(model, windows["valid"]),
        "test_perplexity": _perplexity(model, windows["test"]),
    }


def _perplexity(model, windows, indices=None):
    model_lib.reset_states(model)
    logs = model.evaluate(windows.dataset(indices), verbose=0, return_dict=True)
    return math.exp(model_lib.text_loss(logs))


def compare(choices, default, minutes, save_dir, num_seeds=1, resume=False):
    """Trains the heads in turn; what is done is written after each.

    Args:
        choices: name of a head -> the settings that differ from the default.
        default: the `settings.Settings` that all have in common.
        minutes: how long to train each.
        save_dir: folder of the tables and pictures, made if it is not there.
        num_seeds: how often each head is trained, from other random numbers.
        resume: whether to keep what an equal comparison in `save_dir` has done.

    Returns:
        Name of a head -> a list of what `train` returned, one for each seed.

    Raises:
        KeyboardInterrupt: after the table of the heads that are done.
        ValueError: what is to be resumed is another comparison.
    """
    save_dir = pathlib.Path(save_dir)
    save_dir.mkdir(parents=True, exist_ok=True)
    busy = os.getloadavg()[0]
    if busy > _BUSY:
        print(
            f"note: other processes use this machine (load {busy:.1f}); a "
            "comparison by time needs it alone."
        )
    print(f"Reading the corpus, {default.corpus} ...", flush=True)
    text = corpus.load(default)
    print(text.description())
    print(f"Training time of each head and seed: {minutes:g} min.")
    about = {
        "settings": dataclasses.asdict(default),
        "minutes": minutes,
        "text": text.digest,
    }
    results = _earlier(save_dir / RESULTS, about) if resume else {}
    runs = [
        (seed, name)
        for seed in range(default.seed, default.seed + num_seeds)
        for name in choices
    ]
    try:
        for i, (seed, name) in enumerate(runs, 1):
            done = results.setdefault(name, [])
            if len(done) > seed - default.seed:
                continue
            title = f"{name}, seed {seed} ({i} of {len(runs)})"
            print(title, flush=True)
            choice = dataclasses.replace(default, **choices[name], seed=seed)
            done.append(train(choice, text, minutes, name))
            files.write_json(save_dir / RESULTS, about | {"heads": results})
            keras.backend.clear_session()
    except KeyboardInterrupt:
        _show(save_dir, results)
        raise KeyboardInterrupt(
            f"{sum(map(len, results.values()))} of {len(runs)} runs were done; "
            "the same command with --resume goes on."
        ) from None
    _show(save_dir, results)
    return results


def _earlier(path, about):
    """The results of an earlier, equal comparison; none if there is no file."""
    if not path.is_file():
        return {}
    with open(path, encoding="utf-8") as file:
        earlier = json.load(file)
    results = earlier.pop("heads", None)
    if earlier != json.loads(json.dumps(about)):
        raise ValueError(
            f"Cannot resume: {path} is of another text, time or settings."
        )
    return results


def _show(save_dir, results):
    """Prints the table and draws the pictures, if there is anything to show."""
    results = {name: runs for name, runs in results.items() if runs}
    if results:
        print(f"\n{compare_table.table(results)}", flush=True)
        compare_plot.bars(save_dir / "heads.svg", results)
        compare_plot.curves(save_dir / "perplexity.svg", results)
