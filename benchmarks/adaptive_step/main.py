"""Compares training steps of an adaptive softmax: in place, and not.

    bazel run //benchmarks:adaptive_step
    bazel run //benchmarks:adaptive_step -- --optimizer=LazyAdam --batch=400

benchmarks/README.md says what is timed.
"""

from absl import app, flags

from benchmarks.adaptive_step import steps
from benchmarks.common import command, count_flags, machine, units

_CLASSES = flags.DEFINE_integer(
    "classes", 793_471, "Classes, drawn by Zipf's law.", lower_bound=2
)
_WIDTH = count_flags.define("width", 512, "Numbers in an input of the head.")
_BATCH = count_flags.define("batch", 2560, "Examples in a step.")
_OPTIMIZER = flags.DEFINE_enum(
    "optimizer", "RowwiseAdagrad", steps.RULES, "The update rule."
)
_REPETITIONS = count_flags.define(
    "repetitions", 15, "Steps timed for each figure."
)


def main(_):
    """Measures both steps, prints their table and writes the JSON file."""
    sizes = steps.Sizes(_CLASSES.value, _WIDTH.value, _BATCH.value)
    rule, threads = _OPTIMIZER.value, command.threads()
    figures = command.Figures(threads, sizes=sizes._asdict(), optimizer=rule)
    found = machine.run_alone(
        steps.measure, sizes, rule, _REPETITIONS.value, threads
    )
    print(
        f"\n{sizes.classes:,} classes, width {sizes.width:,}, batch "
        f"{sizes.batch:,}, {rule}; cutoffs {found['cutoffs']}, "
        f"{found['parameters']:,} parameters\n\n"
        f"{'':<26}{'ms':>10}{'extra memory':>16}"
    )
    for name in (steps.IN_PLACE, steps.THEN_OPTIMIZER):
        extra = machine.run_alone(steps.extra_bytes, sizes, rule, threads, name)
        figures.add("steps", {"step": name, "extra": extra, **found[name]})
        milliseconds = units.of_seconds(found[name]["ms"] / 1000)
        print(f"{name:<26}{milliseconds:>10}{units.of_bytes(extra):>16}")


if __name__ == "__main__":
    app.run(main)
