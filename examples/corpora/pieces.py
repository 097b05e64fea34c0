"""Documents as ranges of bytes in files, and where these may be cut."""

import dataclasses
import itertools
import re

# A longer stretch without white space is no text.
LONGEST_WORD = 1 << 20

_SPACE_AFTER_WORD = re.compile(rb"(?<=[^ \t\n\r])[ \t]")


@dataclasses.dataclass(frozen=True)
class Document:
    """A text, a range of bytes of a file in UTF-8.

    Attributes:
        name: what the choice of held-out documents depends on.
        path: of the file.
        begin: offset of its first byte.
        end: offset behind its last byte.
    """

    name: str
    path: str
    begin: int
    end: int

    @property
    def size(self):
        """Bytes."""
        return self.end - self.begin


@dataclasses.dataclass(frozen=True)
class Span:
    """A part of a document that is read at once.

    Attributes:
        path: of the file.
        begin: offset of its first byte.
        end: offset behind its last byte.
        is_last: whether the document ends here.
    """

    path: str
    begin: int
    end: int
    is_last: bool


def cut(document, num_parts, whole_lines):
    """Returns the offsets at which a document falls into about equal parts.

    The tokens of the parts are those of the whole: a cut is at a line break,
    or, if there is none in `LONGEST_WORD` bytes or in the rest, before a space
    that follows a word.

    Args:
        document: a `Document`.
        num_parts: how many parts; there are fewer if the lines are long.
        whole_lines: whether a line break belongs to the line before it, instead
            of the one after.

    Returns:
        Ascending offsets, the first being `document.begin`, the last
        `document.end`.

    Raises:
        ValueError: a word is longer than `LONGEST_WORD` bytes.
    """
    offsets = [document.begin]
    with open(document.path, "rb") as file:
        for i in range(1, num_parts):
            place = document.begin + document.size * i // num_parts
            if place <= offsets[-1]:
                continue
            found = _next_cut(file, document.path, place, whole_lines)
            if offsets[-1] < found < document.end:
                offsets.append(found)
    return [*offsets, document.end]


def _next_cut(file, path, place, whole_lines):
    """The first offset behind `place` where a text can be cut, or its end."""
    file.seek(place)
    data = file.read(LONGEST_WORD)
    # One that ends the text divides nothing.
    newline = data.find(b"\n", 1, -1)
    if newline > 0:
        if whole_lines:
            return place + newline + 1
        # \r\n is one line break.
        return place + newline - (data[newline - 1 : newline] == b"\r")
    space = _SPACE_AFTER_WORD.search(data)
    if not space:
        if len(data) < LONGEST_WORD:
            return place + len(data)
        raise ValueError(
            f"{path} has no white space in the {LONGEST_WORD:,} bytes from "
            f"offset {place}: that is no text of words."
        )
    return place + space.start()


def spans(document, largest, whole_lines):
    """Returns the `Span`s of a document, each of about `largest` bytes."""
    num_parts = -(-document.size // largest)
    offsets = cut(document, num_parts, whole_lines)
    return [
        Span(document.path, begin, end, end == document.end)
        for begin, end in itertools.pairwise(offsets)
    ]


def chunks(documents, largest, whole_lines):
    """Yields tuples of `Span`s, each of about `largest` bytes together."""
    gathered, size = [], 0
    for document in documents:
        for span in spans(document, largest, whole_lines):
            gathered.append(span)
            size += span.end - span.begin
            if size >= largest:
                yield tuple(gathered)
                gathered, size = [], 0
    if gathered:
        yield tuple(gathered)


def blocks(documents, num_blocks, whole_lines):
    """Cuts documents into about `num_blocks` smaller ones."""
    total = sum(document.size for document in documents)
    result = []
    for document in documents:
        num_parts = max(1, round(num_blocks * document.size / max(total, 1)))
        offsets = cut(document, num_parts, whole_lines)
        result += [
            Document(f"{document.name} block {i}", document.path, begin, end)
            for i, (begin, end) in enumerate(itertools.pairwise(offsets))
        ]
    return result
