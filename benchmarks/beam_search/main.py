"""Compares ways to take the steps of a beam search, without a model below.

    bazel run //benchmarks:beam_search
    bazel run //benchmarks:beam_search -- --beam_width=32 --batch=1,16
    bazel run //benchmarks:beam_search -- --model=lm_model

benchmarks/README.md says what is asked, and how it is measured.
"""

from absl import app

from benchmarks.beam_search import report, timing
from benchmarks.common import count_flags
from benchmarks.heads import head_flags

_BEAM_WIDTH = count_flags.define(
    "beam_width", 8, "How many hypotheses are kept."
)
_LENGTH = count_flags.define("length", 10, "How many steps a call makes.")


def main(_):
    """Measures all heads."""
    question = timing.Question(
        head_flags.batches(), _BEAM_WIDTH.value, _LENGTH.value
    )
    head_flags.measure_all(
        timing.measure, question, report.text, timing.is_wrong
    )


if __name__ == "__main__":
    app.run(main)
