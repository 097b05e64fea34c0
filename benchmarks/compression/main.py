"""Compares weights of 32, 16, 8 and 4 bits: bytes, answers and time.

    bazel run //benchmarks:compression
    bazel run //benchmarks:compression -- --model=lm_model
    bazel run //benchmarks:compression -- --labels=100000 --threads=1
    bazel run //benchmarks:compression -- --rescore=20,100

benchmarks/README.md says what is asked, and how it is measured.
"""

from absl import app, flags

from benchmarks.common import command, count_flags, machine, step_flags
from benchmarks.compression import label_tree, report, rescored, timing
from benchmarks.heads import head_flags

_K = count_flags.define("k", 10, "How many classes.")
_LABELS = count_flags.define(
    "labels",
    None,
    "In place of heads: the labels of a label tree, which the command trains.",
)
_RESCORE = flags.DEFINE_list(
    "rescore",
    [],
    "In place of the types: how many classes the codes find for the original "
    "rows to rank anew.",
)
flags.register_validator(
    "rescore",
    lambda texts: all(t.isdigit() and int(t) > 0 for t in texts),
    "must be whole numbers from 1, with commas between them",
)


def main(_):
    """Measures all heads."""
    if _RESCORE.value:
        counts = head_flags.numbers(_RESCORE.value)
        question = rescored.Question(_K.value, head_flags.batches(), counts)
        head_flags.measure_all(
            rescored.measure, question, rescored.text, lambda result: False
        )
        return
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
