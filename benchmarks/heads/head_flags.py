"""The flags of the commands that ask heads, and their run over all heads."""

import os
import sys

from absl import flags

from benchmarks.common import command, machine, name_flags, step_flags
from benchmarks.heads import heads, peaked_inputs, trained_head

_WORKLOAD = name_flags.define_workloads(
    ["1m-b400"], "; of these, all but the batch"
)
_DISTRIBUTION = name_flags.define(
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
_BATCH = flags.DEFINE_list(
    "batch", ["1", "400"], "How many inputs a call is given."
)


def whole_numbers(name):
    """Declares that a flag is a list of whole numbers from 1."""
    flags.register_validator(
        name,
        lambda texts: texts and all(t.isdigit() and int(t) > 0 for t in texts),
        "must be whole numbers from 1, with commas between them",
    )


whole_numbers("batch")


def numbers(texts):
    """The value of such a flag, without repetitions."""
    return tuple(dict.fromkeys(map(int, texts)))


def batches():
    """How many inputs a call is given, in turn."""
    return numbers(_BATCH.value)


def measure_all(measure, question, text, wrong):
    """Measures all heads, prints their tables and writes the JSON file.

    Args:
      measure: called with a source, `question` and `timing.Settings`, in a
        process of its own; returns a dict.
      question: what is asked, a named tuple.
      text: called with a source, `question` and that dict, unless it has the
        key "refused"; returns what to print.
      wrong: called with that dict: whether a result is wrong, which ends the
        command with status 1 when all is done.
    """
    settings = step_flags.settings([])
    figures = command.Figures(
        settings.threads,
        settings=settings._asdict(),
        question=question._asdict(),
    )
    any_wrong = False
    for source in _sources():
        print(flush=True)
        try:
            result = machine.run_alone(measure, source, question, settings)
        except (OSError, ValueError) as error:
            sys.exit(f"error: {error}")
        if "refused" in result:
            print(f"{source}: refused: {result['refused']}", flush=True)
        else:
            print(text(source, question, result), flush=True)
        figures.add("heads", source.description() | {"result": result})
        any_wrong |= wrong(result)
    if any_wrong:
        sys.exit("a result is wrong")


def _sources():
    if _MODEL.value:
        return [trained_head.TrainedSource(os.path.abspath(_MODEL.value))]
    peak = peaked_inputs.Peak(_PEAK.value, _NOISE.value)
    return [
        heads.RandomSource(case, distribution, peak)
        for case in step_flags.cases(_WORKLOAD.value)
        for distribution in _DISTRIBUTION.value
    ]
