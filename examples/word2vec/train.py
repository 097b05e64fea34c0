r"""Trains word vectors with a hierarchical softmax, as word2vec does.

    bazel run //:word2vec -- --corpus=$PWD/text.txt
    bazel run //:word2vec -- --architecture=cbow --neighbours=int,open
    bazel run //:word2vec -- --corpus=$PWD/text.txt --optimizer=sgd --width=300

Writes the vectors to --save_dir in the format of word2vec, and shows the
nearest neighbours of some words. Ctrl-C ends it after the step at hand, and
saves. After that, or after a kill at any moment, the same command with --resume
continues from the last checkpoint.
"""

import dataclasses
import math
import sys
import time

from examples.common import program
from examples.common import settings as settings_lib
from examples.word2vec import neighbours, settings

flags = program.Flags()

settings_lib.define(flags, settings.Settings)
_SAVE_DIR = flags.DEFINE_string(
    "save_dir", settings.FOLDER, "Folder to write to."
)
_RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Continue the run in --save_dir; start one if nothing is saved there yet. "
    "Flags that are not given are as they were at its start.",
)
_SAVE_MINUTES = flags.DEFINE_float(
    "save_minutes",
    5,
    "Minutes between checkpoints; a kill loses what was done since the last.",
    lower_bound=0,
)
_MAX_MINUTES = flags.DEFINE_float(
    "max_minutes",
    0,
    "Stop and save when training has taken so much time; 0: no limit. --resume "
    "continues.",
    lower_bound=0,
)
_NEIGHBOURS = flags.DEFINE_list(
    "neighbours",
    [],
    "Words whose nearest neighbours (by cosine) are shown; by default some "
    "frequent words.",
)
_COUNT = flags.define_count("num_neighbours", 8, "Neighbours of each word.")


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    from examples.word2vec import run

    try:
        chosen = chosen_settings(_SAVE_DIR.value, _RESUME.value)
        job = run.prepare(chosen, _SAVE_DIR.value, _RESUME.value)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    minutes = _MAX_MINUTES.value or math.inf
    deadline = time.monotonic() + 60 * minutes
    with program.resumable(), program.interruption() as interrupted:
        job.train(
            60 * _SAVE_MINUTES.value,
            lambda: interrupted() or time.monotonic() >= deadline,
        )
        place = f"after {job.state.words_done:,} of {job.num_words:,} words"
        if interrupted():
            raise KeyboardInterrupt(f"The run is saved {place}.")
    if job.state.epochs_done < chosen.epochs:
        print(
            f"--max_minutes is over {place}. The run is saved; the same "
            "command with --resume continues."
        )
    vectors = job.write()
    print("Nearest neighbours and their cosines:")
    print(
        neighbours.table(
            job.text.words, vectors, _NEIGHBOURS.value, _COUNT.value
        )
    )


def chosen_settings(save_dir, resume):
    """Returns the `settings.Settings` of the flags, or of a run to resume."""
    from examples.word2vec import checkpoint

    given = settings_lib.given(settings.Settings, flags)
    if resume and checkpoint.exists(save_dir):
        return dataclasses.replace(checkpoint.load(save_dir).settings, **given)
    return settings.Settings(**given)


if __name__ == "__main__":
    program.run(main, flags)
