"""Compares ways to the k best classes: search, beams, and all classes.

    bazel run //benchmarks:topk
    bazel run //benchmarks:topk -- --workload=1bw,text8 --k=1
    bazel run //benchmarks:topk -- --model=lm_model

README.md beside this file says what is asked, and how it is measured.
"""

import sys

from absl import app, flags

from benchmarks import _head_flags, _top_k_report, _top_k_timing

_K = flags.DEFINE_integer("k", 10, "How many classes.", lower_bound=1)
_BEAM = flags.DEFINE_list("beam", ["4", "16", "64"], "The widths of beams.")
_head_flags.whole_numbers("beam")
_PYTHON = flags.DEFINE_string(
    "python", sys.executable, "The interpreter that has PyTorch, and NumPy."
)


def main(_):
    """Measures all heads."""
    question = _top_k_timing.Question(
        _K.value,
        _head_flags.numbers(_BEAM.value),
        _head_flags.batches(),
        _PYTHON.value,
    )
    _head_flags.measure_all(
        _top_k_timing.measure,
        question,
        _top_k_report.text,
        _top_k_timing.is_wrong,
    )


if __name__ == "__main__":
    app.run(main)
