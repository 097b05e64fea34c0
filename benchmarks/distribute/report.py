"""The tables of the command on standard output."""

from benchmarks.common import units

_NAME = 24
_NUMBER = 12
_LABELS = {
    "uniform": "uniform",
    "zipf": "zipf, counts known",
    "one_shard": "all on one device",
}
_PEERS = {
    "one": "one variable",
    "shards": "2 devices",
    "servers": "2 servers",
    "mirrored, sparse": "mirrored, sparse",
    "mirrored, dense": "mirrored, dense",
    "fetching": "rows fetched",
}


def title(kind, sizes):
    """What stands above what is measured."""
    head = f"{sizes.classes:,} classes x {sizes.width}, batch {sizes.batch:,}"
    return {
        "devices": f"virtual devices of one process, {head}; ms a step",
        "trace": f"until the first step, {head}",
        "servers": f"servers on loopback, {head}, and a tenth of the classes",
        "peers": "peers, by plain SGD",
        "large": f"a head of two servers, {head}, adagrad",
    }[kind]


def text(kind, entry):
    """The lines of an entry of the JSON file."""
    return "\n".join(_TEXTS[kind](entry))


def _of_devices(entry):
    times = entry["times"]
    yield _row("labels: " + _LABELS[entry["labels"]], "ms", "x one", "fullest")
    for name, result in times.items():
        yield _row(
            {"one": "one variable", "top": "the top alone"}.get(
                name, f"{name} device{'s' * (name != '1')}"
            ),
            units.of_seconds(result["ms"] / 1000),
            f"{result['x_one']:.2f}",
            f"{result['fullest']:.0%}" if "fullest" in result else "",
        )


def _of_trace(entry):
    yield _row(f"{entry['devices']} devices", "s", "CPU s")
    for name, lap in entry["laps"].items():
        yield _row(
            name.replace("_", " "),
            f"{lap['seconds']:.2f}",
            f"{lap['cpu_seconds']:.2f}",
        )


def _of_servers(entry):
    one, servers = entry["one"], entry["on_servers"]
    yield (
        f"servers: {entry['servers']}, classes: {entry['classes']:,}: "
        f"{units.of_seconds(servers['ms'] / 1000)} ms, one variable "
        f"{units.of_seconds(one['ms'] / 1000)} ms, x {servers['x_one']:.2f}; "
        f"{servers['bytes']:,.0f} bytes, x {servers['bytes_x_bound']:.3f} the "
        f"bound of {servers['bound']:,.0f}{_shared(entry)}"
    )


def _of_peers(entry):
    sizes = entry["sizes"]
    yield (
        f"{sizes['classes']:,} classes x {sizes['width']}, batch "
        f"{sizes['batch']:,}"
    )
    for kind in ("here", "servers"):
        results = entry[kind]
        yield _row(
            {"here": "one process", "servers": "servers on loopback"}[kind],
            "ms",
            "x one",
            "exchanged",
        )
        for name, label in _PEERS.items():
            if name not in results:
                continue
            result = results[name]
            sent = name != "one" and "bytes" in result
            yield _row(
                f"  {label}",
                units.of_seconds(result["ms"] / 1000),
                f"{result['x_one']:.2f}",
                units.of_bytes(result["bytes"]) if sent else "",
            )
    yield "mirrored: what an all-reduce must send; servers: counted"


def _of_large(entry):
    yield f"weights and slots: {units.of_bytes(entry['head'])}"
    yield _row("", "s", "server", "at peak", "here", "at peak")
    for stage in entry["stages"]:
        yield _row(
            stage["name"],
            f"{stage['seconds']:.1f}",
            *(
                units.of_bytes(number)
                for number in (
                    max(stage["servers"]["now"]),
                    max(stage["servers"]["peak"]),
                    stage["here"]["now"],
                    stage["here"]["peak"],
                )
            ),
        )


def _shared(entry):
    if entry["shared_network"]:
        return ", with what other programs sent"
    return ""


def _row(name, *columns):
    cells = "".join(f"{column:>{_NUMBER}}" for column in columns)
    return f"{name:<{_NAME}}{cells}".rstrip()


_TEXTS = {
    "devices": _of_devices,
    "trace": _of_trace,
    "servers": _of_servers,
    "peers": _of_peers,
    "large": _of_large,
}
