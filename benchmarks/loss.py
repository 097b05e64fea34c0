"""Compares the loss op with stock TensorFlow, and with what the machine can do.

    bazel run //benchmarks:loss
    bazel run //benchmarks:loss -- --workload=10m-b400 --json=$PWD/10m.json
    bazel run //benchmarks:loss -- --workload=1m-b400 --copy_on_read

Every figure is measured in this run. README.md beside this file says how.
"""

import sys

from absl import app, flags

from benchmarks import (
    _case_flags,
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
_COPY_ON_READ = flags.DEFINE_bool(
    "copy_on_read",
    False,
    "Instead of the comparison: what the first sparse update of the weights "
    "does to the steps after it.",
)


def _compare(case, settings):
    """Prints and returns the comparison of one case."""
    result = _machine.run_alone(_timing.time_case, case, settings)
    if _case_flags.MEMORY.value:
        result["memory"] = {
            name: _case_flags.memory_of(
                _memory.measure,
                case,
                name,
                [phase for phase, time in times.items() if "ms" in time],
                settings.threads,
            )
            for name, times in result["phases"].items()
            if any("ms" in time for time in times.values())
        }
    print(_report.case_text(case, result))
    return result


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
            _case_flags.LABELS.value,
            _step_flags.DTYPE.value,
        )
    except ValueError as error:
        sys.exit(str(error))
    settings = _step_flags.settings(dict.fromkeys(_IMPLEMENTATIONS.value))
    report = _command.Report(settings.threads, settings=settings._asdict())
    measure = _show_copies if _COPY_ON_READ.value else _compare
    for case in cases:
        print(flush=True)
        entry = _case_flags.description(case)
        report.add("cases", entry | {"result": measure(case, settings)})


if __name__ == "__main__":
    app.run(main)
