"""Compares the loss op with stock TensorFlow, and with what the machine can do.

    bazel run //benchmarks:loss
    bazel run //benchmarks:loss -- --workload=10m-b400 --json=$PWD/10m.json
    bazel run //benchmarks:loss -- --workload=1m-b400 --copy_on_read

Every figure is measured in this run. README.md beside this file says how.
"""

import concurrent.futures.process
import json
import pathlib
import sys

from absl import app, flags

from benchmarks import (
    _copy_on_read,
    _implementations,
    _machine,
    _memory,
    _report,
    _timing,
    _workloads,
)

_WORKLOAD = flags.DEFINE_list(
    "workload",
    ["1m-b400", "text8"],
    f"Workloads, of {', '.join(_workloads.WORKLOADS)}.",
)
_LABELS = flags.DEFINE_enum(
    "labels",
    None,
    [*_workloads.LABELS, "both"],
    "How labels are drawn; class 0 is the most frequent of zipf. By default "
    "the first kind that a workload is defined with.",
)
_TREE = flags.DEFINE_string(
    "tree",
    None,
    f"{', '.join(_workloads.TREES)} or balanced:K, with groups of K. By "
    "default those that a workload is defined with.",
)
_IMPLEMENTATIONS = flags.DEFINE_list(
    "implementations",
    list(_implementations.IMPLEMENTATIONS),
    "What is compared, some of the default.",
)
flags.register_validator(
    "implementations",
    lambda names: set(names) <= set(_implementations.IMPLEMENTATIONS),
    f"must be of {', '.join(_implementations.IMPLEMENTATIONS)}",
)
_DTYPE = flags.DEFINE_enum(
    "dtype",
    "float32",
    ["float32", "bfloat16", "float16", "float64"],
    "The type of weights and inputs.",
)
_REPETITIONS = flags.DEFINE_integer(
    "repetitions", 15, "Steps timed for each figure.", lower_bound=1
)
_THREADS = flags.DEFINE_integer(
    "threads", None, "CPUs to use; all by default.", lower_bound=1
)
_MEMORY = flags.DEFINE_bool(
    "memory",
    True,
    "Also measures peak memory, each implementation in a process of its own.",
)
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
_JSON = flags.DEFINE_string("json", None, "Also writes all figures here.")
_COPY_ON_READ = flags.DEFINE_bool(
    "copy_on_read",
    False,
    "Instead of the comparison: what the first sparse update of the weights "
    "does to the steps after it.",
)


def _compare(case, settings):
    """Prints and returns the comparison of one case."""
    result = _machine.run_alone(_timing.time_case, case, settings)
    if _MEMORY.value:
        result["memory"] = {
            name: _memory_of(case, name, times, settings.threads)
            for name, times in result["phases"].items()
            if any("ms" in time for time in times.values())
        }
    print(_report.case_text(case, result))
    return result


def _memory_of(case, name, times, threads):
    phases = [phase for phase, time in times.items() if "ms" in time]
    try:
        return _machine.run_alone(_memory.measure, case, name, phases, threads)
    except concurrent.futures.process.BrokenProcessPool:
        return {"failed": "killed"}


def _show_copies(case, settings):
    """Prints and returns the copy-on-read measurements of one case."""
    result = {
        reader: {
            phase: _machine.run_alone(
                _copy_on_read.measure, case, reader, phase, settings
            )
            for phase in ("forward", "forward_backward")
        }
        for reader in _copy_on_read.READERS
    }
    print(_report.copy_on_read_text(case, result))
    return result


def main(_):
    """Runs all cases, prints their tables and writes the JSON file."""
    threads = min(_THREADS.value or _machine.num_cpus(), _machine.num_cpus())
    try:
        cases = _workloads.cases(
            _WORKLOAD.value, _TREE.value, _LABELS.value, _DTYPE.value
        )
    except ValueError as error:
        sys.exit(str(error))
    memory_limit = _MEMORY_LIMIT.value and 1e9 * _MEMORY_LIMIT.value
    settings = _timing.Settings(
        tuple(dict.fromkeys(_IMPLEMENTATIONS.value)),
        _REPETITIONS.value,
        threads,
        memory_limit,
        _TIME_LIMIT.value,
    )
    report = {
        "machine": _machine.facts(threads),
        "settings": settings._asdict(),
        "cases": [],
    }
    print(_report.machine_text(report["machine"]))
    measure = _show_copies if _COPY_ON_READ.value else _compare
    for case in cases:
        print(flush=True)
        report["cases"].append(
            {
                "workload": case.workload,
                "tree_name": case.tree,
                "labels": case.labels,
                "dtype": case.dtype,
                "classes": case.sizes.num_classes,
                "width": case.sizes.width,
                "batch": case.sizes.batch,
                "result": measure(case, settings),
            }
        )
        if _JSON.value:
            # After each case, so that a long run loses none.
            text = json.dumps(report, indent=2)
            pathlib.Path(_JSON.value).write_text(text + "\n")


if __name__ == "__main__":
    app.run(main)
