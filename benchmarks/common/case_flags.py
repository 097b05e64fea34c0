"""What the commands share that compare implementations case by case."""

import concurrent.futures.process

from absl import flags

from benchmarks.common import machine, workloads

LABELS = flags.DEFINE_enum(
    "labels",
    None,
    [*workloads.LABELS, "both"],
    "How labels are drawn; class 0 is the most frequent of zipf. By default "
    "the first kind that a workload is defined with.",
)
MEMORY = flags.DEFINE_bool(
    "memory",
    True,
    "Also measures peak memory, each implementation in a process of its own.",
)


def memory_of(measure, *args):
    """Calls `measure(*args)` in a process of its own, which may be killed."""
    try:
        return machine.run_alone(measure, *args)
    except concurrent.futures.process.BrokenProcessPool:
        return {"failed": "killed"}


def description(case):
    """What the JSON file says of a `Case`."""
    return {
        "workload": case.workload,
        "tree_name": case.tree,
        "labels": case.labels,
        "dtype": case.dtype,
        "classes": case.sizes.num_classes,
        "width": case.sizes.width,
        "batch": case.sizes.batch,
    }
