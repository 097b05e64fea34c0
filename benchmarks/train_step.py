"""Compares whole training steps: what they cost, and in how much memory.

    bazel run //benchmarks:train_step
    bazel run //benchmarks:train_step -- --optimizer=sgd,lazy_adam --nomemory
    bazel run //benchmarks:train_step -- --workload=10m-b400

README.md beside this file says what is compared, and how it is measured.
"""

import concurrent.futures.process
import sys

from absl import app, flags

from benchmarks import (
    _command,
    _machine,
    _step_flags,
    _train_step_memory,
    _train_step_report,
    _train_step_timing,
    _train_steps,
    _workloads,
)

_WORKLOAD = flags.DEFINE_list(
    "workload",
    ["1m-b400"],
    f"Workloads, of {', '.join(_workloads.WORKLOADS)}.",
)
_LABELS = flags.DEFINE_enum(
    "labels",
    None,
    [*_workloads.LABELS, "both"],
    "How labels are drawn; class 0 is the most frequent of zipf. By default "
    "the first kind that a workload is defined with.",
)
_OPTIMIZER = flags.DEFINE_list(
    "optimizer", ["sgd"], f"Update rules, of {', '.join(_train_steps.RULES)}."
)
flags.register_validator(
    "optimizer",
    lambda names: set(names) <= set(_train_steps.RULES),
    f"must be of {', '.join(_train_steps.RULES)}",
)
_MEMORY = flags.DEFINE_bool(
    "memory",
    True,
    "Also measures peak memory, each implementation in a process of its own.",
)


def _compare(case, rule, settings):
    """Prints and returns the comparison of one case with one rule."""
    result = _machine.run_alone(
        _train_step_timing.time_case, case, rule, settings
    )
    if _MEMORY.value:
        result["memory"] = {
            name: _memory_of(case, rule, name, settings.threads)
            for name, time in result["times"].items()
            if "ms" in time
        }
    print(_train_step_report.case_text(case, rule, result))
    return result


def _memory_of(case, rule, name, threads):
    try:
        return _machine.run_alone(
            _train_step_memory.measure, case, rule, name, threads
        )
    except concurrent.futures.process.BrokenProcessPool:
        return {"failed": "killed"}


def main(_):
    """Runs all cases, prints their tables and writes the JSON file."""
    try:
        cases = _workloads.cases(
            _WORKLOAD.value, None, _LABELS.value, _step_flags.DTYPE.value
        )
    except ValueError as error:
        sys.exit(str(error))
    settings = _step_flags.settings(_train_steps.IMPLEMENTATIONS)
    report = _command.Report(settings.threads, settings=settings._asdict())
    for case in cases:
        for rule in dict.fromkeys(_OPTIMIZER.value):
            print(flush=True)
            entry = {
                "workload": case.workload,
                "tree_name": case.tree,
                "labels": case.labels,
                "dtype": case.dtype,
                "classes": case.sizes.num_classes,
                "width": case.sizes.width,
                "batch": case.sizes.batch,
                "optimizer": rule,
            }
            result = _compare(case, rule, settings)
            report.add("cases", entry | {"result": result})


if __name__ == "__main__":
    app.run(main)
