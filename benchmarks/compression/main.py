"""Compares weights of 32, 16, 8 and 4 bits: bytes, answers and time.

    bazel run //benchmarks:compression
    bazel run //benchmarks:compression -- --model=lm_model
    bazel run //benchmarks:compression -- --labels=100000 --threads=1

benchmarks/README.md says what is asked, and how it is measured.
"""

from absl import app

from benchmarks.common import command, count_flags, machine, step_flags
from benchmarks.compression import label_tree, report, timing
from benchmarks.heads import head_flags

_K = count_flags.define("k", 10, "How many classes.")
_LABELS = count_flags.define(
    "labels",
    None,
    "In place of heads: the labels of a label tree, which the command trains.",
)


def main(_):
    """Measures all heads."""
    question = timing.Question(_K.value, head_flags.batches())
    if _LABELS.value:
        settings = step_flags.settings([])
        figures = command.Figures(settings.threads)
        result = machine.run_alone(
            label_tree.measure, _LABELS.value, question, settings
        )
        print("\n" + report.text("trained label tree", question, result))
        figures.add("heads", {"labels": _LABELS.value, "result": result})
        return
    head_flags.measure_all(
        timing.measure, question, report.text, lambda result: False
    )


if __name__ == "__main__":
    app.run(main)
