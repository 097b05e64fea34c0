"""Compares ways to draw classes by their probabilities.

    bazel run //benchmarks:sample
    bazel run //benchmarks:sample -- --workload=text8 --num_samples=1,10
    bazel run //benchmarks:sample -- --model=lm_model

benchmarks/README.md says what is asked, and how it is measured.
"""

from absl import app, flags

from benchmarks.common import count_flags
from benchmarks.heads import head_flags
from benchmarks.sample import report, timing

_NUM_SAMPLES = flags.DEFINE_list(
    "num_samples", ["1", "100"], "How many draws of each input."
)
head_flags.whole_numbers("num_samples")
_TOP_K = count_flags.define("top_k", 50, "Draw among so many best classes.")
_TOP_P = flags.DEFINE_float(
    "top_p",
    0.9,
    "Draw among the best classes of this probability.",
    lower_bound=1e-6,
    upper_bound=1 - 1e-6,
)


def main(_):
    """Measures all heads."""
    question = timing.Question(
        head_flags.batches(),
        head_flags.numbers(_NUM_SAMPLES.value),
        _TOP_K.value,
        _TOP_P.value,
    )
    head_flags.measure_all(
        timing.measure, question, report.text, timing.is_wrong
    )


if __name__ == "__main__":
    app.run(main)
