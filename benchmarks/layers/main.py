"""Times heads through Keras: a step, and the tracing of its graph.

    bazel run //benchmarks:layers
    bazel run //benchmarks:layers -- --what=fit --workload=1m-b400
    PYTHONPATH=folder_of_another_version:$PWD python benchmarks/layers/main.py

The last asks another version of tf_hsm, as its wheel installs it.
benchmarks/README.md says what is timed.
"""

from absl import app, flags

from benchmarks.common import (
    command,
    count_flags,
    machine,
    name_flags,
    units,
    workloads,
)
from benchmarks.layers import fit, steps

_WHAT = flags.DEFINE_enum(
    "what",
    "heads",
    ["heads", "fit"],
    "heads: steps and tracing of all heads. fit: a step in place by `fit`, "
    "beside the function of the fused step.",
)
_WORKLOAD = name_flags.define(
    "workload",
    workloads.WORKLOADS,
    "Workloads of --what=fit.",
    default=["1m-b400", "1m-b8192", "10m-b400", "50k"],
)
_CLASSES = count_flags.define(
    "classes", 1_000_000, "Classes of the hierarchical softmax."
)
_REPETITIONS = count_flags.define("repetitions", 25, "Steps for each figure.")
flags.register_validator(
    "classes", lambda n: n >= 100, "--classes must be at least 100"
)


def main(_):
    """Times what --what says, prints a table and writes the JSON file."""
    threads = command.threads()
    if _WHAT.value == "fit":
        _compare_with_fit(threads)
        return
    figures = command.Figures(threads, classes=_CLASSES.value)
    results = machine.run_alone(
        steps.measure, _CLASSES.value, _REPETITIONS.value, threads
    )
    print(f"\n{'':<24}{'step':>12}{'tracing (CPU)':>16}")
    for result in results:
        figures.add("heads", result)
        step, trace = (
            units.of_seconds(result[name] / 1000)
            for name in ("step_ms", "trace_ms")
        )
        print(f"{result['head']:<24}{step:>12}{trace:>16}")


def _compare_with_fit(threads):
    figures = command.Figures(threads)
    cases = workloads.cases(_WORKLOAD.value, None, None, "float32")
    print(f"\n{'CPU time':<48}{'fused':>10}{'fit':>10}{'ratio':>8}")
    for case in cases:
        result = machine.run_alone(
            fit.measure, case, _REPETITIONS.value, threads
        )
        figures.add("fit", {"case": str(case), **result})
        fused, by_fit = (result[name]["ms"] for name in ("fused", "fit"))
        times = [units.of_seconds(ms / 1000) for ms in (fused, by_fit)]
        print(
            f"{case!s:<48}{times[0]:>10}{times[1]:>10}{by_fit / fused:>8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    app.run(main)
