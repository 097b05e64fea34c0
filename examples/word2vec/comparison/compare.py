r"""Trains word vectors, ours and gensim's, on the same words.

    python3 -m venv ~/peers && ~/peers/bin/pip install gensim
    bazel run //examples/word2vec/comparison:compare -- \
        --python=$HOME/peers/bin/python --architecture=cbow

Prints for each how many words it learns from in a second; the loss on text that
it was not trained on, each model by its own tree; and the overlap: how many of
the ten nearest neighbours of a thousand frequent words are those that gensim
finds in --reference_epochs passes over the lines in another order. (Two runs
over the same order have more in common than what the text says.) All have a
processor of their own, or --threads of them; they take turns.
"""

import pathlib
import sys
import tempfile

from examples.common import program
from examples.corpora import text_flags
from examples.word2vec import model_flags, settings

flags = program.Flags()

_DEFAULT = settings.Settings(epochs=1)

text_flags.define(flags, _DEFAULT)
model_flags.define(flags, _DEFAULT)
flags.DEFINE_integer("epochs", _DEFAULT.epochs, "Passes over the text.")
flags.define_count(
    "reference_epochs",
    20,
    "Passes of gensim's, with whose neighbours all are compared.",
)
flags.define_count("seeds", 2, "Runs of each, with a seed of its own.")
flags.define_count(
    "threads",
    1,
    "Processors for each. With more than one, gensim is given lines by Python "
    "instead of a file: its threads would lower the learning rate too slowly.",
)
flags.DEFINE_string(
    "python", sys.executable, "The interpreter that has gensim, and NumPy."
)


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    from examples.word2vec.comparison import runs, table

    values = flags.values.flag_values_dict()
    text_flags.absolute(values)
    try:
        with tempfile.TemporaryDirectory() as folder:
            done, reference = runs.all_runs(values, pathlib.Path(folder))
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(table.text(done, reference))


if __name__ == "__main__":
    program.run(main, flags)
