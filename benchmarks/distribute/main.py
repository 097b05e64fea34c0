"""A head on devices and servers: time, bytes on the wire, and its peers.

    bazel run //benchmarks:distribute
    bazel run //benchmarks:distribute -- --what=servers --width=512
    bazel run //benchmarks:distribute -- --what=large --classes=3900000

benchmarks/README.md says what is timed and counted.
"""

import sys

from absl import app, flags

from benchmarks.common import command, count_flags, limits, machine, name_flags
from benchmarks.distribute import (
    devices,
    mirrored,
    network,
    plots,
    report,
    steps,
)

_KINDS = ("devices", "trace", "servers", "peers", "large")
_WHAT = name_flags.define(
    "what",
    _KINDS,
    f"What is measured, of {', '.join(_KINDS)}.",
    default=list(_KINDS[:-1]),
)
_CLASSES = flags.DEFINE_integer(
    "classes",
    1_000_000,
    "Classes; servers are also measured with a tenth of them, and peers with "
    "a fifth.",
    lower_bound=100,
)
_WIDTH = count_flags.define("width", 128, "Weights in a row.")
_BATCH = flags.DEFINE_integer(
    "batch", 2_048, "Examples in a batch, an even number.", lower_bound=2
)
_LABELS = name_flags.define(
    "labels",
    steps.LABELS,
    f"How labels are drawn for devices, of {', '.join(steps.LABELS)}.",
)
_DEVICES = flags.DEFINE_multi_integer(
    "devices", [1, 2, 4, 8], "Numbers of virtual devices.", lower_bound=1
)
_SERVERS = flags.DEFINE_multi_integer(
    "servers", [1, 2, 4], "Numbers of servers.", lower_bound=1
)
_TRACED = count_flags.define(
    "traced", 64, "Devices of the head that is traced."
)
_REPETITIONS = count_flags.define(
    "repetitions", 15, "Steps timed for each figure."
)
_FOLDER = flags.DEFINE_string(
    "folder", None, "Where large writes its checkpoint; all servers see it."
)
_PLOTS = flags.DEFINE_string(
    "plots",
    "docs/distribution",
    "Folder for the plot, from where the command is called; none if empty.",
)
_RESTORE = flags.DEFINE_bool(
    "restore", True, "Whether large also reads its checkpoint."
)
# Copies of a head with its slots while it is built, and while it is restored.
_COPIES, _COPIES_TO_RESTORE = 1.7, 2.2
_LARGE_SERVERS, _LARGE_STEPS = 2, 20
_PEER_WIDTH, _PEER_BATCH = 64, 1_024


def _devices(sizes, threads):
    for labels in _LABELS.value:
        times = machine.run_alone(
            devices.measure,
            sizes,
            labels,
            sorted(set(_DEVICES.value)),
            _REPETITIONS.value,
            threads,
        )
        yield {"labels": labels, "times": times}


def _trace(sizes, threads):
    yield {
        "devices": _TRACED.value,
        "laps": machine.run_alone(devices.trace, sizes, _TRACED.value, threads),
    }


def _servers(sizes, threads):
    del threads  # Servers take what there is.
    for count in _SERVERS.value:
        for classes in (sizes.classes // 10, sizes.classes):
            result = network.run(
                "distribute.on_servers",
                sizes=sizes._replace(classes=classes),
                count=count,
                repetitions=_REPETITIONS.value,
            )
            yield {"servers": count, "classes": classes, **result}


def _peers(sizes, threads):
    sizes = steps.Sizes(
        sizes.classes // 5,
        min(sizes.width, _PEER_WIDTH),
        min(sizes.batch, _PEER_BATCH),
    )
    yield {
        "sizes": sizes._asdict(),
        "here": machine.run_alone(
            mirrored.measure, sizes, _REPETITIONS.value, threads
        ),
        "servers": network.run(
            "distribute.fetching",
            sizes=sizes,
            count=2,
            repetitions=_REPETITIONS.value,
        ),
    }


def _large(sizes, threads):
    del threads
    head_bytes = 2 * 4 * sizes.classes * (sizes.width + 1)
    copies = _COPIES_TO_RESTORE if _RESTORE.value else _COPIES
    room = limits.Limits(machine.available_bytes(), seconds=0)
    refusal = room.refusal(0, copies * head_bytes, seconds=0)
    if refusal:
        sys.exit(f"large: {refusal}")
    yield network.run(
        "distribute.large",
        sizes=sizes,
        count=_LARGE_SERVERS,
        num_steps=_LARGE_STEPS,
        folder=_FOLDER.value,
        restores=_RESTORE.value,
    )


def main(_):
    """Measures all that is asked for, and prints, draws and writes it."""
    if _BATCH.value % 2:
        sys.exit(f"--batch is {_BATCH.value}, but must be even: two replicas")
    sizes = steps.Sizes(_CLASSES.value, _WIDTH.value, _BATCH.value)
    threads = command.threads()
    figures = command.Figures(threads, sizes=sizes._asdict())
    measures = (_devices, _trace, _servers, _peers, _large)
    entries = {}
    for kind, measure in zip(_KINDS, measures, strict=True):
        if kind not in _WHAT.value:
            continue
        print(f"\n{report.title(kind, sizes)}", flush=True)
        for entry in measure(sizes, threads):
            figures.add(kind, entry)
            entries.setdefault(kind, []).append(entry)
            print(report.text(kind, entry), flush=True)
    if _PLOTS.value and {"devices", "servers", "peers"} <= entries.keys():
        path = plots.draw(_PLOTS.value, sizes, entries)
        print(path or "no plot: matplotlib is not installed", flush=True)


if __name__ == "__main__":
    app.run(main)
