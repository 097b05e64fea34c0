"""Text to tokens and back: what `--tokens` may name."""

import abc
import importlib
import itertools
import os
import re

from examples.corpora import formats, tokenizer

PLAIN = ("words", "code")
OF_A_FILE = ("keras", "sentencepiece", "tokenizers")

_LINES_AT_ONCE = 1000


class SplitterError(Exception):
    """What is wrong with a splitter, behind its name."""


class Splitter(abc.ABC):
    """Makes tokens of text.

    Attributes:
        vocabulary: the tokens there can be, a list; None: any.
    """

    vocabulary = None

    @abc.abstractmethod
    def lines(self, lines):
        """Returns the tokens of each of these lines, a list of lists."""

    def split(self, text, line_end=None):
        """Returns the tokens of a text, a list of strings.

        Args:
            text: a string.
            line_end: the token of each line break; None: there is none.
        """
        first, *others = self.lines(text.split("\n"))
        for tokens in others:
            if line_end is not None:
                first.append(line_end)
            first += tokens
        return first

    def split_beginning(self, text):
        """Returns the tokens of a text that goes on."""
        return self.split(text)

    def pieces(self, tokens):
        """Yields the parts of a text of these tokens that a person can read."""
        for i, token in enumerate(tokens):
            yield f" {token}" if i else token


class Words(Splitter):
    """What white space separates."""

    def lines(self, lines):
        """Returns the words of each line."""
        return [line.split() for line in lines]

    def split(self, text, line_end=None):
        """Returns the words of a text."""
        if line_end is not None:
            text = text.replace("\n", f" {line_end} ")
        return text.split()


class Code(Splitter):
    """Words, punctuation marks, and line breaks with their indentation."""

    def lines(self, lines):
        """Returns the tokens of each line."""
        return [tokenizer.split(line) for line in lines]

    def split(self, text, line_end=None):
        """Returns the tokens of a text.

        Without `line_end`, a line break with its indentation is a token.
        """
        if line_end is None:
            return tokenizer.split(text)
        return super().split(text, line_end)

    def split_beginning(self, text):
        """Returns the tokens of a text that goes on; see `tokenizer`."""
        return tokenizer.split_beginning(text)

    def pieces(self, tokens):
        """Yields the parts of a text; see `tokenizer`."""
        return tokenizer.pieces(tokens)


class Keras(Splitter):
    """A `TextVectorization` or `StringLookup` in a saved Keras model."""

    def __init__(self, path):
        """Loads the one such layer in the `.keras` file at `path`."""
        import keras

        model = keras.models.load_model(path, compile=False)
        kinds = keras.layers.TextVectorization, keras.layers.StringLookup
        layers = {id(x): x for x in _layers(model) if isinstance(x, kinds)}
        layers = list(layers.values())
        vectorizations = [x for x in layers if isinstance(x, kinds[0])]
        layers = vectorizations or layers
        if len(layers) != 1:
            raise SplitterError(
                f": the model has {len(layers)} TextVectorization or "
                "StringLookup layers; it must have one."
            )
        (layer,) = layers
        config = layer.get_config()
        unknown = config.get("oov_token", "[UNK]")
        self._words = [
            formats.UNKNOWN if word == unknown else word
            for word in layer.get_vocabulary()
        ]
        # "" is padding, which no text has.
        self.vocabulary = [word for word in self._words if word]
        self._vectorize = None
        if vectorizations:
            if config["output_mode"] != "int" or config["ngrams"]:
                raise SplitterError(
                    ": the TextVectorization must have output_mode='int' and "
                    "no ngrams."
                )
            config |= {"ragged": True, "output_sequence_length": None}
            config["vocabulary"] = layer.get_vocabulary()
            self._vectorize = keras.layers.TextVectorization.from_config(config)

    def lines(self, lines):
        """Returns the tokens of each line."""
        if self._vectorize is None:
            return [line.split() for line in lines]
        result = []
        for begin in range(0, len(lines), _LINES_AT_ONCE):
            ids = self._vectorize(lines[begin : begin + _LINES_AT_ONCE])
            result += [[self._words[i] for i in row] for row in ids.to_list()]
        return result


def _layers(model):
    """Yields a Keras model, and the layers within it and its models."""
    yield model
    for layer in getattr(model, "layers", ()):
        yield from _layers(layer)


class SentencePiece(Splitter):
    """The pieces of a model of the library sentencepiece."""

    def __init__(self, path):
        """Loads a `.model` file."""
        processor = _optional("sentencepiece").SentencePieceProcessor
        self._model = processor(model_file=path)
        self.vocabulary = [
            self._model.id_to_piece(i) for i in range(len(self._model))
        ]

    def lines(self, lines):
        """Returns the pieces of each line."""
        return self._model.encode(lines, out_type=str)

    def pieces(self, tokens):
        """Yields the parts of a text."""
        for i, token in enumerate(tokens):
            yield token.replace("\u2581", " ").lstrip("" if i else " ")


class Tokenizers(Splitter):
    """The tokens of a `tokenizer.json` of the library tokenizers."""

    def __init__(self, path):
        """Loads a `.json` file."""
        self._model = _optional("tokenizers").Tokenizer.from_file(path)
        # Those are for batches of sentences.
        self._model.no_truncation()
        self._model.no_padding()
        self.vocabulary = list(self._model.get_vocab())

    def lines(self, lines):
        """Returns the tokens of each line."""
        encodings = self._model.encode_batch(lines, add_special_tokens=False)
        return [encoding.tokens for encoding in encodings]

    def pieces(self, tokens):
        """Yields the parts of a text."""
        written, text = [], ""
        for token in tokens:
            written.append(self._model.token_to_id(token))
            longer = self._model.decode(
                [i for i in written if i is not None], skip_special_tokens=False
            )
            # Bytes that make no character yet.
            if not longer.endswith("\ufffd"):
                yield longer[len(text) :]
                text = longer


def pieces(splitter, tokens):
    """Yields the parts of a text, with its lines, that a person can read.

    Each comes as soon as the next token is known.
    """
    tokens = iter(tokens)
    for token in tokens:
        # Up to the end of the line, which ends it.
        rest = itertools.chain([token], tokens)
        ended = []
        yield from splitter.pieces(_line(rest, ended))
        if ended:
            yield "\n"


def _line(tokens, ended):
    """Yields the tokens before the next end of a line."""
    for token in tokens:
        if token in formats.ENDS_OF_LINES:
            ended.append(token)
            return
        yield token


def check(name):
    """Raises `ValueError` if `--tokens=name` is none; loads nothing."""
    kind, _, path = name.partition(":")
    if name in PLAIN or (kind in OF_A_FILE and os.path.isfile(path)):
        return
    if kind in OF_A_FILE and path:
        raise ValueError(f"--tokens={name}: there is no file {path}.")
    raise ValueError(
        f"--tokens={name}: must be one of {', '.join(PLAIN)}, or a file, as in "
        f"{', '.join(f'{kind}:FILE' for kind in OF_A_FILE)}."
    )


def named(name):
    """Returns the `Splitter` that `--tokens=name` means.

    Raises:
        ValueError: there is none, or its file or library cannot be read.
    """
    check(name)
    kind, _, path = name.partition(":")
    if not path:
        return {"words": Words, "code": Code}[kind]()
    make = {
        "keras": Keras,
        "sentencepiece": SentencePiece,
        "tokenizers": Tokenizers,
    }
    try:
        return make[kind](path)
    except SplitterError as error:
        raise ValueError(f"--tokens={name}{error}") from None
    except Exception as error:
        # The libraries raise anything, Exception itself among it.
        reason = re.split(r"\n|(?<=\.) ", str(error).strip())[0]
        raise ValueError(f"--tokens={name}: cannot read it: {reason}") from None


def _optional(library):
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError:
        raise SplitterError(
            f" needs the library {library}: pip install {library}"
        ) from None
