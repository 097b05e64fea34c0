"""Tokens of spans; what the processes that read a corpus have in common."""

import dataclasses

from examples.corpora import splitters, text_check


@dataclasses.dataclass(frozen=True)
class Rules:
    """How tokens are made of the bytes of a corpus.

    Attributes:
        tokens: name of a splitter.
        boundary: the token after each line or each document; None: there is
            none.
        by_lines: whether the boundary follows each line.
        is_strict: whether what is no UTF-8 text is refused; else replaced.
    """

    tokens: str
    boundary: str | None
    by_lines: bool
    is_strict: bool = True


class NotTextError(Exception):
    """A file, the argument, is no text in UTF-8."""


class Reader:
    """Reads spans by one set of rules."""

    def __init__(self, rules):
        """Loads what the rules need."""
        self._rules = rules
        self._splitter = splitters.named(rules.tokens)

    def tokens(self, span):
        """Returns the tokens of a `pieces.Span`, a list of strings.

        Raises:
            NotTextError: its file is no text.
        """
        text = self._text(span)
        if self._rules.by_lines:
            tokens = self._splitter.split(text, self._rules.boundary)
            ends = bool(text) and not text.endswith("\n")
        else:
            tokens = self._splitter.split(text)
            ends = self._rules.boundary is not None
        if ends and span.is_last:
            tokens.append(self._rules.boundary)
        return tokens

    def _text(self, span):
        with open(span.path, "rb") as file:
            file.seek(span.begin)
            data = file.read(span.end - span.begin)
        try:
            text = data.decode(
                "utf-8", "strict" if self._rules.is_strict else "replace"
            )
        except UnicodeError:
            raise NotTextError(span.path) from None
        if self._rules.is_strict and text_check.has_control(data):
            raise NotTextError(span.path)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text
