"""Trains label trees: a large one in place, and smaller ones beside peers'.

    bazel run //benchmarks:label_tree
    bazel run //benchmarks:label_tree -- --labels=2000000 --batch=1000
    bazel run //benchmarks:label_tree -- --what=napkinxc \
        --python=$HOME/peers/bin/python
    bazel run //benchmarks:label_tree -- --what=extreme \
        --python=$HOME/peers/bin/python

benchmarks/README.md says what is trained and counted.
"""

import sys

from absl import app, flags

from benchmarks.common import command, count_flags, machine
from benchmarks.label_tree import compared, extreme, in_place, report
from examples.extreme_classification import packages

_WHAT = flags.DEFINE_enum(
    "what",
    "in_place",
    ["in_place", "napkinxc", "extreme"],
    "in_place: a large tree trained in place. napkinxc: a small tree, ours "
    "beside napkinXC's. extreme: a data set of extreme classification, ours "
    "beside Omikuji and PECOS.",
)
_LABELS = flags.DEFINE_integer(
    "labels", 500_000, "Labels of the tree that is trained.", lower_bound=2
)
_WIDTH = count_flags.define("width", 64, "Width of inputs.")
_BATCH = count_flags.define("batch", 1_000, "Examples of a step.")
_MOST = count_flags.define("most", 5, "Labels that an example has at most.")
_STEPS = count_flags.define("steps", 500, "Steps.")
_PYTHON = flags.DEFINE_string(
    "python", sys.executable, "The interpreter that has the peers."
)
_DATA = flags.DEFINE_string(
    "data",
    "",
    "The folder of the data set of --what=extreme; Debian's packages if empty.",
)
_LISTS = flags.DEFINE_string(
    "lists", packages.LISTS, "The folder of apt's package indexes."
)
_EPOCHS = count_flags.define(
    "epochs",
    None,
    "Passes of ours in --what=extreme; by default the example's.",
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
    if _WHAT.value == "extreme":
        figures = command.Figures(threads)
        results = extreme.compare(
            _DATA.value, _LISTS.value, _PYTHON.value, threads, _EPOCHS.value
        )
        figures.add("extreme", results)
        print(f"\n{report.extreme(results)}")
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
