"""Compares weights of 32, 16, 8 and 4 bits: bytes, answers and time.

    bazel run //benchmarks:compression
    bazel run //benchmarks:compression -- --model=lm_model

benchmarks/README.md says what is asked, and how it is measured.
"""

from absl import app

from benchmarks.common import count_flags
from benchmarks.compression import report, timing
from benchmarks.heads import head_flags

_K = count_flags.define("k", 10, "How many classes.")


def main(_):
    """Measures all heads."""
    question = timing.Question(_K.value, head_flags.batches())
    head_flags.measure_all(
        timing.measure, question, report.text, lambda result: False
    )


if __name__ == "__main__":
    app.run(main)
