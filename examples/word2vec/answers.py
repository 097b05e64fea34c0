"""The flags for what is shown of vectors, and what is shown."""

import os

from examples.common import program
from examples.word2vec import neighbours, questions

_EXAMPLES = 8


def define(flags):
    """Adds the flags to a `program.Flags`."""
    flags.DEFINE_list(
        "neighbours",
        [],
        "Words, with commas between them, whose nearest neighbours (by cosine) "
        "are shown; by default those of some frequent words.",
    )
    flags.define_count("num_neighbours", 8, "Neighbours of each word.")
    flags.DEFINE_string(
        "questions",
        "",
        "A file of analogies in the format of word2vec's questions-words.txt, "
        "to be scored.",
    )
    flags.DEFINE_integer(
        "restrict",
        300_000,
        "Only so many of the most frequent words are neighbours and answers; "
        "questions with another word are skipped. 0: all.",
        lower_bound=0,
    )
    flags.DEFINE_bool(
        "lowercase",
        False,
        "Whether words and questions are compared in lower case.",
    )


class Answers:
    """What the flags ask for."""

    def __init__(self, values):
        """Reads the file of questions.

        Args:
            values: a dict with a value for each flag.

        Raises:
            OSError, ValueError: the file cannot be read.
        """
        self._values = values
        self._sections = []
        if values["questions"]:
            path = os.path.join(program.folder(), values["questions"])
            self._sections = questions.read(path)

    @property
    def limit(self):
        """How many words are looked at; None: all."""
        return self._values["restrict"] or None

    def show(self, names, vectors, ngrams=None):
        """Prints neighbours and scores.

        Args:
            names: words, most frequent first.
            vectors: `[N, width]` float32; changed.
            ngrams: an `ngrams.Ngrams`, for neighbours of other words.
        """
        words = neighbours.Words(names, vectors)
        sections = self._sections
        asked = self._values["neighbours"]
        if self._values["lowercase"]:
            words = questions.lower(words)
            asked = [name.lower() for name in asked]
            sections = [
                questions.Section(
                    s.name, [tuple(map(str.lower, q)) for q in s.questions]
                )
                for s in sections
            ]
        print("Nearest neighbours and their cosines:")
        asked = asked or words.examples(_EXAMPLES)
        count = self._values["num_neighbours"]
        print(neighbours.table(words, asked, count, ngrams))
        if sections:
            print("Analogies, questions answered right:")
            print(questions.report(questions.score(words, sections)))
