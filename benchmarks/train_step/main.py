"""Compares whole training steps: what they cost, and in how much memory.

    bazel run //benchmarks:train_step
    bazel run //benchmarks:train_step -- --optimizer=sgd,lazy_adam --nomemory
    bazel run //benchmarks:train_step -- --workload=10m-b400

benchmarks/README.md says what is compared, and how it is measured.
"""

from absl import app

from benchmarks.common import (
    case_flags,
    command,
    define,
    machine,
    step_flags,
)
from benchmarks.train_step import memory, report, steps, timing

_WORKLOAD = define.workloads_of(["1m-b400"])
_OPTIMIZER = define.names(
    "optimizer",
    steps.RULES,
    f"Update rules, of {', '.join(steps.RULES)}.",
    default=["sgd"],
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
            if "ms" in time and name != steps.IN_FIT
        }
    print(report.case_text(case, rule, result))
    return result


def main(_):
    """Runs all cases, prints their tables and writes the JSON file."""
    cases = step_flags.cases(_WORKLOAD.value, case_flags.LABELS.value)
    settings = step_flags.settings(steps.IMPLEMENTATIONS)
    figures = command.Figures(settings.threads, settings=settings._asdict())
    for case in cases:
        for rule in dict.fromkeys(_OPTIMIZER.value):
            print(flush=True)
            entry = case_flags.description(case) | {"optimizer": rule}
            result = _compare(case, rule, settings)
            figures.add("cases", entry | {"result": result})


if __name__ == "__main__":
    app.run(main)
