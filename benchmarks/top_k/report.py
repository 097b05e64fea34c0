"""The tables of a head that was asked for its best classes."""

from benchmarks.common import units
from benchmarks.top_k import implementations

_COLUMNS = ("p50 ms", "p99 ms", "x exact", "inputs/s", "calls")


def text(source, question, result):
    """The tables of a head, one for each batch, and what was found.

    Args:
      source: the source of the head.
      question: a `timing.Question`.
      result: a result of `timing.measure`.
    """
    head, needs, rates = result["head"], result["needs"], result["rates"]
    clarity = result["clarity"]
    lines = [
        f"{source}: N={head['classes']:,}, D={head['width']}, "
        f"{head['rows']:,} rows in {head['groups']:,} groups; k={question.k}",
        f"{clarity['inputs']:,} inputs by brute force: the best class has "
        f"p = {clarity['top_1']:.2g}, the entropy is "
        f"{clarity['entropy']:.2f} nats, on average; an exact search must "
        f"score {needs['groups']:,.0f} groups, "
        f"{needs['rows'] / head['rows']:.2%} of all rows",
    ]
    for batch, times in result["batches"].items():
        lines += ["", *_table(times, batch)]
        lines += _bits_lines(result["checks"][batch])
    return "\n".join(
        [
            *lines,
            "",
            *_beam_lines(result["checks"][max(result["checks"])], question.k),
            f"floor: {rates['flops'] / 1e9:,.0f} GFLOP/s, "
            f"{units.of_bytes(rates['read'])}/s read",
        ]
    )


def _table(times, batch):
    """The lines of a table, and notes on what was refused."""
    rows = [[f"batch {batch:,}", *_COLUMNS]]
    notes = []
    exact = times[implementations.EXACT].get("p50_ms")
    for name, time in times.items():
        if "refused" in time:
            rows.append([name, "-"])
            notes.append(f"{name}: refused: {time['refused']}")
            continue
        p99 = calls = ""
        ms = time.get("floor_ms")
        if ms is None:
            ms, p99 = time["p50_ms"], units.of_seconds(time["p99_ms"] / 1e3)
            calls = str(len(time["samples_ms"]))
        ratio = f"{ms / exact:.2f}" if exact else ""
        per_second = units.three_digits(1000 * batch / ms)
        ms = units.of_seconds(ms / 1e3)
        rows.append([name, ms, p99, ratio, per_second, calls])
    return [*units.aligned(rows), *notes]


def _bits_lines(checks):
    """Which results are equal to brute force."""
    groups = {}
    for name, check in checks.items():
        if "bits" in check:
            key = check["bits"], check["inputs"]
            groups.setdefault(key, []).append(name)
    return [
        f"{', '.join(names)}: {bits} as brute force, {inputs:,} inputs"
        for (bits, inputs), names in groups.items()
    ]


def _beam_lines(checks, k):
    return [
        f"{name}: finds {check['found']:.1%} of the {k} best, all of them for "
        f"{check['complete']:.1%} of the inputs, and knows it for "
        f"{check['proved']:.1%}"
        for name, check in checks.items()
        if "found" in check
    ]
