"""Compares the loss op with stock TensorFlow, and with what the machine can do.

    bazel run //benchmarks:loss
    bazel run //benchmarks:loss -- --workload=10m-b400 --json=$PWD/10m.json

Every figure is measured in this run. benchmarks/README.md says how.
"""

from absl import app

from benchmarks.common import (
    case_flags,
    command,
    define,
    implementations,
    machine,
    step_flags,
)
from benchmarks.loss import memory, report, timing

_WORKLOAD = define.workloads_of(["1m-b400", "text8"])
_IMPLEMENTATIONS = define.names(
    "implementations",
    implementations.IMPLEMENTATIONS,
    "What is compared, some of the default.",
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
                settings.threads,
            )
            for name, times in result["phases"].items()
            if any("ms" in time for time in times.values())
        }
    print(report.case_text(case, result))
    return result


def main(_):
    """Runs all cases, prints their tables and writes the JSON file."""
    cases = step_flags.cases(_WORKLOAD.value, case_flags.LABELS.value)
    settings = step_flags.settings(dict.fromkeys(_IMPLEMENTATIONS.value))
    figures = command.Figures(settings.threads, settings=settings._asdict())
    for case in cases:
        print(flush=True)
        entry = case_flags.description(case)
        figures.add("cases", entry | {"result": _compare(case, settings)})


if __name__ == "__main__":
    app.run(main)
