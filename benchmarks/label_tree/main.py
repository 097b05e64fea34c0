"""Trains label trees: a large one in place, and a small one beside napkinXC's.

    bazel run //benchmarks:label_tree
    bazel run //benchmarks:label_tree -- --labels=2000000 --batch=1000
    bazel run //benchmarks:label_tree -- --what=napkinxc \
        --python=$HOME/peers/bin/python

benchmarks/README.md says what is trained and counted.
"""

import sys

from absl import app, flags

from benchmarks.common import command, count_flags, machine
from benchmarks.label_tree import compared, in_place, report

_WHAT = flags.DEFINE_enum(
    "what",
    "in_place",
    ["in_place", "napkinxc"],
    "A large tree trained in place; or a small one, ours beside napkinXC's.",
)
_LABELS = flags.DEFINE_integer(
    "labels", 500_000, "Labels of the tree that is trained.", lower_bound=2
)
_WIDTH = count_flags.define("width", 64, "Width of inputs.")
_BATCH = count_flags.define("batch", 1_000, "Examples of a step.")
_MOST = count_flags.define("most", 5, "Labels that an example has at most.")
_STEPS = count_flags.define("steps", 500, "Steps.")
_PYTHON = flags.DEFINE_string(
    "python", sys.executable, "The interpreter that has napkinXC."
)


def main(_):
    """Trains, prints a table and writes the JSON file."""
    threads = command.threads()
    if _WHAT.value == "napkinxc":
        figures = command.Figures(threads)
        results = compared.compare(_PYTHON.value, threads)
        figures.add("compared", results)
        print(f"\n{report.comparison(results)}")
        return
    sizes = in_place.Sizes(
        _LABELS.value, _WIDTH.value, _BATCH.value, _MOST.value, _STEPS.value
    )
    refusal = in_place.refusal(sizes, machine.available_bytes())
    if refusal:
        sys.exit(refusal)
    figures = command.Figures(threads, sizes=sizes._asdict())
    result = machine.run_alone(in_place.measure, sizes, threads)
    figures.add("in_place", result)
    print(f"\n{report.training(sizes, result)}")


if __name__ == "__main__":
    app.run(main)
