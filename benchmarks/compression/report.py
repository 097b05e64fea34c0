"""What is printed of a head with weights of several types."""

from benchmarks.common import units
from benchmarks.heads import call_report


def text(source, question, result):
    """The tables of a head.

    Args:
      source: what made the head.
      question: a `timing.Question`.
      result: what `timing.measure` or `label_tree.measure` returned.
    """
    types = result["types"]
    (one, *_) = types.values()
    measure = "loss" if "loss" in one else "perplexity"
    lines = [
        call_report.head_text(source, result["head"]) + f"; k={question.k}",
        "",
        f"{'weights':<12}{'bytes':>10}{'share':>8}{'top-1 equal':>13}"
        f"{measure:>12}{'change':>10}",
    ]
    for name, found in types.items():
        line = (
            f"{name:<12}{units.of_bytes(found['bytes']):>10}"
            f"{found['bytes'] / one['bytes']:>8.3f}{found['top_1']:>13.2%}"
        )
        if found[measure] is not None:
            change = found[measure] / one[measure] - 1
            line += f"{found[measure]:>12.4g}{change:>+10.3%}"
        lines.append(line)
    for batch, times in result["batches"].items():
        lines += [
            "",
            *call_report.table(
                f"batch {batch:,}", times, "inputs", batch, "float32"
            ),
        ]
    return "\n".join(lines)
