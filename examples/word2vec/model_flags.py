"""The flags of a model, for the commands that train one."""

from examples.word2vec import settings


def define(flags, default):
    """Defines the flags.

    Args:
        flags: a `program.Flags`.
        default: the `settings.Settings` with the flags' defaults.
    """
    flags.DEFINE_enum(
        "architecture",
        default.architecture,
        settings.ARCHITECTURES,
        "skip_gram: each word of a window predicts the word in the middle. "
        "cbow: their mean does.",
    )
    flags.DEFINE_integer("width", default.width, "Numbers in a vector.")
    flags.DEFINE_integer(
        "window",
        default.window,
        "Words on either side of the middle, at most: each window has a random "
        "size up to this.",
    )
    flags.DEFINE_float(
        "sample",
        default.sample,
        "Share of the text from which on the occurrences of a word are left "
        "out at random; 0: none.",
    )
