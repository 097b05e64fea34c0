"""The flags of what a command reads, for `examples.common.program.Flags`."""

import dataclasses
import os

from examples.common import program
from examples.corpora import corpus, formats, making, sources, splitters
from examples.corpora.debian import documents as debian
from examples.corpora.synthetic import texts as synthetic

NAMES = tuple(field.name for field in dataclasses.fields(corpus.Options))


def define(flags, default=None):
    """Defines a flag for each field of `corpus.Options`.

    Args:
        flags: the `program.Flags`.
        default: `corpus.Options` with the defaults, or what inherits them.
    """
    default = default or corpus.Options()
    flags.DEFINE_string(
        "corpus",
        default.corpus,
        "The text: a file, a folder (all its files but hidden ones), a pattern "
        "of files in quotation marks, or one by name: "
        f"{', '.join(sources.NAMED)}; debian:NAME, what an installed package "
        f"of Debian has ({', '.join(debian.NAMES)}); synthetic:NAME, made of "
        f"pseudo-words ({', '.join(synthetic.NAMES)}, and a fraction, as in "
        "text8:0.01). Files may be packed with gzip, bzip2 or xz.",
    )
    flags.DEFINE_string(
        "format",
        default.format,
        "What the files are; auto: as their names and beginnings say. "
        + " ".join(f"{n}: {form.about}." for n, form in formats.FORMATS.items())
        + " If the parts are not there, one document in "
        f"{making.HELD_OUT_EVERY} is held out to validate and one to test; a "
        "document is a file or, with few files, a hundredth of the text.",
    )
    flags.DEFINE_string(
        "tokens",
        default.tokens,
        "words: what white space separates. code: words, punctuation marks "
        "and, in documents, line breaks with the indentation of the next line. "
        f"{', '.join(f'{kind}:FILE' for kind in splitters.OF_A_FILE)}: those "
        "of a saved TextVectorization or StringLookup, or of a model of that "
        "library. auto: as the format has it.",
    )
    flags.DEFINE_string(
        "encoding",
        default.encoding,
        "Encoding of the text, as Python names it, such as utf-16 or cp1251.",
    )
    flags.DEFINE_string(
        "field", default.field, "Name of the texts in a data set's examples."
    )
    flags.DEFINE_string(
        "vocabulary",
        default.vocabulary,
        "File with a word at the beginning of each line: these are the "
        f"classes, and {formats.UNKNOWN}. By default the words of the training "
        "text, or of --tokens=...:FILE.",
    )
    flags.DEFINE_integer(
        "min_count",
        default.min_count,
        "Words seen fewer times in the training text become "
        f"{formats.UNKNOWN}. At least 2 for it to be learned from the words "
        "seen once, unless the text has it.",
    )
    flags.DEFINE_integer(
        "max_classes",
        default.max_classes,
        "The most frequent words that are classes, with "
        f"{formats.UNKNOWN}; 0: all.",
    )


def absolute(values):
    """Makes paths in flag values relative to where the user gave the command.

    Args:
        values: a dict with the flags of `NAMES`; changed in place.
    """
    folder = program.folder()
    if not sources.is_name(values["corpus"]):
        values["corpus"] = os.path.join(folder, values["corpus"])
    if values["vocabulary"]:
        values["vocabulary"] = os.path.join(folder, values["vocabulary"])
    kind, colon, path = values["tokens"].partition(":")
    if colon:
        values["tokens"] = f"{kind}:{os.path.join(folder, path)}"


def options(values):
    """The `corpus.Options` of flag values; raises `ValueError` as they do."""
    values = dict(values)
    absolute(values)
    return corpus.Options(**{name: values[name] for name in NAMES})
