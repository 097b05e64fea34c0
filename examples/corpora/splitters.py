"""Text to tokens and back: the values of `--tokens`."""

from examples.corpora import formats, tokenizer


class Words:
    """Splits a text at white space."""

    def split(self, text, line_end=None):
        """Returns the tokens of a text, a list of strings.

        Args:
            text: A string.
            line_end: The token of each line break; None: there is none.
        """
        if line_end is not None:
            text = text.replace("\n", f" {line_end} ")
        return text.split()

    def split_beginning(self, text):
        """Returns the tokens of a text that continues."""
        return self.split(text)

    def join(self, tokens):
        """Returns a text of these tokens that a person can read."""
        return " ".join(tokens)


class Code(Words):
    """Splits a text into words, punctuation marks and indented line breaks."""

    def split(self, text, line_end=None):
        """Returns the tokens of a text.

        Without `line_end`, a line break with its indentation is a token.
        """
        if line_end is None:
            return tokenizer.split(text)
        first, *lines = map(tokenizer.split, text.split("\n"))
        return first + [t for line in lines for t in (line_end, *line)]

    split_beginning = staticmethod(tokenizer.split_beginning)
    join = staticmethod(tokenizer.join)


SPLITTERS = {"words": Words(), "code": Code()}


def join(splitter, tokens):
    """Returns a text of these tokens, in lines, that a person can read."""
    lines = [[]]
    for token in tokens:
        if token == formats.END_OF_LINE:
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(map(splitter.join, lines))
