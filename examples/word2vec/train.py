r"""Trains word vectors with a hierarchical softmax, as word2vec does.

    bazel run //:word2vec -- --corpus=$PWD/text.txt
    bazel run //:word2vec -- --architecture=cbow --neighbours=int,open
    bazel run //:word2vec -- --corpus=$PWD/text.txt --optimizer=sgd --width=300

Writes the vectors to --save_dir in the format of word2vec, and shows the
nearest neighbours of some words. Ctrl-C ends it after the step at hand, and
saves. After that, or after a kill at any moment, the same command with --resume
continues from the last checkpoint.
"""

import os
import sys
import time

from examples.common import program
from examples.common import settings as settings_lib
from examples.corpora import text_flags
from examples.word2vec import answers, formats, model_flags, settings

flags = program.Flags()

_DEFAULT = settings.Settings()

text_flags.define(flags, _DEFAULT)
flags.DEFINE_enum(
    "sentences",
    _DEFAULT.sentences,
    settings.SENTENCES,
    "What ends a sentence, past which no window reaches: a line break, as in "
    "word2vec, or only the end of a document, for text with broken lines.",
)
model_flags.define(flags, _DEFAULT)
flags.DEFINE_integer(
    "branching",
    _DEFAULT.branching,
    "Children of a node of the Huffman tree; 2 in word2vec.",
)
flags.DEFINE_enum(
    "optimizer",
    _DEFAULT.optimizer,
    settings.OPTIMIZERS,
    "Of tf_hsm.optimizers; sgd is word2vec's.",
)
flags.DEFINE_float(
    "learning_rate",
    _DEFAULT.learning_rate,
    "At the start; it falls linearly to a ten-thousandth. 0: 0.3, or with "
    "--optimizer=sgd word2vec's: 0.025 for skip_gram, 0.05 for cbow.",
)
flags.DEFINE_integer(
    "batch_size",
    _DEFAULT.batch_size,
    "Predictions in one step, whose changes are added up. 0: 4096, or 256 with "
    "--optimizer=sgd, which diverges with more.",
)
flags.DEFINE_integer("epochs", _DEFAULT.epochs, "Passes over the text.")
flags.DEFINE_integer("seed", _DEFAULT.seed, "Seed of all random numbers.")
flags.DEFINE_integer(
    "max_n",
    _DEFAULT.max_n,
    "Characters of the longest n-grams that a word's vector is the mean of, "
    "with one of its own, as in fastText, whose default is 6. 0: no n-grams.",
)
flags.DEFINE_integer(
    "min_n",
    _DEFAULT.min_n,
    "Characters of the shortest n-grams. 0: 3, or --max_n if that is less.",
)
flags.DEFINE_integer(
    "buckets",
    _DEFAULT.buckets,
    "Vectors that n-grams share by their hashes; only those that words of the "
    "text have are in memory. 0: 2,000,000.",
)
flags.DEFINE_string(
    "save_dir",
    settings.FOLDER,
    "Folder to write to, relative to where the command was given.",
)
flags.DEFINE_list(
    "formats",
    ["binary"],
    "In which the vectors are written, with commas between them: binary and "
    "text are word2vec's, gensim is that of its KeyedVectors.save.",
)
flags.DEFINE_bool(
    "resume",
    False,
    "Continue the run in --save_dir; start one if nothing is saved there yet. "
    "Flags that are not given are as they were at its start.",
)
flags.DEFINE_float(
    "save_minutes",
    5,
    "Minutes between checkpoints; a kill loses what was done since the last.",
    lower_bound=0,
)
flags.DEFINE_float(
    "max_minutes",
    0,
    "Stop and save when so much time has passed since the start; 0: no limit. "
    "--resume continues.",
    lower_bound=0,
)
answers.define(flags)


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    from examples.word2vec import run, tables

    values = flags.values.flag_values_dict()
    save_dir = os.path.join(program.folder(), values["save_dir"])
    text_flags.absolute(values)
    try:
        formats.check(values["formats"])
        wanted = answers.Answers(values)
        with program.starts_within(values["max_minutes"]) as deadline:
            job = run.prepare(
                _settings(values, save_dir), save_dir, values["resume"]
            )
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    with program.resumable(), program.interruption() as interrupted:
        job.train(deadline, values["save_minutes"], interrupted)
    job.write(values["formats"])
    names = job.text.words[: wanted.limit]
    vectors = tables.first_rows(job.model.vectors, len(names), job.model.bags)
    wanted.show(names, vectors, job.ngrams())
    print(f"{(time.monotonic() - program.START) / 60:.1f} minutes in all.")


def _settings(values, save_dir):
    """The `settings.Settings` of these flags, or of the run to resume."""
    from examples.word2vec import checkpoint

    given = settings_lib.given(settings.Settings, values, flags)
    if values["resume"] and checkpoint.exists(save_dir):
        before = checkpoint.load(save_dir).settings
        return settings.Settings(**{**vars(before), **given})
    return settings.Settings(**given)


if __name__ == "__main__":
    program.run(main, flags)
