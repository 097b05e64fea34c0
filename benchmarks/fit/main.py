"""Is a tree as good as the full softmax? After equal steps and equal time.

    bazel run //benchmarks:fit
    bazel run //benchmarks:fit -- --tasks=wordnet --steps=300 --seeds=1

Trains the same body with one head after another on the same batches. Each run
is written to results.json in --results at its end. The same command again goes
on from there. benchmarks/README.md says what is trained and measured.
"""

import dataclasses
import json
import os
import pathlib
import sys

from absl import app, flags

from benchmarks.common import command, count_flags, machine, name_flags
from benchmarks.fit import heads, measures, report, tasks, training
from examples.common import files

_TASKS = name_flags.define("tasks", tasks.MAKERS, "Tasks to train on.")
_HEADS = name_flags.define("heads", heads.LAYERS, "Heads to train.")
_MEASURES = name_flags.define("measures", measures.NAMES, "Tables to print.")
_SEEDS = count_flags.define("seeds", 3, "Runs of each head, with other seeds.")
_STEPS = count_flags.define("steps", 3000, "Training steps of each run.")
_EPOCHS = count_flags.define(
    "epochs",
    None,
    "Trains for whole epochs instead of --steps; the learning rate then falls "
    "to zero along a cosine.",
)
_BATCH = count_flags.define("batch", 128, "Examples in a step.")
_WIDTH = count_flags.define("width", 128, "Size of an embedding.")
_RATE = flags.DEFINE_float(
    "rate",
    None,
    "Learning rate of all heads; by default the one at which Dense with "
    "log-frequency biases is best, for each task.",
    lower_bound=0,
)
_RATES = flags.DEFINE_list(
    "rates", [], "Learning rates of some heads, such as dense:1e-3."
)
_CLOCK = flags.DEFINE_enum(
    "clock",
    "seconds",
    ["seconds", "cpu_seconds"],
    "The time that is equal: on the clock, or of all CPUs together, which "
    "other processes disturb less.",
)
_RESULTS_FOLDER = flags.DEFINE_string(
    "results", "fit_results", "Folder of results.json and the picture."
)
_RESULTS = "results.json"


def _parse_rates(entries):
    pairs = [entry.split(":") for entry in entries]
    return {head: float(rate) for head, rate in pairs}


def _are_rates(entries):
    try:
        return set(_parse_rates(entries)) <= set(heads.LAYERS)
    except ValueError:
        return False


flags.register_validator(
    "rates",
    _are_rates,
    "must be entries HEAD:RATE, each with the name of a head",
)


def main(_):
    """Trains what is not trained yet, and prints the tables."""
    threads = command.threads()
    machine.use_threads(threads)
    figures = command.Figures(threads)
    folder = pathlib.Path(_RESULTS_FOLDER.value)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _RESULTS
    results = json.loads(path.read_text()) if path.exists() else []
    shown = []
    try:
        for name in _TASKS.value:
            task = tasks.load(name)
            print(_description(name, task), flush=True)
            for settings in _all_settings(name, task):
                run = _find_or_train(name, task, settings, results, path)
                shown.append(run)
                figures.add("runs", run)
    except OSError as error:
        sys.exit(f"error: {error}")
    finally:
        _show(shown, folder)


def _all_settings(name, task):
    rates = _parse_rates(_RATES.value)
    rate = tasks.RATES[name] if _RATE.value is None else _RATE.value
    return [
        training.Settings(
            head=head,
            seed=seed,
            steps=0 if _EPOCHS.value else _STEPS.value,
            epochs=_EPOCHS.value or 0,
            batch=_BATCH.value,
            width=_WIDTH.value,
            rate=rates.get(head, rate),
            dropout=tasks.DROPOUT.get(name, 0.0),
        )
        for seed in range(_SEEDS.value)
        for head in _HEADS.value
        if heads.applies(head, task)
    ]


def _find_or_train(name, task, settings, results, path):
    """Returns an entry of `results`, which it may add."""
    key = {"task": name, **dataclasses.asdict(settings)}
    for run in results:
        if key.items() <= run.items():
            return run

    def progress(point):
        print(
            f"  {name}, {settings.head}, seed {settings.seed}: "
            f"{point['steps']:,} steps, {point['seconds']:.1f} s, "
            f"perplexity {point['perplexity']:,.1f}",
            flush=True,
        )

    load = os.getloadavg()[0]
    found = training.train(task, settings, progress)
    run = {**key, "optimum": task.optimum, "load_average": load, **found}
    results.append(run)
    files.write_json(path, results)
    return run


def _description(name, task):
    return (
        f"\n{name}: {task.num_classes:,} classes, {len(task.labels):,} "
        f"examples to train on, {len(task.held_out_labels):,} held out"
    )


def _show(runs, folder):
    for name in dict.fromkeys(run["task"] for run in runs):
        for measure in _MEASURES.value:
            of_task = [run for run in runs if run["task"] == name]
            text = report.table(name, of_task, measure, _CLOCK.value)
            print(f"\n{text}", flush=True)
    if runs:
        picture = report.draw(folder / "curves.png", runs, _CLOCK.value)
        print(f"\n{folder / _RESULTS}", picture or "", flush=True)


if __name__ == "__main__":
    app.run(main)
