"""Analogies: a is to b as c is to which word?

The format is that of word2vec's questions-words.txt: sections begin with a line
": name", a question is a line of four words, and the fourth is the answer.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from examples.word2vec import neighbours

_SCORES = 1 << 24  # in memory at once


class Section(NamedTuple):
    """A section of the file.

    Attributes:
        name: of the section.
        questions: tuples of four words.
    """

    name: str
    questions: list[tuple[str, ...]]


@dataclasses.dataclass
class Score:
    """How many questions of a section were answered well.

    Attributes:
        name: of the section.
        right: questions whose fourth word was found.
        asked: questions whose words are all known.
        skipped: the others.
    """

    name: str
    right: int
    asked: int
    skipped: int


def read(path):
    """Returns the `Section`s of a file; those without a question too.

    Raises:
        OSError: there is no such file.
        ValueError: a line is neither a section nor a question, or there is no
            question.
    """
    sections = []
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.readlines()
    except UnicodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}.") from None
    for number, line in enumerate(lines, 1):
        words = tuple(line.split())
        if words[:1] == (":",):
            sections.append(Section(" ".join(words[1:]), []))
        elif len(words) == 4:
            if not sections:
                sections.append(Section("", []))
            sections[-1].questions.append(words)
        elif words:
            raise ValueError(
                f"{path}, line {number}: neither a section, ': name', nor "
                f"a question of four words: {line.strip()!r}."
            )
    if not any(section.questions for section in sections):
        raise ValueError(f"{path} has no question.")
    return sections


def lower(words):
    """The `neighbours.Words` in lower case.

    Among words that become equal, the most frequent one stays.
    """
    places = {}
    for place, name in enumerate(words.names):
        places.setdefault(name.lower(), place)
    return neighbours.Words(places, words.unit[list(places.values())])


def score(words, sections):
    """Answers the questions by 3CosAdd; returns a `Score` per section.

    The answer is the word d, none of the three given ones, whose vector has the
    largest cosine with b - a + c (Mikolov, Yih and Zweig, 2013: Linguistic
    Regularities in Continuous Space Word Representations). A question with a
    word that is not among `words` is skipped.

    Args:
        words: a `neighbours.Words`.
        sections: a list of `Section`.
    """
    scores = []
    for section in sections:
        known = [
            [words.index[word] for word in question]
            for question in section.questions
            if all(word in words.index for word in question)
        ]
        right = 0
        step = max(1, _SCORES // len(words.names))
        for begin in range(0, len(known), step):
            given, answers = np.split(
                np.array(known[begin : begin + step]), [3], 1
            )
            a, b, c = (words.unit[place] for place in given.T)
            cosines = (b - a + c) @ words.unit.T
            np.put_along_axis(cosines, given, -np.inf, 1)
            right += int((cosines.argmax(1) == answers[:, 0]).sum())
        scores.append(
            Score(
                name=section.name,
                right=right,
                asked=len(known),
                skipped=len(section.questions) - len(known),
            )
        )
    return scores


def report(scores):
    """The scores as text, with a last line for all sections together."""
    total = Score(
        name="in all",
        right=sum(s.right for s in scores),
        asked=sum(s.asked for s in scores),
        skipped=sum(s.skipped for s in scores),
    )
    width = max(len(s.name) for s in [*scores, total])
    return "\n".join(
        f"  {s.name:{width}}  "
        + (f"{s.right / s.asked:6.1%}" if s.asked else "     -")
        + f"  {s.right:,} of {s.asked:,}"
        + (f", {s.skipped:,} skipped for unknown words" if s.skipped else "")
        for s in [*scores, total]
    )
