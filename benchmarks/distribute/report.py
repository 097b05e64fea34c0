"""The tables of the command on standard output."""

from benchmarks.common import units

_LABELS = {
    "uniform": "uniform",
    "zipf": "zipf, counts known",
    "one_shard": "all on one device",
}


def title(kind, sizes):
    """The line above the figures of a kind."""
    head = f"{sizes.classes:,} classes x {sizes.width}, batch {sizes.batch:,}"
    return {
        "devices": f"virtual devices of one process, {head}; ms a step",
        "servers": f"servers on loopback, {head}, and a tenth of the classes",
        "plans": f"plans of replicas, {head}; ms a step by the cost model",
    }[kind]


def text(kind, entry):
    """The lines of an entry of the JSON file."""
    lines = {
        "devices": _devices_lines,
        "servers": _servers_lines,
        "plans": _plan_lines,
    }[kind]
    return "\n".join(lines(entry))


def _devices_lines(entry):
    yield _row("labels: " + _LABELS[entry["labels"]], "ms", "x one", "fullest")
    for name, result in entry["times"].items():
        yield _row(
            {"one": "one variable", "top": "the top alone"}.get(
                name, f"{name} device{'s' * (name != '1')}"
            ),
            units.of_seconds(result["ms"] / 1000),
            f"{result['x_one']:.2f}",
            f"{result['fullest']:.0%}" if "fullest" in result else "",
        )


def _servers_lines(entry):
    one, servers = entry["one"], entry["on_servers"]
    others = ", with what other programs sent" * entry["shared_network"]
    yield (
        f"servers: {entry['servers']}, classes: {entry['classes']:,}: "
        f"{units.of_seconds(servers['ms'] / 1000)} ms, one variable "
        f"{units.of_seconds(one['ms'] / 1000)} ms, x {servers['x_one']:.2f}; "
        f"{servers['bytes']:,.0f} bytes, x {servers['bytes_x_bound']:.3f} the "
        f"bound of {servers['bound']:,.0f}{others}"
    )


def _plan_lines(entry):
    yield (
        f"replicas: {entry['replicas']}, labels: {_LABELS[entry['labels']]}: "
        f"{entry['planned_ms']:.3g} ms planned, {entry['ms']:.3g} ms "
        f"simulated; the mean shard waits {entry['waiting']:.0%}"
    )


def _row(name, *columns):
    cells = "".join(f"{column:>12}" for column in columns)
    return f"{name:<28}{cells}".rstrip()
