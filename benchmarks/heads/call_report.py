"""The tables of timed calls on standard output."""

from benchmarks.common import units

_NAME = 36


def head_text(source, facts):
    """Names a head.

    Args:
      source: what made it.
      facts: what `heads.facts` says of it.
    """
    return (
        f"{source}: N={facts['classes']:,}, D={facts['width']}, "
        f"{facts['rows']:,} rows in {facts['groups']:,} groups"
    )


def clarity_text(clarity):
    """How sure the model is of itself: means of `brute_force.clarity`."""
    return (
        f"{clarity['inputs']:,} inputs by brute force: the best class has "
        f"p = {clarity['top_1']:.2g}, the entropy is "
        f"{clarity['entropy']:.2f} nats, on average"
    )


def table(title, times, unit, results, first):
    """One table.

    Args:
      title: what a call is given.
      times: name -> {"p50_ms", "p99_ms", "samples_ms"}, {"refused"},
        {"missing"}, or {"floor_ms"}.
      unit: what there are `results` of in a call.
      results: their number.
      first: the name of the row that ratios are to.

    Returns:
      Lines: the table, and notes on what was refused.
    """
    lines = [
        f"{title:<{_NAME}}{'p50 ms':>10}{'p99 ms':>10}"
        f"{'x ' + first:>12}{unit + '/s':>13}{'calls':>7}"
    ]
    notes = []
    one = times.get(first, {}).get("p50_ms")
    for name, time in times.items():
        if "p50_ms" in time:
            ms, p99 = time["p50_ms"], units.of_seconds(time["p99_ms"] / 1e3)
            calls = f"{len(time['samples_ms']):>7}"
        elif "floor_ms" in time:
            ms, p99, calls = time["floor_ms"], "", ""
        else:
            lines.append(f"{name:<{_NAME}}{'-':>10}")
            notes += [f"{name}: {kind}: {why}" for kind, why in time.items()]
            continue
        ratio = f"{ms / one:.2f}" if one else ""
        lines.append(
            f"{name:<{_NAME}}{units.of_seconds(ms / 1e3):>10}{p99:>10}"
            f"{ratio:>12}{units.of_rate(1000 * results / ms):>13}{calls}"
        )
    return [*lines, *notes]
