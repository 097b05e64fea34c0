"""How time grows: with classes, batch, depth of the tree, and threads.

    bazel run //benchmarks:scaling
    bazel run //benchmarks:scaling -- --what=depth --labels=zipf
    bazel run //benchmarks:scaling -- --what=classes --max_classes=10000000

One thing is varied at a time, all else is that of a workload. Each is a table,
with the floor of the machine beside it, and a plot. benchmarks/README.md says
how it is measured.
"""

import sys

from absl import app, flags

from benchmarks.common import (
    command,
    count_flags,
    name_flags,
    step_flags,
    workloads,
)
from benchmarks.scaling import plots, report, sweeps

_WHAT = name_flags.define(
    "what",
    sweeps.SWEEPS,
    "What is varied, some of the default.",
)
_WORKLOAD = flags.DEFINE_enum(
    "workload",
    "1m-b400",
    list(workloads.WORKLOADS),
    "The sizes of all that is not varied.",
)
_LABELS = flags.DEFINE_enum(
    "labels", "uniform", workloads.LABELS, "How labels are drawn."
)
_MIN_CLASSES = flags.DEFINE_integer(
    "min_classes", 10_000, "Where classes begin.", lower_bound=2
)
_MAX_CLASSES = flags.DEFINE_integer(
    "max_classes",
    3_000_000,
    "Where classes end; at 10,000,000 the weights alone take 12 GB.",
    lower_bound=2,
)
_MAX_BATCH = count_flags.define(
    "max_batch",
    8_192,
    "Where the batch ends; threads are also varied at this one.",
)
_PLOTS = flags.DEFINE_string(
    "plots",
    "docs/scaling",
    "Folder for the plots, from where the command is called; none if empty.",
)


def _measure(name, case, settings, ends):
    """Measures, prints and draws one sweep; returns its points."""
    sweep = sweeps.SWEEPS[name]
    table = report.Table(name, sweep, case)
    settings = settings._replace(implementations=sweep.implementations)
    points = []
    for point in sweep.points(case, settings, ends):
        table.add(point)
        points.append(point)
    table.close()
    if _PLOTS.value:
        path = plots.draw(_PLOTS.value, name, sweep, case, points)
        print(path or "no plot: matplotlib is not installed", flush=True)
    return points


def main(_):
    """Runs all sweeps."""
    if _MIN_CLASSES.value > _MAX_CLASSES.value:
        sys.exit("--min_classes is more than --max_classes")
    case = workloads.Case(
        _WORKLOAD.value, "two_level", _LABELS.value, step_flags.DTYPE.value
    )
    ends = sweeps.Range(
        _MIN_CLASSES.value, _MAX_CLASSES.value, _MAX_BATCH.value
    )
    settings = step_flags.settings([], phases=sweeps.PHASES)
    figures = command.Figures(
        settings.threads,
        settings=settings._asdict(),
        workload=_WORKLOAD.value,
        labels=_LABELS.value,
    )
    different = False
    for name in _WHAT.value:
        points = _measure(name, case, settings, ends)
        figures.add(
            "sweeps", {"what": name, "points": [p._asdict() for p in points]}
        )
        different |= any(
            p.columns.get("results", sweeps.SAME) != sweeps.SAME for p in points
        )
    if different:
        sys.exit("the results depend on the number of threads")


if __name__ == "__main__":
    app.run(main)
