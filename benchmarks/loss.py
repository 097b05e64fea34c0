"""Compares the loss op with stock TensorFlow, and with what the machine can do.

    bazel run //benchmarks:loss
    bazel run //benchmarks:loss -- --workload=10m-b400 --json=$PWD/10m.json
    bazel run //benchmarks:loss -- --workload=1m-b400 --copy_on_read

Every figure is measured in this run. README.md beside this file says how.
"""

import concurrent.futures.process
import sys

from absl import app, flags

from benchmarks import (
    _command,
    _copy_on_read,
    _implementations,
    _machine,
    _memory,
    _report,
    _step_flags,
    _timing,
    _workloads,
)

_WORKLOAD = flags.DEFINE_list(
    "workload",
    ["1m-b400", "text8"],
    f"Workloads, of {', '.join(_workloads.WORKLOADS)}.",
)
_LABELS = flags.DEFINE_enum(
    "labels",
    None,
    [*_workloads.LABELS, "both"],
    "How labels are drawn; class 0 is the most frequent of zipf. By default "
    "the first kind that a workload is defined with.",
)
_TREE = flags.DEFINE_string(
    "tree",
    None,
    f"{', '.join(_workloads.TREES)}, balanced:K with groups of K, or depth:L "
    "with L levels. By default those that a workload is defined with.",
)
_IMPLEMENTATIONS = flags.DEFINE_list(
    "implementations",
    list(_implementations.IMPLEMENTATIONS),
    "What is compared, some of the default.",
)
flags.register_validator(
    "implementations",
    lambda names: set(names) <= set(_implementations.IMPLEMENTATIONS),
    f"must be of {', '.join(_implementations.IMPLEMENTATIONS)}",
)
_MEMORY = flags.DEFINE_bool(
    "memory",
    True,
    "Also measures peak memory, each implementation in a process of its own.",
)
_COPY_ON_READ = flags.DEFINE_bool(
    "copy_on_read",
    False,
    "Instead of the comparison: what the first sparse update of the weights "
    "does to the steps after it.",
)


def _compare(case, settings):
    """Prints and returns the comparison of one case."""
    result = _machine.run_alone(_timing.time_case, case, settings)
    if _MEMORY.value:
        result["memory"] = {
            name: _memory_of(case, name, times, settings.threads)
            for name, times in result["phases"].items()
            if any("ms" in time for time in times.values())
        }
    print(_report.case_text(case, result))
    return result


def _memory_of(case, name, times, threads):
    phases = [phase for phase, time in times.items() if "ms" in time]
    try:
        return _machine.run_alone(_memory.measure, case, name, phases, threads)
    except concurrent.futures.process.BrokenProcessPool:
        return {"failed": "killed"}


def _show_copies(case, settings):
    """Prints and returns the copy-on-read measurements of one case."""
    result = {
        reader: {
            phase: _machine.run_alone(
                _copy_on_read.measure, case, reader, phase, settings
            )
            for phase in ("forward", "forward_backward")
        }
        for reader in _copy_on_read.READERS
    }
    print(_report.copy_on_read_text(case, result))
    return result


def main(_):
    """Runs all cases, prints their tables and writes the JSON file."""
    try:
        cases = _workloads.cases(
            _WORKLOAD.value,
            _TREE.value,
            _LABELS.value,
            _step_flags.DTYPE.value,
        )
    except ValueError as error:
        sys.exit(str(error))
    settings = _step_flags.settings(dict.fromkeys(_IMPLEMENTATIONS.value))
    report = _command.Report(settings.threads, settings=settings._asdict())
    measure = _show_copies if _COPY_ON_READ.value else _compare
    for case in cases:
        print(flush=True)
        entry = {
            "workload": case.workload,
            "tree_name": case.tree,
            "labels": case.labels,
            "dtype": case.dtype,
            "classes": case.sizes.num_classes,
            "width": case.sizes.width,
            "batch": case.sizes.batch,
        }
        report.add("cases", entry | {"result": measure(case, settings)})


if __name__ == "__main__":
    app.run(main)
