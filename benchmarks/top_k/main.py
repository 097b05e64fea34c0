"""Compares ways to the k best classes: search, beams, and all classes.

    bazel run //benchmarks:topk
    bazel run //benchmarks:topk -- --workload=1bw,text8 --k=1
    bazel run //benchmarks:topk -- --model=lm_model

benchmarks/README.md says what is asked, and how it is measured.
"""

import os
import sys

from absl import app, flags

from benchmarks.common import (
    command,
    define,
    machine,
    step_flags,
)
from benchmarks.top_k import heads, peaked_inputs, report, timing, trained_head

_WORKLOAD = define.workloads_of(["1m-b400"])
_DISTRIBUTION = define.names(
    "distribution",
    heads.DISTRIBUTIONS,
    "What the inputs of a workload are like, some of the default.",
)
_PEAK = flags.DEFINE_float(
    "peak",
    0.9,
    "The probability of the class that a peaked input points to, but for the "
    "noise.",
    lower_bound=1e-6,
    upper_bound=1 - 1e-6,
)
_NOISE = flags.DEFINE_float(
    "noise",
    1.0,
    "The standard deviation of each logit of a peaked input.",
    lower_bound=0.0,
)
_MODEL = flags.DEFINE_string(
    "model",
    None,
    "In place of workloads: the folder of a model that `bazel run //:train` "
    "saved. Its head is asked about the hidden vectors of held-out text.",
)
_K = define.count("k", 10, "How many classes.")
_BATCH = define.counts(
    "batch", ["1", "400"], "How many inputs a call is given."
)
_BEAM = define.counts("beam", ["4", "16", "64"], "The widths of beams.")


def _sources():
    if _MODEL.value:
        return [trained_head.TrainedSource(os.path.abspath(_MODEL.value))]
    peak = peaked_inputs.Peak(_PEAK.value, _NOISE.value)
    return [
        heads.RandomSource(case, distribution, peak)
        for case in step_flags.cases(_WORKLOAD.value)
        for distribution in _DISTRIBUTION.value
    ]


def main(_):
    """Measures all heads, prints their tables and writes the JSON file."""
    question = timing.Question(
        _K.value,
        define.numbers(_BEAM.value),
        define.numbers(_BATCH.value),
    )
    settings = step_flags.settings([])
    figures = command.Figures(
        settings.threads,
        settings=settings._asdict(),
        question=question._asdict(),
    )
    is_wrong = False
    for source in _sources():
        print(flush=True)
        try:
            result = machine.run_alone(
                timing.measure, source, question, settings
            )
        except (OSError, ValueError) as error:
            sys.exit(f"error: {error}")
        if "refused" in result:
            print(f"{source}: refused: {result['refused']}", flush=True)
        else:
            print(report.text(source, question, result), flush=True)
        figures.add("heads", source.description() | {"result": result})
        is_wrong |= timing.is_wrong(result)
    if is_wrong:
        sys.exit("a result differs from brute force")


if __name__ == "__main__":
    app.run(main)
