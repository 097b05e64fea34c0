"""What is printed of a head that was asked for its best classes."""

from benchmarks.common import units
from benchmarks.heads import call_report
from benchmarks.top_k import implementations


def text(source, question, result):
    """The tables of a head, one for each batch, and what was found.

    Args:
      source: what made the head.
      question: a `timing.Question`.
      result: what `timing.measure` returned.
    """
    head, needs, rates = result["head"], result["needs"], result["rates"]
    lines = [
        call_report.head_text(source, head) + f"; k={question.k}",
        call_report.clarity_text(result["clarity"])
        + f"; an exact search must score {needs['groups']:,.0f} groups, "
        f"{needs['rows'] / head['rows']:.2%} of all rows",
    ]
    for batch, times in result["batches"].items():
        lines += [
            "",
            *call_report.table(
                f"batch {batch:,}",
                times,
                "inputs",
                batch,
                implementations.EXACT,
            ),
            *_bits_lines(result["checks"][batch]),
        ]
    return "\n".join(
        [
            *lines,
            "",
            *_beam_lines(result["checks"][max(result["checks"])], question.k),
            f"floor: {rates['flops'] / 1e9:,.0f} GFLOP/s, "
            f"{units.of_bytes(rates['read'])}/s read",
        ]
    )


def _bits_lines(checks):
    """Which results are those of brute force."""
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
