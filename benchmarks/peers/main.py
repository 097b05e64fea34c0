"""Compares the loss with peers outside TensorFlow, those that are installed.

    bazel run //benchmarks:peers
    bazel run //benchmarks:peers -- --workload=1bw --json=$PWD/1bw.json
    bazel run //benchmarks:peers -- --python=$HOME/peers/bin/python
    bazel run //benchmarks:peers -- --workload=labels

benchmarks/README.md says what exactly is timed and counted.
"""

import statistics
import sys
import tempfile

from absl import app, flags

from benchmarks.common import command, define, peer_process
from benchmarks.peers import comparisons, label_trees, report

_LABELS = "labels"
_WORKLOAD = define.names(
    "workload",
    [*comparisons.WORKLOADS, _LABELS],
    f"Workloads, of {', '.join(comparisons.WORKLOADS)}, and {_LABELS}: trees "
    "of many labels.",
    default=["1bw", "text8", "deep", _LABELS],
)
_WORDS = flags.DEFINE_integer(
    "words", 500_000, "Words in the corpus of deep.", lower_bound=10_000
)
_REPETITIONS = define.count("repetitions", 5, "Turns timed for each figure.")
_PYTHON = flags.DEFINE_string(
    "python",
    sys.executable,
    "The interpreter that has the peers, and NumPy.",
)


def _measure(comparison, turns):
    """Takes turns, the first of which warm up.

    Returns:
      Implementation -> {"parameters", "version", "phases"}, where phases is
      phase -> {"ms", "pairs_per_second", "other_cpus", "samples_ms"}, medians
      but for the last; or {"missing": module}.
    """
    processes, results = {}, {}
    try:
        for name, (module, spec) in comparison.implementations.items():
            python = _PYTHON.value
            if name.startswith("ours"):
                python = sys.executable
            try:
                processes[name] = peer_process.Process(module, spec, python)
            except ModuleNotFoundError as error:
                results[name] = {"missing": error.name}
            else:
                results[name] = processes[name].facts | {"phases": {}}
        for phase in comparison.phases:
            samples = {name: [] for name in processes}
            for turn in range(turns):
                for name, process in processes.items():
                    if comparison.of_single_steps:
                        process.run(phase, (turn or turns) - 1)
                    samples[name].append(process.run(phase, turn))
            for name, timed in samples.items():
                results[name]["phases"][phase] = _medians(
                    timed[-_REPETITIONS.value :]
                )
    finally:
        for process in processes.values():
            process.close()
    return results


def _medians(samples):
    milliseconds = [1000 * sample["seconds"] for sample in samples]
    return {
        "ms": statistics.median(milliseconds),
        "pairs_per_second": statistics.median(
            sample["pairs"] / sample["seconds"] for sample in samples
        ),
        "other_cpus": statistics.median(s["other_cpus"] for s in samples),
        "samples_ms": milliseconds,
    }


def main(_):
    """Runs all comparisons, prints their tables and writes the JSON file."""
    threads = command.threads()
    figures = command.Figures(threads)
    for workload in _WORKLOAD.value:
        if workload == _LABELS:
            results = label_trees.compare(_PYTHON.value, threads)
            print("", label_trees.text(results), sep="\n", flush=True)
            figures.add("label_trees", results)
            continue
        with tempfile.TemporaryDirectory() as folder:
            if workload == "deep":
                turns = 1 + _REPETITIONS.value
                comparison = comparisons.skip_gram(
                    _WORDS.value, folder, threads
                )
            else:
                # The threads of PyTorch are slow at first.
                turns = 3 + _REPETITIONS.value
                comparison = comparisons.adaptive(
                    workload, folder, turns, threads
                )
            results = _measure(comparison, turns)
        print("", report.text(comparison, results, threads), sep="\n")
        sys.stdout.flush()
        entry = {"workload": workload, "title": comparison.title}
        figures.add("comparisons", entry | {"results": results})


if __name__ == "__main__":
    app.run(main)
