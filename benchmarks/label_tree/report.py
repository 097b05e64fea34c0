"""The tables on standard output."""

from benchmarks.common import units


def training(sizes, result):
    """What a tree trained in place has cost and learned.

    Args:
      sizes: `in_place.Sizes`.
      result: what `in_place.measure` returned.
    """
    rate = sizes.batch / (result["ms"] / 1000)
    return "\n".join(
        [
            f"{sizes.labels:,} labels, width {sizes.width:,}, batches of "
            f"{sizes.batch:,} with 1 to {sizes.most} labels, "
            f"{sizes.steps:,} steps of RowwiseAdagrad in place",
            "",
            f"a step: {units.of_seconds(result['ms'] / 1000)} ms, "
            f"{units.of_rate(rate)} examples per second",
            f"rows visited in a step: {result['visited_rows']:,.0f} of "
            f"{result['rows']:,}",
            "memory beside parameters and slots, at most: "
            f"{units.of_bytes(result['extra_bytes'])}",
            "the 5 best labels, exactly: "
            f"{units.of_seconds(result['top_5_ms'] / 1000)} ms for a batch",
            "",
            f"{'':<12}{'P@1':>8}{'P@3':>8}{'P@5':>8}   %",
            _line("new ones", result["precisions"]),
        ]
    )


def comparison(results):
    """Precisions of ours and of napkinXC's trees; see `compared.compare`."""
    lines = [f"{'':<12}{'P@1':>8}{'P@3':>8}{'P@5':>8}   %, and training"]
    for name, result in results.items():
        if "missing" in result:
            lines.append(f"{name:<12}not installed: {result['missing']}")
            continue
        line = _line(name, result["precisions"])
        lines.append(f"{line}   {result['seconds']:.1f} s")
        if "same_nodes" in result:
            same = "the same" if result["same_nodes"] else "OTHER"
            lines.append(f"{'':<12}trains {same} nodes on each example as ours")
    return "\n".join(lines)


def extreme(results):
    """A table of ours and its peers; see `extreme.compare`."""
    lines = []
    for name, result in results.items():
        if "missing" in result:
            lines.append(f"{name:<18}not installed: {result['missing']}")
            continue
        if not lines or "P@1" not in lines[0]:
            heads = "".join(f"{name:>8}" for name in result["scores"])
            lines.insert(
                0, f"{'':<18}{heads}   %{'CPU s':>8}{'ms':>8}{'model':>10}"
            )
        scores = "".join(f"{s:>8.1f}" for s in result["scores"].values())
        lines.append(
            f"{name:<18}{scores}    {result['cpu_seconds']:>8.1f}"
            f"{result['ms']:>8.3f}{units.of_bytes(result['bytes']):>10}"
        )
    return "\n".join(lines)


def _line(name, precisions):
    return f"{name:<12}" + "".join(f"{p:>8.1f}" for p in precisions)
