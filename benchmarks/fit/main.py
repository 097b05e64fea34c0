"""Is a tree as good as the full softmax? After equal steps and equal time.

    bazel run //benchmarks:fit
    bazel run //benchmarks:fit -- --tasks=synthetic --steps=300 --seeds=1

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

from benchmarks.common import command, define, machine
from benchmarks.fit import heads, measures, report, tasks, training

_TASKS = define.names("tasks", tasks.MAKERS, "Tasks to train on.")
_HEADS = define.names("heads", heads.NAMES, "Heads to train.")
_SEEDS = define.count("seeds", 3, "Runs of each head, with other seeds.")
_STEPS = define.count("steps", 3000, "Training steps of each run.")
_EPOCHS = define.count(
    "epochs",
    None,
    "Trains for whole epochs instead of --steps; the learning rate then falls "
    "to zero along a cosine.",
)
_BATCH = define.count("batch", 128, "Examples in a step.")
_WIDTH = define.count("width", 128, "Size of an embedding.")
_RATE = flags.DEFINE_float(
    "rate",
    None,
    "Learning rate of all heads; by default the one at which Dense with "
    "log-frequency biases is best, for each task.",
    lower_bound=0,
)
_RESULTS_FOLDER = flags.DEFINE_string(
    "results", "fit_results", "Folder of results.json."
)


def main(_):
    """Trains what is not trained yet, and prints the tables."""
    threads = command.threads()
    machine.use_threads(threads)
    figures = command.Figures(threads)
    folder = pathlib.Path(_RESULTS_FOLDER.value)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    results = json.loads(path.read_text()) if path.exists() else []
    shown = []
    try:
        for name in _TASKS.value:
            task = tasks.load(name)
            print(_description(name, task), flush=True)
            for settings in _all_settings(name):
                run = _find_or_train(name, task, settings, results, path)
                shown.append(run)
                figures.add("runs", run)
    except OSError as error:
        sys.exit(f"error: {error}")
    finally:
        _show(shown, path)


def _all_settings(name):
    rate = tasks.RATES[name] if _RATE.value is None else _RATE.value
    return [
        training.Settings(
            head=head,
            seed=seed,
            steps=0 if _EPOCHS.value else _STEPS.value,
            epochs=_EPOCHS.value or 0,
            batch=_BATCH.value,
            width=_WIDTH.value,
            rate=rate,
        )
        for seed in range(_SEEDS.value)
        for head in _HEADS.value
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
            f"{point['steps']:,} steps, {point['cpu_seconds']:.1f} s, "
            f"perplexity {point['perplexity']:,.1f}",
            flush=True,
        )

    load = os.getloadavg()[0]
    found = training.train(task, settings, progress)
    run = {**key, "optimum": task.optimum, "load_average": load, **found}
    results.append(run)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(results, indent=1) + "\n")
    unfinished.rename(path)
    return run


def _description(name, task):
    return (
        f"\n{name}: {task.num_classes:,} classes, {len(task.labels):,} "
        f"examples to train on, {len(task.held_out_labels):,} held out"
    )


def _show(runs, path):
    for name in dict.fromkeys(run["task"] for run in runs):
        for measure in measures.NAMES:
            of_task = [run for run in runs if run["task"] == name]
            text = report.table(name, of_task, measure)
            print(f"\n{text}", flush=True)
    if runs:
        print(f"\n{path}", flush=True)


if __name__ == "__main__":
    app.run(main)
