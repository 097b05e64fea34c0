"""A head on devices, servers and workers: time, and bytes on the wire.

    bazel run //benchmarks:distribute
    bazel run //benchmarks:distribute -- --what=servers --width=512

benchmarks/README.md says what is timed and counted.
"""

from absl import app, flags

from benchmarks.common import command, define, machine
from benchmarks.distribute import devices, network, report, simulation, steps

_KINDS = ("devices", "servers", "workers", "plans")
_WHAT = define.names(
    "what", _KINDS, f"What is measured, of {', '.join(_KINDS)}."
)
_CLASSES = flags.DEFINE_integer(
    "classes",
    1_000_000,
    "Classes; servers are also measured with a tenth of them.",
    lower_bound=100,
)
_WIDTH = define.count("width", 128, "Weights in a row.")
_BATCH = define.count("batch", 2_048, "Examples in a batch.")
_LABELS = define.names(
    "labels",
    steps.LABELS,
    f"How labels are drawn, of {', '.join(steps.LABELS)}; not for servers.",
)
_DEVICES = flags.DEFINE_multi_integer(
    "devices",
    [1, 2, 4, 8],
    "Numbers of virtual devices, and of replicas of plans.",
    lower_bound=1,
)
_SERVERS = flags.DEFINE_multi_integer(
    "servers", [1, 2, 4], "Numbers of servers.", lower_bound=1
)
_WORKERS = flags.DEFINE_multi_integer(
    "workers", [2, 4], "Numbers of workers.", lower_bound=2
)
_REPETITIONS = define.count("repetitions", 15, "Steps timed for each figure.")


def _devices(sizes):
    for labels in _LABELS.value:
        times = machine.run_alone(
            devices.measure,
            sizes,
            labels,
            sorted(set(_DEVICES.value)),
            _REPETITIONS.value,
            command.threads(),
        )
        yield {"labels": labels, "times": times}


def _servers(sizes):
    for count in _SERVERS.value:
        for classes in (sizes.classes // 10, sizes.classes):
            result = network.run(
                "distribute.on_servers",
                sizes=sizes._replace(classes=classes),
                count=count,
                repetitions=_REPETITIONS.value,
            )
            yield {"servers": count, "classes": classes, **result}


def _workers(sizes):
    for labels in _LABELS.value:
        for count in _WORKERS.value:
            result = network.run(
                "distribute.on_workers",
                sizes=sizes,
                kind=labels,
                count=count,
                repetitions=_REPETITIONS.value,
            )
            yield {"labels": labels, "workers": count, **result}


def _plans(sizes):
    for labels in _LABELS.value:
        for count in sorted(set(_DEVICES.value)):
            result = simulation.measure(
                sizes, labels, count, _REPETITIONS.value
            )
            yield {"labels": labels, "replicas": count, **result}


def main(_):
    """Measures, prints and writes what --what says."""
    sizes = steps.Sizes(_CLASSES.value, _WIDTH.value, _BATCH.value)
    figures = command.Figures(command.threads(), sizes=sizes._asdict())
    measures = _devices, _servers, _workers, _plans
    for kind, measure in zip(_KINDS, measures, strict=True):
        if kind not in _WHAT.value:
            continue
        print(f"\n{report.title(kind, sizes)}", flush=True)
        for entry in measure(sizes):
            figures.add(kind, entry)
            print(report.text(kind, entry), flush=True)


if __name__ == "__main__":
    app.run(main)
