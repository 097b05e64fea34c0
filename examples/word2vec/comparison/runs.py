"""Training runs that take turns, each in a process of its own."""

import dataclasses
import json
import pathlib
import subprocess
import sys
from typing import NamedTuple

import numpy as np

from examples.word2vec import settings
from examples.word2vec.comparison import files

PEER = "gensim"
_OURS = ("sgd", "rowwise_adagrad")
_ROOT = pathlib.Path(__file__).parents[3]


class Run(NamedTuple):
    """What came of one.

    Attributes:
        words_per_s: of the text, once the program has begun to train.
        loss: on the text held out, in nats per prediction.
        vectors: `[N, width]`, the most frequent word's first.
    """

    words_per_s: float
    loss: float
    vectors: np.ndarray


def all_runs(values, folder):
    """Trains the reference, then each implementation with each seed.

    Args:
        values: those of the flags of the command.
        folder: for files that nobody needs afterwards.

    Returns:
        Names to a list of `Run`, one per seed; the vectors of the reference.

    Raises:
        OSError: the corpus cannot be read.
        ValueError: it cannot be used, or a process failed.
    """
    names = {field.name for field in dataclasses.fields(settings.Settings)}
    given = {name: values[name] for name in values if name in names}
    num_words = files.write_text(folder, settings.Settings(**given))
    print(
        f"{num_words:,} words to train on. First the reference, "
        f"{values['reference_epochs']} epochs of {PEER} ...",
        flush=True,
    )

    def train(label, name, shuffled=False, **changes):
        spec = {
            "folder": str(folder),
            "num_words": num_words,
            "threads": values["threads"],
            "shuffled": shuffled,
            "settings": given | changes,
        }
        if name == PEER:
            run = _run("peer", values["python"], spec)
        else:
            spec["settings"]["optimizer"] = name
            run = _run("ours", sys.executable, spec)
        print(
            f"{label}: {run.words_per_s:,.0f} words/s, loss {run.loss:.4f}",
            flush=True,
        )
        return run

    seeds = range(1, values["seeds"] + 1)
    reference = train(
        "reference",
        PEER,
        shuffled=True,
        seed=len(seeds) + 1,
        epochs=values["reference_epochs"],
    )
    done = {name: [] for name in (PEER, *_OURS)}
    for seed in seeds:
        for name, runs in done.items():
            runs.append(train(f"{name}, seed {seed}", name, seed=seed))
    return done, reference.vectors


def _run(module, python, spec):
    command = [python, "-m", f"{__package__}.{module}", json.dumps(spec)]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise ValueError(f"{' '.join(command[:3])} failed, see above")
    with np.load(files.result(spec["folder"])) as result:
        return Run(
            float(result["words_per_s"]),
            float(result["loss"]),
            result["vectors"],
        )
