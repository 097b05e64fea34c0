r"""Writes text with the model that `bazel run //:train` has saved.

    bazel run //:generate
    bazel run //:generate -- --prompt="def main(" --length=50
    bazel run //:generate -- --model=/tmp/sampled --num_samples=3 --seed=2
    bazel run //:generate -- --prompt="def main(" --beam_width=8 --length=20

Each token is drawn by the model's probabilities, given all tokens before it.
With --beam_width the most probable texts are written that beam search finds.
"""

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
_LENGTH = flags.define_count(
    "length", 200, "Tokens to write; a text may end sooner."
)
_NUM_SAMPLES = flags.define_count("num_samples", 1, "Texts to write.")
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
_TOP_K = flags.define_count(
    "top_k",
    None,
    "Draw among so many most probable words; 1: always take the best.",
)
_TOP_P = flags.DEFINE_float(
    "top_p",
    settings.TOP_P,
    "Draw among the fewest most probable words that have this probability "
    "together; 1: among all.",
)
_BEAM_WIDTH = flags.define_count(
    "beam_width",
    None,
    "Draw nothing: write the --num_samples most probable texts that a beam "
    "search of this width finds. The flags of a draw have no effect then: "
    "--temperature, --top_k, --top_p, --seed.",
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
    if _BEAM_WIDTH.value and _NUM_SAMPLES.value > _BEAM_WIDTH.value:
        sys.exit(
            f"error: --num_samples={_NUM_SAMPLES.value}: a beam finds at most "
            f"--beam_width={_BEAM_WIDTH.value} texts."
        )
    splitter = splitters.SPLITTERS[run.tokens]
    prompt = splitter.split_beginning(_PROMPT.value)
    unknown = sorted(set(prompt).difference(run.words))
    if unknown:
        print(
            f"note: the model reads these as {UNKNOWN}, since it has "
            f"not learned them: {' '.join(unknown)}",
            file=sys.stderr,
            flush=True,
        )
    if _BEAM_WIDTH.value:
        texts = generation.search(
            model, run, prompt, _LENGTH.value, _BEAM_WIDTH.value
        )[: _NUM_SAMPLES.value]
    else:
        texts = generation.generate(
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
    for i, text in enumerate(texts, 1):
        if len(texts) > 1:
            print(f"--- {i} of {len(texts)}")
        print(text)


if __name__ == "__main__":
    program.run(main, flags)
