"""Times heads through Keras: a step, and the tracing of its graph.

    bazel run //benchmarks:layers
    PYTHONPATH=folder_of_another_version:$PWD python benchmarks/layers/main.py

The second asks another version of tf_hsm, as its wheel installs it.
benchmarks/README.md says what is timed.
"""

from absl import app, flags

from benchmarks.common import command, count_flags, machine, units
from benchmarks.layers import steps

_CLASSES = count_flags.define(
    "classes", 1_000_000, "Classes of the hierarchical softmax."
)
_REPETITIONS = count_flags.define("repetitions", 25, "Steps for each figure.")
flags.register_validator(
    "classes", lambda n: n >= 100, "--classes must be at least 100"
)


def main(_):
    """Times all heads, prints a table and writes the JSON file."""
    threads = command.threads()
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


if __name__ == "__main__":
    app.run(main)
