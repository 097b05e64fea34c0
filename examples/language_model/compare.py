r"""Trains the same model with one head after another, for as long each.

    bazel run //examples/language_model:compare
    bazel run //examples/language_model:compare -- --minutes=5 \
        --heads=full,huffman,adaptive

Prints a table, and writes it as `heads.json` and as two pictures, `heads.svg`
and `perplexity.svg`, the perplexity over the minutes, to --save_dir. Each head
is trained for exactly --minutes; reading, building and validation do not
count. The learning rate falls with the time. Ctrl-C ends it with what is done,
and --resume goes on from there.
"""

import dataclasses
import os
import sys

from examples.common import program
from examples.corpora import text_flags
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
text_flags.define(flags)
_UNITS = flags.DEFINE_integer(
    "units", settings.Settings.units, "Width of the model."
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", settings.Settings.batch_size, "Parallel streams."
)
_STEPS = flags.DEFINE_integer(
    "steps", settings.Settings.steps, "Tokens of a stream in one step."
)
_SAVE_DIR = flags.DEFINE_string(
    "save_dir", "lm_heads", "Folder for the table and the picture."
)


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
    folder = program.folder()
    try:
        text = text_flags.options(flags.values.flag_values_dict())
        default = settings.Settings(
            **dataclasses.asdict(text),
            units=_UNITS.value,
            batch_size=_BATCH_SIZE.value,
            steps=_STEPS.value,
        )
        comparison.compare(
            {name: HEADS[name] for name in names},
            default,
            _MINUTES.value,
            os.path.join(folder, _SAVE_DIR.value),
            _SEEDS.value,
            _RESUME.value,
        )
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    program.run(main, flags)
