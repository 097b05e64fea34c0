"""Text to tokens and back.

A token is a word, a punctuation mark, or a line break with the indentation of
the line that follows. Other white space and empty lines are lost. In scripts
that set no spaces between words, such as Chinese, Japanese and Thai, each
character is a token.
"""

import itertools
import keyword
import re

# Chinese and Japanese characters.
_WIDE = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u303c\u3041-\u312f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00016fe0-\U00018d8f\U0001aff0-\U0001b16f\U0001f200-\U0001f2ff"
    "\U00020000-\U0003ffff"
)
# Thai, Lao, Tibetan, Burmese and Khmer ones, which stand among spaces too.
_SPACELESS = f"{_WIDE}\u0e01-\u0e3a\u0e40-\u109f\u1780-\u17ff"
_TOKEN = re.compile(rf"[^\W{_SPACELESS}]+|\S|\n[ \t]*(?=\S)")
# Their punctuation brings its own space.
_IS_WIDE = re.compile(
    f"[{_WIDE}\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]"
)
_IS_SPACELESS = re.compile(f"[{_SPACELESS}]")
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
    text = []
    left, quote = "\n", ""  # the token before, the quotation mark not closed
    glued = True  # whether there is no space after the token before
    for token, right in itertools.pairwise(itertools.chain(tokens, ["\n"])):
        apostrophe = token == "'" and left.isalpha() and right in _CONTRACTED
        is_quote = token in _QUOTES and not apostrophe
        together = (
            glued
            or apostrophe
            or (is_quote and token == quote)
            or _are_adjacent(left, token)
        )
        text.append(token if together else f" {token}")
        glued = apostrophe or token in _NO_SPACE_AFTER
        if token[0] == "\n":
            # A mark that nothing closes is wrong for no more than its line.
            glued, quote = True, ""
        if is_quote and quote in ("", token):
            quote = "" if quote else token
            glued = bool(quote)
        left = token
    return "".join(text)


def _are_adjacent(left, right):
    """Whether two tokens need no space; two words of one script do need it."""
    if _IS_WIDE.match(left) or _IS_WIDE.match(right):
        return True
    if _IS_SPACELESS.match(left) and _IS_SPACELESS.match(right):
        return True
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
