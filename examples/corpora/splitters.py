"""Text to tokens and back: the values of `--tokens`."""

import importlib
import os

from examples.corpora import formats, tokenizer

PLAIN = ("words", "code")
OF_A_FILE = ("sentencepiece", "tokenizers")


class Words:
    """What white space separates.

    Attributes:
        vocabulary: The tokens there can be, a list; None: any.
    """

    vocabulary = None

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
    """Words, punctuation marks, and line breaks with their indentation."""

    def split(self, text, line_end=None):
        """Returns the tokens of a text.

        Without `line_end`, a line break with its indentation is a token.
        """
        if line_end is None:
            return tokenizer.split(text)
        return _by_lines(map(tokenizer.split, text.split("\n")), line_end)

    def split_beginning(self, text):
        """Returns the tokens of a text that continues; see `tokenizer`."""
        return tokenizer.split_beginning(text)

    def join(self, tokens):
        """Returns a text; see `tokenizer`."""
        return tokenizer.join(tokens)


class SentencePiece(Words):
    """The pieces of a model of the library sentencepiece."""

    def __init__(self, path):
        """Loads a `.model` file."""
        library = importlib.import_module("sentencepiece")
        self._model = library.SentencePieceProcessor(model_file=path)
        self.vocabulary = [
            self._model.id_to_piece(i) for i in range(len(self._model))
        ]

    def split(self, text, line_end=None):
        """Returns the pieces of a text."""
        lines = self._model.encode(text.split("\n"), out_type=str)
        return _by_lines(lines, line_end)

    def join(self, tokens):
        """Returns a text of these pieces."""
        return "".join(tokens).replace("\u2581", " ").lstrip(" ")


class Tokenizers(Words):
    """The tokens of a `tokenizer.json` of the library tokenizers."""

    def __init__(self, path):
        """Loads a `.json` file."""
        library = importlib.import_module("tokenizers")
        self._model = library.Tokenizer.from_file(path)
        self._model.no_truncation()
        self._model.no_padding()
        self.vocabulary = list(self._model.get_vocab())

    def split(self, text, line_end=None):
        """Returns the tokens of a text."""
        lines = self._model.encode_batch(
            text.split("\n"), add_special_tokens=False
        )
        return _by_lines((line.tokens for line in lines), line_end)

    def join(self, tokens):
        """Returns a text of these tokens."""
        ids = map(self._model.token_to_id, tokens)
        return self._model.decode(
            [i for i in ids if i is not None], skip_special_tokens=False
        )


def _by_lines(lines, line_end):
    """Joins the tokens of lines; `line_end` stands between two lines."""
    tokens = []
    for i, line in enumerate(lines):
        if i and line_end is not None:
            tokens.append(line_end)
        tokens += line
    return tokens


def join(splitter, tokens):
    """Returns a text of these tokens, in lines, that a person can read."""
    lines = [[]]
    for token in tokens:
        if token in formats.ENDS_OF_LINES:
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(map(splitter.join, lines))


def check(name):
    """Raises `ValueError` if `--tokens=name` is no splitter; loads nothing."""
    kind, _, path = name.partition(":")
    if name in PLAIN or (kind in OF_A_FILE and os.path.isfile(path)):
        return
    raise ValueError(
        f"--tokens={name}: must be one of {', '.join(PLAIN)}, or an existing "
        f"file, as in {', '.join(f'{kind}:FILE' for kind in OF_A_FILE)}."
    )


def named(name):
    """Returns the splitter that `--tokens=name` means.

    Raises:
        ValueError: There is none, or its file or library cannot be read.
    """
    check(name)
    kind, _, path = name.partition(":")
    if not path:
        return {"words": Words, "code": Code}[kind]()
    make = {"sentencepiece": SentencePiece, "tokenizers": Tokenizers}[kind]
    try:
        return make(path)
    except ModuleNotFoundError:
        raise ValueError(
            f"--tokens={name} needs the library {kind}: pip install {kind}"
        ) from None
    except Exception as error:  # The libraries raise anything.
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"--tokens={name}: cannot read it: {reason}") from None
