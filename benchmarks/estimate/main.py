"""Trains what `tf_hsm.estimate` estimates, and compares.

    bazel run //benchmarks:estimate
    bazel run //benchmarks:estimate -- --models=lstm-full,10m-b400

benchmarks/README.md says what is compared, and how it is measured.
"""

import concurrent.futures.process
import contextlib
import os

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
        with _without_onednn():
            measured = machine.run_alone(
                trained.measure, name, threads, 0, False
            )
        timed = machine.run_alone(
            trained.measure,
            name,
            threads,
            _REPETITIONS.value,
            _CALIBRATE.value,
        )
    except concurrent.futures.process.BrokenProcessPool:
        return {"refused": "killed, as the machine has not the memory"}
    measured |= {
        "ms": timed["ms"],
        "samples_ms": timed["samples_ms"],
        "machine": timed["machine"],
        "peak_with_onednn": timed["peak"],
    }
    second = machine.run_alone(
        estimated.estimate, name, threads, measured.get("machine")
    )
    return {
        "measured": measured,
        "estimated": second,
        "figures": report.judge(measured, second),
    }


@contextlib.contextmanager
def _without_onednn():
    """Processes that start within have tensors from malloc.

    With oneDNN, which CPUs with AVX512_VNNI have by default, TensorFlow keeps
    what is freed and rounds up to powers of 2.
    """
    name, before = "TF_ENABLE_ONEDNN_OPTS", dict(os.environ)
    os.environ[name] = "0"
    try:
        yield
    finally:
        del os.environ[name]
        os.environ.update(before)


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
            peak = result["measured"]["peak_with_onednn"]
            print(report.line(name, result["figures"], peak), flush=True)
    if rows:
        print(f"\n{report.summary(rows)}")


if __name__ == "__main__":
    app.run(main)
