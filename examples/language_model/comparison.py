"""Trains the same model with one head after another, for as long each."""

import dataclasses
import math
import pathlib
import statistics
import time

import keras
import numpy as np

from examples.common import files
from examples.corpora import corpus
from examples.language_model import (
    batches,
    callbacks,
    compare_plot,
    head_share,
)
from examples.language_model import model as model_lib

_WARM_UP, _TIMED = 3, 8


class _Clock(keras.callbacks.Callback):
    """Seconds of each step, `[n, 2]`: by the clock, and of all processors."""

    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self._begin = np.array([time.perf_counter(), time.process_time()])

    def on_train_batch_end(self, batch, logs=None):
        end = np.array([time.perf_counter(), time.process_time()])
        self.seconds.append(end - self._begin)


def train(choice, text, minutes):
    """Trains one head, and returns what the table says of it.

    Args:
        choice: a `settings.Settings`.
        text: a `corpus.Corpus`.
        minutes: how long to train.

    Returns:
        A dict: "steps", "seconds" of training, "tokens_per_s", "step_ms",
        "head_ms" (None where it could not be told), "held_out_perplexity",
        "parameters" of the head.
    """
    shape = (choice.batch_size, choice.steps)
    windows = batches.windows(text.train, *shape, "training text")
    held_out = batches.windows(text.held_out, *shape, "held-out text")
    trial, _ = _fit(choice, text, windows, _WARM_UP + _TIMED)
    step_seconds = statistics.median(seconds for seconds, _ in trial[_WARM_UP:])
    num_steps = max(1, round(60 * minutes / step_seconds))
    progress = callbacks.Progress(choice.batch_size * choice.steps)
    seconds, model = _fit(choice, text, windows, num_steps, progress)
    model_lib.reset_states(model)
    loss = model.evaluate(batches.dataset(*held_out), verbose=0)
    head = model.get_layer("head")
    step_seconds, processor_seconds = np.median(seconds, axis=0).tolist()
    share = head_share.head_share(
        model, windows[0][0], windows[1][0], 1e3 * processor_seconds
    )
    return {
        "steps": num_steps,
        "seconds": float(np.sum(seconds, axis=0)[0]),
        "tokens_per_s": choice.batch_size * choice.steps / step_seconds,
        "step_ms": 1e3 * step_seconds,
        "head_ms": share and share * 1e3 * step_seconds,
        "parameters": head.count_params(),
        "held_out_perplexity": math.exp(loss),
    }


def _fit(choice, text, windows, num_steps, *shown):
    """Returns the seconds of each step, and the model.

    `shown` are callbacks for the person who waits.
    """
    keras.utils.set_random_seed(choice.seed)
    model = model_lib.build(choice, text, num_steps)
    clock = _Clock()
    data = batches.dataset(*windows).repeat().take(num_steps)
    model.fit(data, shuffle=False, verbose=0, callbacks=[clock, *shown])
    return clock.seconds, model


def table(results):
    """The results as text.

    Args:
        results: name of a head -> what `train` returned.
    """
    lines = [
        f"{'head':<26}{'held-out':>12}{'tokens/s':>10}{'steps':>8}"
        f"{'seconds':>9}{'head, ms':>10}{'step, ms':>10}{'parameters':>12}",
        f"{'':<26}{'perplexity':>12}",
    ]
    lines.extend(
        f"{name:<26}{r['held_out_perplexity']:>12.1f}{r['tokens_per_s']:>10,.0f}"
        f"{r['steps']:>8,}{r['seconds']:>9.0f}"
        f"{'-' if r['head_ms'] is None else format(r['head_ms'], '.1f'):>10}"
        f"{r['step_ms']:>10.1f}{r['parameters']:>12,}"
        for name, r in results.items()
    )
    return "\n".join(lines)


def compare(choices, default, minutes, save_dir):
    """Trains the heads in turn; what is done is written after each.

    Args:
        choices: name of a head -> the settings that differ from the default.
        default: the `settings.Settings` that all have in common.
        minutes: how long to train each.
        save_dir: folder of the table and the picture, made if it is not there.

    Returns:
        Name of a head -> what `train` returned.

    Raises:
        KeyboardInterrupt: after the table of the heads that are done.
    """
    save_dir = pathlib.Path(save_dir)
    save_dir.mkdir(parents=True, exist_ok=True)
    print(f"Reading the corpus, {default.corpus} ...", flush=True)
    text = corpus.load(default.corpus, default.min_count, default.encoding)
    print(
        f"{len(text.train):,} training tokens, {len(text.words):,} classes; "
        f"{minutes:g} minutes for each head."
    )
    results = {}
    try:
        for i, (name, differences) in enumerate(choices.items(), 1):
            print(f"{name} ({i} of {len(choices)}) ...", flush=True)
            choice = dataclasses.replace(default, **differences)
            results[name] = train(choice, text, minutes)
            files.write_json(save_dir / "heads.json", results)
            keras.backend.clear_session()
    except KeyboardInterrupt:
        _show(save_dir, results)
        raise KeyboardInterrupt(
            f"{len(results)} of {len(choices)} heads were done."
        ) from None
    _show(save_dir, results)
    return results


def _show(save_dir, results):
    """Prints the table and draws the picture, if there is anything to show."""
    if results:
        print(f"\n{table(results)}", flush=True)
        compare_plot.draw(save_dir / "heads.svg", results)
