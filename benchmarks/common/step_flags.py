"""The flags of the commands that time steps side by side."""

from absl import flags

from benchmarks.common import command, define, timing, workloads

DTYPE = flags.DEFINE_enum(
    "dtype",
    "float32",
    ["float32", "bfloat16", "float16", "float64"],
    "The type of weights and inputs.",
)
_REPETITIONS = define.count("repetitions", 15, "Steps timed for each figure.")
_MEMORY_LIMIT = flags.DEFINE_float(
    "memory_limit",
    None,
    "GB for parameters and steps together; what needs more is refused. By "
    "default what is available.",
)
_TIME_LIMIT = flags.DEFINE_float(
    "time_limit",
    20,
    "Seconds; an implementation that would need more for a step is refused.",
)


def cases(names, labels=None):
    """Lists `workloads.cases` of the flags."""
    return workloads.cases(names, labels, DTYPE.value)


def settings(implementations):
    """Makes `timing.Settings` of the flags and the implementations."""
    return timing.Settings(
        tuple(implementations),
        _REPETITIONS.value,
        command.threads(),
        _MEMORY_LIMIT.value and 1e9 * _MEMORY_LIMIT.value,
        _TIME_LIMIT.value,
    )
