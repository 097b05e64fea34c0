"""The comparison of heads as text, and the medians of its runs."""

import statistics

_COLUMNS = (
    # title, key, width, format
    ("test", "test_perplexity", 10, ".1f"),
    ("valid", "validation_perplexity", 9, ".1f"),
    ("tokens/s", "tokens_per_s", 10, ",.0f"),
    ("steps", "steps", 8, ",.0f"),
    ("seconds", "seconds", 9, ".1f"),
    ("head, ms", "head_ms", 10, ".1f"),
    ("step, ms", "step_ms", 10, ".1f"),
    ("CPU, ms", "processor_ms", 10, ".1f"),
    ("parameters", "parameters", 13, ",.0f"),
)


def median(runs, key):
    """The median of what was measured in the runs of a head, or None."""
    values = [run[key] for run in runs if run.get(key) is not None]
    return statistics.median(values) if values else None


def table(results):
    """The medians over the seeds, and the range of the test perplexity.

    Args:
        results: name of a head -> a list of what `comparison.train` returned.
    """
    titles = "".join(f"{title:>{width}}" for title, _, width, _ in _COLUMNS)
    lines = [f"{'head':<26}{titles}"]
    for name, runs in results.items():
        cells = []
        for _, key, width, form in _COLUMNS:
            value = median(runs, key)
            text = "-" if value is None else format(value, form)
            cells.append(f"{text:>{width}}")
        if len(runs) > 1:
            values = [run["test_perplexity"] for run in runs]
            cells.append(f"   test {min(values):.1f} to {max(values):.1f}")
        lines.append(f"{name:<26}{''.join(cells)}")
    seeds = max(map(len, results.values()))
    if seeds > 1:
        lines.append(f"Medians of {seeds} seeds.")
    lines.append("test, valid: perplexities of these parts of the text.")
    return "\n".join(lines)
