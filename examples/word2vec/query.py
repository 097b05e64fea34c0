r"""Shows the neighbours and scores of saved word vectors.

    bazel run //examples/word2vec:query -- --vectors=$PWD/vectors.bin \
        --neighbours=int,open --questions=$PWD/questions-words.txt

The vectors may be those of any program that writes word2vec's formats.
"""

import os
import sys

from examples.common import program
from examples.word2vec import answers, formats, ngrams, settings

flags = program.Flags()

flags.DEFINE_string(
    "vectors",
    os.path.join(settings.FOLDER, formats.FILES["binary"]),
    "A file in word2vec's binary or text format.",
)
flags.DEFINE_string(
    "ngrams",
    "",
    f"The file {ngrams.FILE} that training with --max_n has written beside "
    "them: the vectors of words that are not among --vectors.",
)
answers.define(flags)


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    values = flags.values.flag_values_dict()
    try:
        wanted = answers.Answers(values)
        path = os.path.join(program.folder(), values["vectors"])
        names, vectors = formats.read(path, wanted.limit)
        table = _ngrams(values["ngrams"], vectors.shape[1])
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    wanted.show(names, vectors, table)


def _ngrams(path, width):
    """Reads the `ngrams.Ngrams` of a path; None if it is empty."""
    if not path:
        return None
    table = ngrams.read(os.path.join(program.folder(), path))
    if table.vectors.shape[1] != width:
        raise ValueError(
            f"--ngrams={path}: has vectors of {table.vectors.shape[1]} "
            f"numbers, those of --vectors have {width}: give the file of the "
            "same run."
        )
    return table


if __name__ == "__main__":
    program.run(main, flags)
