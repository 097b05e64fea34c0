r"""Trains the same model with one head after another, for as long each.

    bazel run //:compare
    bazel run //:compare -- --minutes=5 --heads=full,huffman,adaptive

Prints a table, and writes it as `heads.json` and as a picture, `heads.svg`, to
--save_dir. Each head gets as many steps as fit into --minutes by the duration
of its first ones, with the learning rate falling over them to its end.
"""

import dataclasses
import json
import math
import os
import pathlib
import statistics
import sys
import time

import keras
from absl import app, flags

from examples.language_model import (
    batches,
    compare_plot,
    corpus,
    head_share,
    settings,
)
from examples.language_model import model as model_lib

# What is compared: a name, and the settings that differ from the default ones.
HEADS = {
    "full softmax": {"head": "full"},
    "sampled softmax": {"head": "sampled"},
    "two_level, any order": {"tree": "two_level_shuffled"},
    "two_level, by frequency": {"tree": "two_level"},
    "binary, balanced": {"tree": "binary"},
    "huffman, 2": {"tree": "huffman", "branching": 2},
    "huffman, 256": {"tree": "huffman", "branching": 256},
    "clustered, 256": {"tree": "clustered", "branching": 256},
    "adaptive": {"head": "adaptive"},
    "adaptive, two_level tails": {"head": "adaptive", "tail": "two_level"},
}

_MINUTES = flags.DEFINE_float(
    "minutes", 2.0, "How long each head is trained.", lower_bound=0.01
)
_HEADS = flags.DEFINE_list(
    "heads", list(HEADS), f"Which heads: beginnings of {'; '.join(HEADS)}."
)
_CORPUS = flags.DEFINE_string(
    "corpus",
    "stdlib",
    "The text, as for //:train; whole documents are held out.",
)
_UNITS = flags.DEFINE_integer(
    "units", settings.Settings.units, "Width of the model."
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", settings.Settings.batch_size, "Parallel streams."
)
_STEPS = flags.DEFINE_integer(
    "steps", settings.Settings.steps, "Tokens of a stream in one step."
)
_SAVE_DIR = flags.DEFINE_string(
    "save_dir", "lm_heads", "Folder for the table and the picture."
)

_WARM_UP, _TIMED = 3, 8


class _Clock(keras.callbacks.Callback):
    """Seconds of each step."""

    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self._begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.seconds.append(time.perf_counter() - self._begin)


def train(choice, text, minutes):
    """Trains one head, and returns what the table says of it.

    Args:
        choice: a `settings.Settings`.
        text: a `corpus.Corpus`.
        minutes: how long to train.

    Returns:
        A dict: "steps", "seconds" of training, "tokens_per_s", "head_ms",
        "held_out_perplexity", "parameters" of the head.
    """
    shape = (choice.batch_size, choice.steps)
    windows = batches.windows(text.train, *shape, "training text")
    held_out = batches.windows(text.held_out, *shape, "held-out text")
    trial, _ = _fit(choice, text, windows, _WARM_UP + _TIMED)
    step_seconds = statistics.median(trial[_WARM_UP:])
    num_steps = max(1, round(60 * minutes / step_seconds))
    seconds, model = _fit(choice, text, windows, num_steps)
    model_lib.reset_states(model)
    loss = model.evaluate(batches.dataset(*held_out), verbose=0)
    head = model.get_layer("head")
    step_seconds = statistics.median(seconds)
    return {
        "steps": num_steps,
        "seconds": sum(seconds),
        "tokens_per_s": choice.batch_size * choice.steps / step_seconds,
        "step_ms": 1e3 * step_seconds,
        "head_ms": head_share.head_ms(model, windows[0][0], windows[1][0]),
        "parameters": head.count_params(),
        "held_out_perplexity": math.exp(loss),
    }


def _fit(choice, text, windows, num_steps):
    """Returns the seconds of each step, and the model."""
    keras.utils.set_random_seed(choice.seed)
    model = model_lib.build(choice, text, num_steps)
    clock = _Clock()
    data = batches.dataset(*windows).repeat().take(num_steps)
    model.fit(data, shuffle=False, verbose=0, callbacks=[clock])
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
        f"{r['steps']:>8,}{r['seconds']:>9.0f}{r['head_ms']:>10.1f}{r['step_ms']:>10.1f}"
        f"{r['parameters']:>12,}"
        for name, r in results.items()
    )
    return "\n".join(lines)


def compare(names, default, minutes, save_dir):
    """Trains the heads in turn; what is done is written after each.

    Args:
        names: of `HEADS`.
        default: the `settings.Settings` that all have in common.
        minutes: how long to train each.
        save_dir: folder of the table and the picture, made if it is not there.

    Returns:
        Name of a head -> what `train` returned.
    """
    save_dir = pathlib.Path(save_dir)
    save_dir.mkdir(parents=True, exist_ok=True)
    text = corpus.load(default.corpus, default.min_count)
    print(
        f"{len(text.train):,} training tokens, {len(text.words):,} classes; "
        f"{minutes:g} minutes for each head."
    )
    results = {}
    for name in names:
        print(f"{name} ...", flush=True)
        choice = dataclasses.replace(default, **HEADS[name])
        results[name] = train(choice, text, minutes)
        (save_dir / "heads.json").write_text(json.dumps(results, indent=1))
        keras.backend.clear_session()
    print(table(results))
    compare_plot.draw(save_dir / "heads.svg", results)
    return results


def main(argv):
    """Reads the flags and compares."""
    if len(argv) > 1:
        raise app.UsageError(f"Not a flag: {argv[1]}")
    for wanted in _HEADS.value:
        if not any(name.startswith(wanted) for name in HEADS):
            raise app.UsageError(f"--heads: {wanted} begins no head's name.")
    folder = os.environ.get("BUILD_WORKING_DIRECTORY", os.getcwd())
    source = _CORPUS.value
    if source not in corpus.NAMED:
        source = os.path.join(folder, source)
    default = settings.Settings(
        corpus=source,
        units=_UNITS.value,
        batch_size=_BATCH_SIZE.value,
        steps=_STEPS.value,
    )
    names = [n for n in HEADS if any(map(n.startswith, _HEADS.value))]
    try:
        compare(
            names,
            default,
            _MINUTES.value,
            os.path.join(folder, _SAVE_DIR.value),
        )
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    app.run(main)
