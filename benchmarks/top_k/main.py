"""Compares ways to the k best classes: search, beams, and all classes.

    bazel run //benchmarks:topk
    bazel run //benchmarks:topk -- --workload=1bw,text8 --k=1
    bazel run //benchmarks:topk -- --model=lm_model

benchmarks/README.md says what is asked, and how it is measured.
"""

import sys

from absl import app, flags

from benchmarks.common import count_flags
from benchmarks.heads import head_flags
from benchmarks.top_k import report, timing

_K = count_flags.define("k", 10, "How many classes.")
_BEAM = flags.DEFINE_list("beam", ["4", "16", "64"], "The widths of beams.")
head_flags.whole_numbers("beam")
_ALLOWED = flags.DEFINE_list(
    "allowed",
    [],
    "Shares of the classes, drawn at random, among which to search too.",
)
flags.register_validator(
    "allowed",
    lambda texts: all(_is_share(text) for text in texts),
    "must be numbers above 0 and up to 1, with commas between them",
)
_PYTHON = flags.DEFINE_string(
    "python", sys.executable, "The interpreter that has PyTorch, and NumPy."
)


def _is_share(text):
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


def main(_):
    """Measures all heads."""
    question = timing.Question(
        _K.value,
        head_flags.numbers(_BEAM.value),
        head_flags.batches(),
        _PYTHON.value,
        tuple(map(float, _ALLOWED.value)),
    )
    head_flags.measure_all(
        timing.measure, question, report.text, timing.is_wrong
    )


if __name__ == "__main__":
    app.run(main)
