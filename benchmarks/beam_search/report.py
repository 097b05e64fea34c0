"""What is printed of a head that was searched for sequences."""

from benchmarks.beam_search import implementations
from benchmarks.heads import call_report


def text(source, question, result):
    """The tables of a head, one for each batch.

    Args:
      source: what made the head.
      question: a `timing.Question`.
      result: what `timing.measure` returned.
    """
    lines = [
        call_report.head_text(source, result["head"]),
        call_report.clarity_text(result["clarity"]),
    ]
    for batch, times in result["batches"].items():
        lines += [
            "",
            *call_report.table(
                f"batch {batch:,}, width {question.beam_width}, "
                f"{question.length} steps",
                times,
                "steps",
                batch * question.length,
                implementations.OURS,
            ),
            "those of the tree: "
            + ("same bits" if result["same"][batch] else "DIFFERENT"),
        ]
    return "\n".join(lines)
