r"""Trains a next-token model with a hierarchical softmax on real text.

    bazel run //:train
    bazel run //:train -- --corpus=$PWD/book.txt --cell=gru --epochs=5
    bazel run //:train -- --head=sampled --save_dir=/tmp/sampled

Writes the model, the vocabulary, the settings, the history and a training
curve to --save_dir after every epoch, and the model every --save_every steps
too. After a kill at any moment, the same command with --resume continues from
the last of these checkpoints and reaches the same result, to the last bit.
"""

import dataclasses
import math
import os
import sys
import time

from examples.common import program
from examples.common import settings as settings_lib
from examples.corpora import corpus, documents
from examples.language_model import settings

flags = program.Flags()

_DEFAULT = settings.Settings()

flags.DEFINE_string(
    "corpus",
    _DEFAULT.corpus,
    "The text to learn: a file, a folder (all its files but hidden ones), "
    "'stdlib' (the source of Python's standard library) or 'stdlib+tests'. One "
    "document in "
    f"{corpus.HELD_OUT_EVERY} is held out; a document is a file or, with few "
    "files, a hundredth of the text.",
)
flags.DEFINE_string(
    "encoding",
    _DEFAULT.encoding,
    "Encoding of the text, as Python names it, such as utf-16 or cp1251.",
)
flags.DEFINE_integer(
    "min_count",
    _DEFAULT.min_count,
    "Words seen fewer times in the training text become <unk>. At least 2, for "
    "<unk> to be learned from the words seen once.",
)
flags.DEFINE_enum(
    "head",
    _DEFAULT.head,
    settings.HEADS,
    "hierarchical: tf_hsm.layers.HierarchicalSoftmax. adaptive: "
    "tf_hsm.layers.AdaptiveSoftmax with cutoffs that are chosen by their cost. "
    "full: one softmax over "
    "all classes; exact and slow. sampled: tf.nn.sampled_softmax_loss in "
    "training, the full softmax in evaluation.",
)
flags.DEFINE_enum(
    "tree",
    _DEFAULT.tree,
    settings.TREES,
    "Tree of the hierarchical head. two_level: about sqrt(N) groups of sqrt(N) "
    "classes that are about as frequent; two_level_shuffled: any classes. "
    "balanced, clustered and huffman: groups of --branching classes, in order "
    "of frequency, or that follow the same words, or with short paths for the "
    "frequent ones. binary: balanced with groups of 2. flat: one group, which "
    "is a full softmax.",
)
flags.DEFINE_integer(
    "branching",
    _DEFAULT.branching,
    "Size of a group in --tree=balanced, clustered and huffman.",
)
flags.DEFINE_enum(
    "tail",
    _DEFAULT.tail,
    settings.TAILS,
    "Each tail of --head=adaptive: one group, or a two_level tree.",
)
flags.DEFINE_bool(
    "frequency_biases",
    _DEFAULT.frequency_biases,
    "Whether the head's biases begin at the log-frequencies of the classes, "
    "instead of zero.",
)
flags.DEFINE_integer(
    "num_sampled",
    _DEFAULT.num_sampled,
    "Classes sampled per step with --head=sampled.",
)
flags.DEFINE_enum(
    "cell", _DEFAULT.cell, settings.CELLS, "Recurrent cell of the body."
)
flags.DEFINE_integer("layers", _DEFAULT.layers, "Recurrent layers.")
flags.DEFINE_integer(
    "units",
    _DEFAULT.units,
    "Size of the embedding, of each recurrent layer and of the head's inputs.",
)
flags.DEFINE_float(
    "dropout",
    _DEFAULT.dropout,
    "Share of a layer's inputs set to zero in training.",
)
flags.DEFINE_integer(
    "batch_size",
    _DEFAULT.batch_size,
    "Parallel streams into which the text is cut.",
)
flags.DEFINE_integer(
    "steps",
    _DEFAULT.steps,
    "Tokens of a stream in one training step. The recurrent state lasts to the "
    "next step, the gradient does not.",
)
flags.DEFINE_integer("epochs", _DEFAULT.epochs, "Passes over the text.")
flags.DEFINE_float(
    "learning_rate",
    _DEFAULT.learning_rate,
    "Adam's rate at the start; it falls along a cosine to a twentieth.",
)
flags.DEFINE_integer("seed", _DEFAULT.seed, "Seed of all random numbers.")
flags.DEFINE_string(
    "save_dir",
    settings.FOLDER,
    "Folder to write to, relative to where the command was given.",
)
flags.DEFINE_bool(
    "resume",
    False,
    "Continue the run in --save_dir; start one if nothing is saved there yet. "
    "Flags that are not given are as they were at its start. Of those that "
    "change what is learned, only --epochs may be given another value.",
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
    if values["corpus"] not in documents.NAMED:
        values["corpus"] = os.path.join(folder, values["corpus"])
    minutes = values["max_minutes"]
    deadline = program.START + 60 * minutes if minutes else math.inf
    message = (
        f"--max_minutes={minutes:g} is over before the first step: give more "
        "minutes, or less text."
    )
    try:
        with program.ends_at(deadline, message):
            job = run.prepare(
                _settings(values, save_dir), save_dir, resume=values["resume"]
            )
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    try:
        job.train(deadline, values["save_every"])
        job.finish(deadline)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "The same command with --resume continues."
        ) from None
    except FloatingPointError as error:
        sys.exit(f"\nerror: {error}")
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
    program.run(main, flags)
