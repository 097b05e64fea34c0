"""What is printed of a head that classes were drawn from."""

from benchmarks.heads import call_report
from benchmarks.sample import implementations


def text(source, question, result):
    """The tables of a head, one for each batch and number of draws.

    Args:
      source: what made the head.
      question: a `timing.Question`.
      result: what `timing.measure` returned.
    """
    del question  # The tables say it.
    found = ", ".join(
        f"{name}: {size:,.0f}" for name, size in result["found"].items()
    )
    lines = [
        call_report.head_text(source, result["head"]),
        call_report.clarity_text(result["clarity"]),
        f"classes that a draw is among, on average: {found}",
    ]
    for table in result["tables"]:
        batch, num_samples = table["batch"], table["num_samples"]
        lines += [
            "",
            *call_report.table(
                f"batch {batch:,}, {num_samples:,} of each",
                table["times"],
                "draws",
                batch * num_samples,
                implementations.ANCESTRAL,
            ),
        ]
    return "\n".join([*lines, "", *_check_lines(result["checks"])])


def _check_lines(checks):
    return [
        f"{name}: {'right' if check['right'] else 'WRONG'}: of "
        f"{check['draws']:,} draws {check['outside']:,} are of other classes, "
        f"and the mean of log p is off by {check['deviations']:+.1f} standard "
        "deviations"
        for name, check in checks.items()
    ]
