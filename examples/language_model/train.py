r"""Trains a next-token model with a hierarchical softmax on real text.

    bazel run //:train
    bazel run //:train -- --corpus=$PWD/book.txt --cell=gru --epochs=5
    bazel run //:train -- --head=sampled --save_dir=/tmp/sampled
    bazel run //:train -- --body=transformer --tree=flat --tied

Writes the model, the vocabulary, the settings and the history to --save_dir
after every epoch, and the model every --save_every steps too. Ctrl-C ends it
after the step at hand, and saves. After that, or after a kill at any moment,
the same command with --resume continues from the last of these checkpoints and
reaches the same result, to the last bit.
"""

import dataclasses
import math
import sys
import time

from examples.common import program
from examples.common import settings as settings_lib
from examples.language_model import settings

flags = program.Flags()

settings_lib.define(flags, settings.Settings)
_SAVE_DIR = flags.DEFINE_string(
    "save_dir", settings.FOLDER, "Folder to write to."
)
_RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Continue the run in --save_dir; start one if nothing is saved there yet. "
    "Flags that are not given are as they were at its start. Among flags "
    "that change what is learned, only --epochs may have another value.",
)
_SAVE_EVERY = flags.DEFINE_integer(
    "save_every",
    500,
    "Training steps between checkpoints within an epoch, about a minute's with "
    "the other flags' defaults; 0: only at the end of each epoch. A kill loses "
    "the steps since the last checkpoint.",
    lower_bound=0,
)
_MAX_MINUTES = flags.DEFINE_float(
    "max_minutes",
    0,
    "Stop and save when training has taken so much time; 0: no limit. --resume "
    "continues.",
    lower_bound=0,
)


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    from examples.language_model import checkpoint, run

    try:
        given = settings_lib.given(settings.Settings, flags)
        if _RESUME.value and checkpoint.exists(_SAVE_DIR.value):
            before = checkpoint.load_run(_SAVE_DIR.value)[0].settings
            chosen = dataclasses.replace(before, **given)
        else:
            chosen = settings.Settings(**given)
        job = run.prepare(chosen, _SAVE_DIR.value, _RESUME.value)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    minutes = _MAX_MINUTES.value or math.inf
    deadline = time.monotonic() + 60 * minutes
    try:
        with program.interruption() as interrupted:
            job.train(
                _SAVE_EVERY.value,
                lambda: interrupted() or time.monotonic() >= deadline,
            )
    except FloatingPointError as error:
        sys.exit(f"error: {error}")
    saved = (
        f"The run is saved, {job.place()}. The same command with --resume "
        "continues."
    )
    if interrupted():
        raise KeyboardInterrupt(saved)
    if len(job.state.history) < chosen.epochs:
        print(f"--max_minutes is over. {saved}")
    job.finish()


if __name__ == "__main__":
    program.run(main, flags)
