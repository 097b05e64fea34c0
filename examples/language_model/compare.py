r"""Trains the same model with one head after another, for as long each.

    bazel run //examples/language_model:compare
    bazel run //examples/language_model:compare -- --minutes=5 \
        --heads=full,huffman,adaptive

Prints a table, and writes `heads.json` and a picture, `perplexity.png`, the
perplexity over the minutes, to --save_dir. Each head is trained for exactly
--minutes; reading, building and validation do not count. The learning rate
falls with the time. Ctrl-C ends it with a table of the heads that are done, and
--resume continues from there.
"""

import sys

from examples.common import program
from examples.common import settings as settings_lib
from examples.corpora import corpus
from examples.language_model import settings

flags = program.Flags()

# What is compared: a name, and the settings that differ from the default ones.
HEADS = {
    "full softmax": {"head": "full"},
    "flat tree": {"tree": "flat"},
    "sampled softmax": {"head": "sampled"},
    "two_level, any order": {"tree": "two_level_shuffled"},
    "two_level, by frequency": {"tree": "two_level"},
    "binary, balanced": {"tree": "binary"},
    "huffman, 2": {"tree": "huffman", "branching": 2},
    "huffman, 256": {"tree": "huffman", "branching": 256},
    "from data": {"tree": "data"},
    "adaptive": {"head": "adaptive"},
    "adaptive, two_level tails": {"head": "adaptive", "tail": "two_level"},
}

_MINUTES = flags.DEFINE_float(
    "minutes", 2.0, "How long each head is trained.", lower_bound=0.01
)
_SEEDS = flags.define_count(
    "seeds", 1, "How often each head is trained, from other random numbers."
)
_RESUME = flags.DEFINE_bool(
    "resume", False, "Keep what the same command in --save_dir has done."
)
_HEADS = flags.DEFINE_list(
    "heads", list(HEADS), f"Which heads: beginnings of {'; '.join(HEADS)}."
)
settings_lib.define(flags, corpus.Options)
_UNITS = flags.define_count("units", 128, "Width of the model.")
_BATCH_SIZE = flags.define_count("batch_size", 128, "Parallel streams.")
_STEPS = flags.define_count("steps", 32, "Tokens of a stream in one step.")
_SAVE_DIR = flags.DEFINE_string("save_dir", "lm_heads", "Folder to write to.")


def main():
    """Compares as the flags say; bad input ends in one line and status 1."""
    from examples.language_model import comparison

    names = [n for n in HEADS if any(map(n.startswith, _HEADS.value))]
    for wanted in _HEADS.value:
        if not any(name.startswith(wanted) for name in names):
            sys.exit(
                f"error: --heads={wanted} begins no name; these are the heads: "
                f"{'; '.join(HEADS)}."
            )
    try:
        default = settings.Settings(
            **settings_lib.given(corpus.Options, flags),
            units=_UNITS.value,
            batch_size=_BATCH_SIZE.value,
            steps=_STEPS.value,
        )
        comparison.compare(
            {name: HEADS[name] for name in names},
            default,
            _MINUTES.value,
            _SAVE_DIR.value,
            _SEEDS.value,
            _RESUME.value,
        )
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    program.run(main, flags)
