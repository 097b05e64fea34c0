r"""Trains a next-token model with a hierarchical softmax on real text.

    bazel run //:train
    bazel run //:train -- --corpus=$PWD/book.txt --cell=gru --epochs=5
    bazel run //:train -- --head=sampled --save_dir=/tmp/sampled
    bazel run //:train -- --recipe=text8 --corpus=$PWD/text8

Writes the model, the vocabulary, the settings, the history and a training
curve to --save_dir after every epoch, and the model every --save_every steps
too. Ctrl-C ends it after the step at hand, and saves. After that, or after a
kill at any moment, the same command with --resume continues from the last of
these checkpoints and reaches the same result, to the last bit.
"""

import dataclasses
import os
import sys
import time

from examples.common import program
from examples.common import settings as settings_lib
from examples.corpora import text_flags
from examples.language_model import model_flags, recipe, settings

flags = program.Flags()

flags.DEFINE_enum(
    "recipe",
    None,
    recipe.NAMES,
    "Flags of a paper's model, which those given beside it override; what each "
    "is, its file in examples/language_model/recipes says.",
)
text_flags.define(flags)
model_flags.define(flags)
flags.DEFINE_string(
    "save_dir",
    settings.FOLDER,
    "Folder to write to, relative to where the command was given.",
)
flags.DEFINE_bool(
    "resume",
    False,
    "Continue the run in --save_dir; start one if nothing is saved there yet. "
    "Flags that are not given are as they were at its start. Among flags "
    "that change what is learned, only --epochs may have another value.",
)
flags.DEFINE_integer(
    "save_every",
    500,
    "Training steps between checkpoints within an epoch, about a minute's with "
    "the other flags' defaults; 0: only at the end of each epoch. A kill loses "
    "the steps since the last checkpoint.",
    lower_bound=0,
)
flags.DEFINE_float(
    "validate_every",
    0,
    "Seconds of training between validations within an epoch, which are "
    "written to history.json and, for TensorBoard, to the folder tensorboard; "
    "0: only at the end of each epoch.",
    lower_bound=0,
)
flags.DEFINE_float(
    "max_minutes",
    0,
    "Stop and save when so much time has passed since the start, with all that "
    "is done before the first step; 0: no limit. --resume continues.",
    lower_bound=0,
)


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    from examples.language_model import run

    values = flags.values.flag_values_dict()
    folder = program.folder()
    save_dir = os.path.join(folder, values["save_dir"])
    text_flags.absolute(values)
    if ".py:" in values["cell"]:
        values["cell"] = os.path.join(folder, values["cell"])
    try:
        with program.starts_within(values["max_minutes"]) as deadline:
            job = run.prepare(
                _settings(values, save_dir), save_dir, resume=values["resume"]
            )
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    with program.resumable():
        with program.interruption() as interrupted:
            job.train(
                deadline,
                values["save_every"],
                values["validate_every"],
                interrupted,
            )
        job.finish(deadline)
    print(f"{(time.monotonic() - program.START) / 60:.1f} minutes in all.")


def _settings(values, save_dir):
    """The `settings.Settings` of these flags, or of the run to resume."""
    from examples.language_model import checkpoint

    chosen = settings.Settings()
    if values["resume"] and checkpoint.exists(save_dir):
        chosen = checkpoint.load_run(save_dir).settings
    given = settings_lib.given(settings.Settings, values, flags)
    return dataclasses.replace(chosen, **given)


if __name__ == "__main__":
    program.run(main, flags, recipe.expand(sys.argv))
