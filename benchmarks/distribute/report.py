"""The tables of the command on standard output."""

from benchmarks.common import units

_LABELS = {
    "uniform": "uniform",
    "zipf": "zipf, counts known",
    "one_shard": "all on one device",
    "shard_of_next": "a worker's all on the next",
}


def title(kind, sizes):
    """The line above the figures of a kind."""
    head = f"{sizes.classes:,} classes x {sizes.width}, batch {sizes.batch:,}"
    return {
        "devices": f"virtual devices of one process, {head}; ms a step",
        "servers": f"servers on loopback, {head}, and a tenth of the classes",
        "workers": f"workers on loopback, {head}",
        "plans": f"plans of replicas, {head}; ms a step by the cost model",
    }[kind]


def text(kind, entry):
    """The text of an entry of the JSON file."""
    texts = {
        "devices": _devices,
        "servers": _servers,
        "workers": _workers,
        "plans": _plan,
    }
    return texts[kind](entry)


def _devices(entry):
    rows = [["labels: " + _LABELS[entry["labels"]], "ms", "x one", "fullest"]]
    names = {"one": "one variable", "top": "the top alone", "1": "1 device"}
    for name, result in entry["times"].items():
        row = [
            names.get(name, f"{name} devices"),
            units.of_seconds(result["ms"] / 1000),
            f"{result['x_one']:.2f}",
        ]
        if "fullest" in result:
            row.append(f"{result['fullest']:.0%}")
        rows.append(row)
    return "\n".join(units.aligned(rows))


def _servers(entry):
    one, servers = entry["one"], entry["on_servers"]
    others = ", with what other programs sent" * entry["shared_network"]
    return (
        f"servers: {entry['servers']}, classes: {entry['classes']:,}: "
        f"{units.of_seconds(servers['ms'] / 1000)} ms, one variable "
        f"{units.of_seconds(one['ms'] / 1000)} ms, x {servers['x_one']:.2f}; "
        f"{servers['bytes']:,.0f} bytes, x {servers['bytes_x_bound']:.3f} the "
        f"bound of {servers['bound']:,.0f}{others}"
    )


def _workers(entry):
    others = ", with what other programs sent" * entry["shared_network"]
    return (
        f"workers: {entry['workers']}, labels: {_LABELS[entry['labels']]}: "
        f"{entry['bytes']:,.0f} bytes a step, x "
        f"{entry['bytes'] / entry['planned_bytes']:.3f} the "
        f"{entry['planned_bytes']:,.0f} of the plan{others}"
    )


def _plan(entry):
    return (
        f"replicas: {entry['replicas']}, labels: {_LABELS[entry['labels']]}: "
        f"{entry['planned_ms']:.3g} ms planned, {entry['ms']:.3g} ms "
        f"simulated; the mean shard waits {entry['waiting']:.0%}"
    )
