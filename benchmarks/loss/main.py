"""Compares the loss op with stock TensorFlow, and with what the machine can do.

    bazel run //benchmarks:loss
    bazel run //benchmarks:loss -- --workload=10m-b400 --json=$PWD/10m.json
    bazel run //benchmarks:loss -- --workload=1m-b400 --copy_on_read

Every figure is measured in this run. benchmarks/README.md says how.
"""

import sys

from absl import app, flags

from benchmarks.common import (
    case_flags,
    command,
    implementations,
    machine,
    memory,
    name_flags,
    peers,
    step_flags,
    timing,
    workloads,
)
from benchmarks.loss import copy_on_read, report

_WORKLOAD = name_flags.define_workloads(["1m-b400", "text8"])
_TREE = flags.DEFINE_string(
    "tree",
    None,
    f"{', '.join(workloads.TREES)}, balanced:K with groups of K, or depth:L "
    "with L levels. By default those that a workload is defined with.",
)
_IMPLEMENTATIONS = name_flags.define(
    "implementations",
    [*implementations.IMPLEMENTATIONS, *peers.PEERS],
    "What is compared, some of the default.",
)
_PYTHON = flags.DEFINE_string(
    "python", sys.executable, "The interpreter that has PyTorch, and NumPy."
)
_COPY_ON_READ = flags.DEFINE_bool(
    "copy_on_read",
    False,
    "Instead of the comparison: what the first sparse update of the weights "
    "does to the steps after it.",
)


def _compare(case, settings):
    """Prints and returns the comparison of one case."""
    result = machine.run_alone(timing.time_case, case, settings)
    if case_flags.MEMORY.value:
        result["memory"] = {
            name: case_flags.memory_of(
                memory.measure,
                case,
                name,
                [phase for phase, time in times.items() if "ms" in time],
                settings,
            )
            for name, times in result["phases"].items()
            if any("ms" in time for time in times.values())
        }
    print(report.case_text(case, result))
    return result


def _show_copies(case, settings):
    """Prints and returns the copy-on-read measurements of one case."""
    result = {
        reader: {
            phase: machine.run_alone(
                copy_on_read.measure, case, reader, phase, settings
            )
            for phase in ("forward", "forward_backward")
        }
        for reader in copy_on_read.READERS
    }
    print(report.copy_on_read_text(case, result))
    return result


def main(_):
    """Runs all cases, prints their tables and writes the JSON file."""
    cases = step_flags.cases(
        _WORKLOAD.value, _TREE.value, case_flags.LABELS.value
    )
    settings = step_flags.settings(
        dict.fromkeys(_IMPLEMENTATIONS.value), python=_PYTHON.value
    )
    figures = command.Figures(settings.threads, settings=settings._asdict())
    measure = _show_copies if _COPY_ON_READ.value else _compare
    for case in cases:
        print(flush=True)
        entry = case_flags.description(case)
        figures.add("cases", entry | {"result": measure(case, settings)})


if __name__ == "__main__":
    app.run(main)
