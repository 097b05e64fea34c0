"""The table of the optimizers on standard output."""

from benchmarks.common import units, update_rules

_NAME = 18


def text(sizes, results):
    """The table, and how far ours are from what Keras does fast.

    Args:
      sizes: `steps.Sizes`.
      results: what `steps.measure` returned.
    """
    lines = [
        f"{sizes.rows:,} x {sizes.width:,} float32, {sizes.touched:,} rows "
        "touched: ms per step",
        "",
        f"{'':<{_NAME}}{'ours':>10}{'Keras':>10}{'x ours':>10}",
    ]
    for rule, times in results.items():
        ours, keras = times["ours"]["ms"], times["keras"]["ms"]
        lines.append(
            f"{rule:<{_NAME}}{units.of_seconds(ours / 1000):>10}"
            f"{units.of_seconds(keras / 1000):>10}{keras / ours:>10.1f}"
        )
    plain = results[update_rules.PLAIN_SGD]["keras"]["ms"]
    slowest = max(times["ours"]["ms"] for times in results.values())
    lines += [
        "",
        f"Keras' plain SGD, its only one that is O(touched rows): {plain:.2f} "
        f"ms; the slowest of ours takes {slowest / plain:.1f} x that",
    ]
    return "\n".join(lines)
