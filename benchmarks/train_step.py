"""Compares whole training steps: what they cost, and in how much memory.

    bazel run //benchmarks:train_step
    bazel run //benchmarks:train_step -- --optimizer=sgd,lazy_adam --nomemory
    bazel run //benchmarks:train_step -- --workload=10m-b400

README.md beside this file says what is compared, and how it is measured.
"""

import sys

from absl import app, flags

from benchmarks import (
    _case_flags,
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
_OPTIMIZER = flags.DEFINE_list(
    "optimizer", ["sgd"], f"Update rules, of {', '.join(_train_steps.RULES)}."
)
flags.register_validator(
    "optimizer",
    lambda names: set(names) <= set(_train_steps.RULES),
    f"must be of {', '.join(_train_steps.RULES)}",
)


def _compare(case, rule, settings):
    """Prints and returns the comparison of one case with one rule."""
    result = _machine.run_alone(
        _train_step_timing.time_case, case, rule, settings
    )
    if _case_flags.MEMORY.value:
        result["memory"] = {
            name: _case_flags.memory_of(
                _train_step_memory.measure, case, rule, name, settings.threads
            )
            for name, time in result["times"].items()
            if "ms" in time
        }
    print(_train_step_report.case_text(case, rule, result))
    return result


def main(_):
    """Runs all cases, prints their tables and writes the JSON file."""
    try:
        cases = _workloads.cases(
            _WORKLOAD.value,
            None,
            _case_flags.LABELS.value,
            _step_flags.DTYPE.value,
        )
    except ValueError as error:
        sys.exit(str(error))
    settings = _step_flags.settings(_train_steps.IMPLEMENTATIONS)
    report = _command.Report(settings.threads, settings=settings._asdict())
    for case in cases:
        for rule in dict.fromkeys(_OPTIMIZER.value):
            print(flush=True)
            entry = _case_flags.description(case) | {"optimizer": rule}
            result = _compare(case, rule, settings)
            report.add("cases", entry | {"result": result})


if __name__ == "__main__":
    app.run(main)
