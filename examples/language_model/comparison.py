"""Trains the same model with one head after another, for exactly as long each.

The time is the time of training steps: building the graph and validation do not
count. The learning rate falls with the time, not with the steps, so that no
head has to be timed before it is trained.
"""

import dataclasses
import json
import math
import os
import pathlib
import statistics

import keras
import tensorflow as tf

from examples.common import files
from examples.common.progress import Progress
from examples.corpora import corpus
from examples.language_model import (
    batches,
    callbacks,
    compare_plot,
    head_share,
    optimization,
    recurrent,
)
from examples.language_model import model as model_lib

RESULTS = "heads.json"

_VALIDATIONS = 12
_VALIDATION_TOKENS = 50_000
_BUSY = 0.5  # processes that run or wait to, beside this one
_COLUMNS = (
    # title, key, width, format
    ("test", "test_perplexity", 10, ".1f"),
    ("valid", "validation_perplexity", 9, ".1f"),
    ("tokens/s", "tokens_per_s", 10, ",.0f"),
    ("steps", "steps", 8, ",.0f"),
    ("seconds", "seconds", 9, ".1f"),
    ("head, ms", "head_ms", 10, ".1f"),
    ("step, ms", "step_ms", 10, ".1f"),
    ("CPU, ms", "processor_ms", 10, ".1f"),
    ("parameters", "parameters", 13, ",.0f"),
)


class OfTime(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of `optimization.rate` by the share of the time.

    Attributes:
        share: A variable: the share of the time that has passed.
    """

    _STEPS = 10_000

    def __init__(self, settings):
        """Makes the schedule of a `settings.Settings`."""
        self._rate = optimization.rate(settings, self._STEPS)
        self.share = tf.Variable(0.0, trainable=False)

    def __call__(self, step):
        """Returns the learning rate now."""
        del step
        if not callable(self._rate):
            return self._rate
        return self._rate(self.share * self._STEPS)


def train(choice, text, minutes, title):
    """Trains one head, and returns its results.

    Args:
        choice: A `settings.Settings`.
        text: A `corpus.Corpus`.
        minutes: The time of training steps.
        title: The title of the progress.

    Returns:
        A dict: "steps", "seconds" of training, "tokens_per_s", "step_ms",
        "processor_ms" (of a step, on all processors together), "head_ms" (None
        where it is unknown), "parameters" of the head, "curve" (pairs of
        seconds and the perplexity on the first tokens of the part valid),
        "validation_perplexity" and "test_perplexity" on the whole parts at the
        end.
    """
    keras.utils.set_random_seed(choice.seed)
    windows = batches.of_parts(text, choice)
    tokens_per_step = choice.batch_size * choice.steps
    schedule = OfTime(choice)
    model = model_lib.build(choice, text, schedule)
    clock, curve, seconds = callbacks.Clock(), [], 60 * minutes
    progress = Progress(title, seconds, "tokens")
    some = range(len(windows["valid"]))[
        : math.ceil(_VALIDATION_TOKENS / tokens_per_step)
    ]

    def validate():
        with callbacks.unnoticed(model):
            perplexity = _perplexity(model, windows["valid"], some)
        curve.append((clock.seconds, perplexity))

    def is_over():
        share = min(clock.seconds / seconds, 1)
        progress.add(seconds * (share - float(schedule.share)), tokens_per_step)
        schedule.share.assign(share)
        return share == 1

    validate()
    model.fit(
        windows["train"].dataset().repeat(),
        # As long as the time lasts.
        steps_per_epoch=10**9,
        shuffle=False,
        verbose=0,
        callbacks=[
            clock,
            callbacks.Every(seconds / _VALIDATIONS, clock, validate),
            callbacks.StopIf(is_over),
        ],
    )
    if curve[-1][0] < clock.seconds:
        validate()
    num_timed = max(clock.steps, 1)
    step_ms = 1e3 * clock.seconds / num_timed
    processor_ms = 1e3 * clock.processor_seconds / num_timed
    share = head_share.head_share(model, *windows["train"][0], processor_ms)
    return {
        "steps": int(model.optimizer.iterations),
        "seconds": clock.seconds,
        "tokens_per_s": 1e3 * tokens_per_step / step_ms,
        "step_ms": step_ms,
        "processor_ms": processor_ms,
        "head_ms": share and share * step_ms,
        "parameters": model.get_layer("head").count_params(),
        "curve": curve,
        "validation_perplexity": _perplexity(model, windows["valid"]),
        "test_perplexity": _perplexity(model, windows["test"]),
    }


def _perplexity(model, windows, indices=None):
    recurrent.reset_states(model)
    logs = model.evaluate(windows.dataset(indices), verbose=0, return_dict=True)
    return math.exp(model_lib.text_loss(logs))


def compare(choices, default, minutes, save_dir, num_seeds=1, resume=False):
    """Trains the heads in turn, and writes the results after each.

    Args:
        choices: Name of a head -> the settings that differ from the default.
        default: The `settings.Settings` that all have in common.
        minutes: How long to train each.
        save_dir: The folder of the results; made if it is missing.
        num_seeds: How often each head is trained, from other random numbers.
        resume: Whether to keep the results of an equal comparison in
            `save_dir`.

    Returns:
        Name of a head -> a list of results of `train`, one for each seed.

    Raises:
        KeyboardInterrupt: After the table of the heads that are done.
        ValueError: The comparison to resume has other settings.
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
            print(f"{name}, seed {seed} ({i} of {len(runs)})", flush=True)
            choice = dataclasses.replace(default, **choices[name], seed=seed)
            done.append(train(choice, text, minutes, name))
            files.write_json(save_dir / RESULTS, about | {"heads": results})
            keras.backend.clear_session()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{sum(map(len, results.values()))} of {len(runs)} runs were done; "
            "the same command with --resume continues."
        ) from None
    finally:
        results = {name: runs for name, runs in results.items() if runs}
        if results:
            print(f"\n{table(results)}", flush=True)
            compare_plot.curves(save_dir / "perplexity.png", results)
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


def table(results):
    """Returns the medians over the seeds, and the range of test perplexities.

    Args:
        results: Name of a head -> a list of results of `train`.
    """
    titles = "".join(f"{title:>{width}}" for title, _, width, _ in _COLUMNS)
    lines = [f"{'head':<26}{titles}"]
    for name, runs in results.items():
        cells = []
        for _, key, width, form in _COLUMNS:
            values = [run[key] for run in runs if run[key] is not None]
            text = format(statistics.median(values), form) if values else "-"
            cells.append(f"{text:>{width}}")
        if len(runs) > 1:
            values = [run["test_perplexity"] for run in runs]
            cells.append(f"   test {min(values):.1f} to {max(values):.1f}")
        lines.append(f"{name:<26}{''.join(cells)}")
    lines.append("Medians over the seeds; test, valid: perplexities.")
    return "\n".join(lines)
