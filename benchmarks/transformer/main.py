"""Compares the memory of a Transformer's training step by its head.

    bazel run //benchmarks:transformer
    bazel run //benchmarks:transformer -- --sequences=64 --limit=7

benchmarks/README.md says what is compared, and how it is measured.
"""

from absl import app, flags

from benchmarks.common import (
    case_flags,
    command,
    count_flags,
    name_flags,
    units,
)
from benchmarks.transformer import measurement

_HEADS = name_flags.define(
    "heads",
    measurement.HEADS,
    f"Heads, of {', '.join(measurement.HEADS)}.",
)
_CLASSES = count_flags.define("classes", 50_000, "Classes.")
_WIDTH = count_flags.define("width", 256, "Width of the blocks.")
_BLOCKS = count_flags.define("blocks", 2, "Blocks of the Transformer.")
_SEQUENCES = count_flags.define("sequences", 8, "Sequences of a batch.")
_STEPS = count_flags.define("steps", 256, "Tokens of a sequence.")
_REPETITIONS = count_flags.define(
    "repetitions", 3, "Steps timed, after one to warm up."
)
_LIMIT = flags.DEFINE_float(
    "limit",
    None,
    "GB of address space of each process; a step that needs more fails.",
    lower_bound=0,
)


def _row(name, result):
    """Prints the row of a head."""
    if "failed" in result:
        print(f"{name:<12}failed: {result['failed']}", flush=True)
        return
    cells = [
        units.of_bytes(result[what])
        for what in ("parameters", "optimizer", "extra", "peak")
    ]
    cells.append(f"{result['cpu_seconds']:.2f} s")
    cells.append(f"{result['losses'][-1]:.4f}")
    print(f"{name:<12}" + "".join(f"{c:>12}" for c in cells), flush=True)


def main(_):
    """Measures all heads, prints their rows and writes the JSON file."""
    sizes = measurement.Sizes(
        _CLASSES.value,
        _WIDTH.value,
        _BLOCKS.value,
        _SEQUENCES.value,
        _STEPS.value,
    )
    figures = command.Figures(command.threads(), sizes=sizes._asdict())
    limit = _LIMIT.value and 1e9 * _LIMIT.value
    tokens = sizes.sequences * sizes.steps
    print(
        f"\n{sizes.classes:,} classes, {sizes.blocks} blocks of width "
        f"{sizes.width}, {sizes.sequences} x {sizes.steps} tokens, Adam; "
        f"logits of {units.of_bytes(4 * tokens * sizes.classes)}"
        + (f"; limit {units.of_bytes(limit)}" if limit else "")
    )
    titles = ("parameters", "optimizer", "step", "process", "CPU time", "loss")
    print(" " * 12 + "".join(f"{title:>12}" for title in titles))
    for name in dict.fromkeys(_HEADS.value):
        result = case_flags.memory_of(
            measurement.measure,
            name,
            sizes,
            _REPETITIONS.value,
            command.threads(),
            limit,
        )
        _row(name, result)
        figures.add("heads", {"head": name, "limit": limit, "result": result})


if __name__ == "__main__":
    app.run(main)
