"""Text to tokens and back.

A token is a word, a punctuation mark, or a line break with the indentation of
the line that follows. Other white space and empty lines are lost.
"""

import keyword
import re

_TOKEN = re.compile(r"\w+|[^\w\s]|\n[ \t]*(?=\S)")
_NO_SPACE_AFTER = frozenset("([{@")
_NO_SPACE_BEFORE = frozenset(")]},.:;?")
_QUOTES = frozenset("\"'")
_BEFORE_EQUALS = "!+-*/%|&<>:"
_CONTRACTED = frozenset(["d", "ll", "m", "re", "s", "t", "ve"])  # you'd, ...


def split(text):
    """Returns the tokens of a text, a list of strings."""
    return _TOKEN.findall(text)


def split_beginning(text):
    """Returns the tokens of a text that goes on: its last line break counts."""
    return split(f"{text}.")[:-1]


def join(tokens):
    """Returns a text of these tokens that a person can read.

    `split` finds the same tokens in it, but for line breaks with nothing but
    line breaks after them. The spaces are a guess, made for Python and English.
    """
    pieces = []
    left, quote = "\n", ""  # the token before, the quotation mark not closed
    glued = True  # whether there is no space after the token before
    for token, right in zip(tokens, [*tokens, "\n"][1:], strict=True):
        apostrophe = token == "'" and left.isalpha() and right in _CONTRACTED
        is_quote = token in _QUOTES and not apostrophe
        if not (
            glued
            or apostrophe
            or (is_quote and token == quote)
            or _are_adjacent(left, token)
        ):
            pieces.append(" ")
        pieces.append(token)
        glued = apostrophe or token in _NO_SPACE_AFTER
        if token[0] == "\n":
            # A mark that nothing closes is wrong for no more than its line.
            glued, quote = True, ""
        if is_quote and quote in ("", token):
            quote = "" if quote else token
            glued = bool(quote)
        left = token
    return "".join(pieces)


def _are_adjacent(left, right):
    """Whether two tokens, the second no word after a word, need no space."""
    if left == "." and _is_word(right):
        # What a capital begins is more likely a sentence than an attribute.
        return not right[0].isupper()
    if right in "([":
        # A call or an index; what a keyword precedes is neither.
        return left in ")]" or (
            left.isidentifier() and not keyword.iskeyword(left)
        )
    return (
        right[0] == "\n"
        or right in _NO_SPACE_BEFORE
        or (right == "=" and left in _BEFORE_EQUALS)
        or left + right == "->"
        or (left == right and not _is_word(left))
    )


def _is_word(token):
    return re.match(r"\w", token) is not None
