"""Trains what `tf_hsm.estimate` estimates, and compares.

    bazel run //benchmarks:estimate
    bazel run //benchmarks:estimate -- --models=lstm-full,10m-b400

benchmarks/README.md says what is compared, and how it is measured.
"""

import concurrent.futures.process

from absl import app, flags

from benchmarks.common import command, machine, name_flags, units
from benchmarks.estimate import models, report, trained

_MODELS = name_flags.define(
    "models", models.MODELS, f"Models, of {', '.join(models.MODELS)}."
)
_REPETITIONS = flags.DEFINE_integer(
    "repetitions", 7, "Steps that are timed of each model.", lower_bound=1
)
_CALIBRATE = flags.DEFINE_bool(
    "calibrate",
    True,
    "Measures the machine again beside each model, which takes ten seconds; "
    "else takes what tf_hsm.calibrate() measured before.",
)
_MEMORY_SHARE = 0.95  # of what is available


def _compare(name, threads):
    """Trains and estimates one model; returns a dict."""
    from benchmarks.estimate import estimated

    first = machine.run_alone(estimated.estimate, name, threads, None)
    available = machine.available_bytes()
    if first["peak"] > _MEMORY_SHARE * available:
        return {
            "refused": f"needs {units.of_bytes(first['peak'])}; "
            f"{units.of_bytes(available)} are available"
        }
    try:
        measured = machine.run_alone(
            trained.measure,
            name,
            threads,
            _REPETITIONS.value,
            _CALIBRATE.value,
        )
    except concurrent.futures.process.BrokenProcessPool:
        return {"refused": "killed, as the machine has not the memory"}
    second = machine.run_alone(
        estimated.estimate, name, threads, measured.get("machine")
    )
    return {
        "measured": measured,
        "estimated": second,
        "figures": report.judge(measured, second),
    }


def main(_):
    """Compares all models, prints the table and writes the JSON file."""
    threads = command.threads()
    figures = command.Figures(threads)
    print(f"\n{report.head()}", flush=True)
    rows = []
    for name in _MODELS.value:
        result = _compare(name, threads)
        figures.add("models", {"model": name, **result})
        if "refused" in result:
            print(f"{name}: refused: {result['refused']}", flush=True)
        else:
            rows.append(result["figures"])
            print(report.line(name, result["figures"]), flush=True)
    if rows:
        print(f"\n{report.summary(rows)}")


if __name__ == "__main__":
    app.run(main)
