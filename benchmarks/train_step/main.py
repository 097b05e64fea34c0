"""Compares whole training steps: what they cost, and in how much memory.

    bazel run //benchmarks:train_step
    bazel run //benchmarks:train_step -- --optimizer=sgd,lazy_adam --nomemory
    bazel run //benchmarks:train_step -- --workload=10m-b400

README.md beside this file says what is compared, and how it is measured.
"""

import sys

from absl import app, flags

from benchmarks.common import (
    case_flags,
    command,
    machine,
    step_flags,
    workloads,
)
from benchmarks.train_step import memory, steps, timing
from benchmarks.train_step import report as train_step_report

_WORKLOAD = flags.DEFINE_list(
    "workload",
    ["1m-b400"],
    f"Workloads, of {', '.join(workloads.WORKLOADS)}.",
)
_OPTIMIZER = flags.DEFINE_list(
    "optimizer", ["sgd"], f"Update rules, of {', '.join(steps.RULES)}."
)
flags.register_validator(
    "optimizer",
    lambda names: set(names) <= set(steps.RULES),
    f"must be of {', '.join(steps.RULES)}",
)


def _compare(case, rule, settings):
    """Prints and returns the comparison of one case with one rule."""
    result = machine.run_alone(timing.time_case, case, rule, settings)
    if case_flags.MEMORY.value:
        result["memory"] = {
            name: case_flags.memory_of(
                memory.measure, case, rule, name, settings.threads
            )
            for name, time in result["times"].items()
            if "ms" in time
        }
    print(train_step_report.case_text(case, rule, result))
    return result


def main(_):
    """Runs all cases, prints their tables and writes the JSON file."""
    try:
        cases = workloads.cases(
            _WORKLOAD.value,
            None,
            case_flags.LABELS.value,
            step_flags.DTYPE.value,
        )
    except ValueError as error:
        sys.exit(str(error))
    settings = step_flags.settings(steps.IMPLEMENTATIONS)
    report = command.Report(settings.threads, settings=settings._asdict())
    for case in cases:
        for rule in dict.fromkeys(_OPTIMIZER.value):
            print(flush=True)
            entry = case_flags.description(case) | {"optimizer": rule}
            result = _compare(case, rule, settings)
            report.add("cases", entry | {"result": result})


if __name__ == "__main__":
    app.run(main)
