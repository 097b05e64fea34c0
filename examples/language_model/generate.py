r"""Writes text with the model that `bazel run //:train` has saved.

    bazel run //:generate
    bazel run //:generate -- --prompt="def main(" --length=50
    bazel run //:generate -- --model=/tmp/sampled --num_samples=3 --seed=2

Each token is drawn by the model's probabilities, given all tokens before it.
"""

import itertools
import sys

from examples.common import program
from examples.corpora import splitters
from examples.corpora.formats import UNKNOWN
from examples.language_model import settings

flags = program.Flags()

_MODEL = flags.DEFINE_string(
    "model", settings.FOLDER, "Folder of a run: the --save_dir of //:train."
)
_PROMPT = flags.DEFINE_string(
    "prompt", "", "Where the text begins; if empty, at the start of a document."
)
_LENGTH = flags.DEFINE_integer(
    "length", 200, "Tokens to write; a text may end sooner.", lower_bound=1
)
_NUM_SAMPLES = flags.DEFINE_integer(
    "num_samples", 1, "Texts to write.", lower_bound=1
)
_SEED = flags.DEFINE_integer(
    "seed",
    1,
    "The same seed gives the same text, another seed another text.",
    lower_bound=0,
    upper_bound=2**63 - 1,
)
_TEMPERATURE = flags.DEFINE_float(
    "temperature",
    1.0,
    "Below 1 it favours the probable words, above 1 the others. With --top_p=1 "
    "and no --top_k, the hierarchical head applies it at each node of the "
    "tree, which is not the same as to all words at once.",
)
_TOP_K = flags.DEFINE_integer(
    "top_k",
    None,
    "Draw among so many most probable words; 1: always take the best.",
    lower_bound=1,
)
_TOP_P = flags.DEFINE_float(
    "top_p",
    settings.TOP_P,
    "Draw among the fewest most probable words that have this probability "
    "together; 1: among all.",
)
flags.register_validator(
    "temperature", lambda t: 0 < t < float("inf"), "must be above 0"
)
flags.register_validator(
    "top_p", lambda p: 0 < p <= 1, "must be above 0, at most 1"
)


def main():
    """Writes what the flags say; bad input ends in one line and status 1."""
    from examples.language_model import checkpoint, generation

    try:
        model, run = checkpoint.load(_MODEL.value)
    except FileNotFoundError as error:
        sys.exit(
            f"error: {error} --model must be the --save_dir of a run of "
            "`bazel run //:train`."
        )
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    if _TOP_K.value and _TOP_K.value > len(run.words):
        sys.exit(
            f"error: --top_k={_TOP_K.value}: must be at most "
            f"{len(run.words)}, the number of the model's words."
        )
    splitter = splitters.named(run.tokens)
    prompt = splitter.split_beginning(_PROMPT.value)
    unknown = sorted(set(prompt).difference(run.words))
    if unknown:
        print(
            f"note: the model reads these as {UNKNOWN}, since it has "
            f"not learned them: {' '.join(unknown)}",
            file=sys.stderr,
        )
    drawn = generation.draw(
        model,
        run,
        prompt,
        _LENGTH.value,
        _NUM_SAMPLES.value,
        _SEED.value,
        temperature=_TEMPERATURE.value,
        top_k=_TOP_K.value,
        top_p=_TOP_P.value,
    )
    # All are drawn together; the first is shown as it comes.
    first, *others = itertools.tee(drawn, _NUM_SAMPLES.value)
    for i, steps in enumerate([first, *others]):
        if others:
            print(f"--- {i + 1} of {_NUM_SAMPLES.value}")
        tokens = generation.until_end(step[i] for step in steps)
        tokens = itertools.chain(prompt, tokens)
        for piece in splitters.pieces(splitter, tokens):
            print(piece, end="", flush=True)
        print()


if __name__ == "__main__":
    program.run(main, flags)
