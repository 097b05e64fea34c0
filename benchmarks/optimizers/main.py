"""Compares steps on some rows of a large table: ours and Keras' optimizers.

    bazel run //benchmarks:optimizers
    bazel run //benchmarks:optimizers -- --rows=4000000 --touched=2000
    bazel run //benchmarks:optimizers -- --eight_bits --threads=1

benchmarks/README.md says what is timed.
"""

import sys

from absl import app, flags

from benchmarks.common import command, count_flags, machine
from benchmarks.optimizers import eight_bits, report, steps

_ROWS = count_flags.define("rows", 1_000_000, "Rows of the table.")
_WIDTH = count_flags.define("width", 32, "Weights in a row.")
_TOUCHED = count_flags.define("touched", 256, "Rows that a step changes.")
flags.register_multi_flags_validator(
    ["rows", "touched"],
    lambda values: values["touched"] <= values["rows"],
    "--touched must be at most --rows",
)
_REPETITIONS = count_flags.define(
    "repetitions", 15, "Steps timed for each figure."
)
_EIGHT_BITS = flags.DEFINE_bool(
    "eight_bits", False, "In place of the rules: slots of 8 bits."
)


def main(_):
    """Times all rules, prints their table and writes the JSON file."""
    sizes = steps.Sizes(_ROWS.value, _WIDTH.value, _TOUCHED.value)
    refusal = steps.refusal(sizes)
    if refusal:
        sys.exit(refusal)
    threads = command.threads()
    figures = command.Figures(threads, sizes=sizes._asdict())
    if _EIGHT_BITS.value:
        results = machine.run_alone(
            eight_bits.measure, sizes, _REPETITIONS.value, threads
        )
        figures.add("slots", results)
        print(f"\n{eight_bits.text(sizes, results)}")
        return
    results = machine.run_alone(
        steps.measure, sizes, _REPETITIONS.value, threads
    )
    for rule, times in results.items():
        figures.add("rules", {"rule": rule, **times})
    print(f"\n{report.text(sizes, results)}")


if __name__ == "__main__":
    app.run(main)
