"""The tables and the picture of all runs."""

import statistics

from benchmarks.common import pictures
from benchmarks.fit import measures, training

_REFERENCES = ("from_data", "from_counts")
_NONE = "-"


def table(name, runs, measure):
    """Returns the table of a task for one measure, as text.

    Values are medians over the seeds. "<=" marks a head whose training ended
    before the time, ">=" for measures that grow.

    Args:
      name: of the task.
      runs: of the task, dicts as `results.json` has them.
      measure: one of `measures.NAMES`.
    """
    by_head = _by_head(runs)
    reference = next((h for h in _REFERENCES if h in by_head), None)
    last = max(run["curve"][-1]["steps"] for run in runs)
    marks = sorted({last, *(m for m in training.MARKS if m < last)})
    if runs[0]["epochs"]:
        # Before the last step the learning rate has not fallen to zero.
        reference, marks = None, [last]
    optimum = runs[0]["optimum"]
    title = f"{name}: {measure}"
    if optimum and measure == "perplexity":
        title += f" (optimum {optimum:,.1f})"
    header = ["head", "tree, s", "s per 1,000", *map("{:,}".format, marks)]
    if reference:
        header += [f"t {mark:,}" for mark in marks]
        title += f"; t: after the time that {reference} takes to so many steps"
    rows = [header]
    for head, seeds in by_head.items():
        last_points = [run["curve"][-1] for run in seeds.values()]
        trees = [run["tree_seconds"] for run in seeds.values()]
        steps = [1e3 * p["cpu_seconds"] / p["steps"] for p in last_points]
        row = [head, *(f"{statistics.median(t):.1f}" for t in (trees, steps))]
        for mark in marks:
            values = [
                measures.at_steps(run, mark, measure) for run in seeds.values()
            ]
            row.append(_text(values, measure))
        for mark in marks if reference else ():
            found = [
                _after_time_of(by_head[reference].get(seed), mark, run, measure)
                for seed, run in seeds.items()
            ]
            row.append(_text_of_found(found, measure))
        rows.append(row)
    return f"{title}\n{_aligned(rows)}"


def draw(path, runs):
    """Draws perplexity over steps and seconds; returns the path or None.

    A task has a row, a head a colour, a seed a line.

    Args:
      path: the file to write.
      runs: entries of results.json.
    """
    tasks = list(dict.fromkeys(run["task"] for run in runs))
    heads = list(dict.fromkeys(run["head"] for run in runs))

    def draw_panels(figure):
        panels = figure.subplots(len(tasks), 2, squeeze=False, sharey="row")
        for name, row in zip(tasks, panels, strict=True):
            for axes, x in zip(row, ("steps", "cpu_seconds"), strict=True):
                _draw_curves(
                    axes, [r for r in runs if r["task"] == name], heads, x
                )
                label = {"cpu_seconds": "seconds of CPU time"}.get(x, x)
                axes.set(
                    xlabel=f"{label} (log scale)",
                    ylabel=f"{name}: perplexity (log scale)",
                )
            row[0].legend(frameon=False, fontsize=7)

    return pictures.write(path, (9, 3 * len(tasks)), draw_panels)


def _draw_curves(axes, runs, heads, x):
    named = set()
    for run in runs:
        extra = 0 if x == "steps" else run["tree_seconds"]
        head = run["head"]
        axes.plot(
            [point[x] + extra for point in run["curve"]],
            [point["perplexity"] for point in run["curve"]],
            color=f"C{heads.index(head)}",
            label=None if head in named else head,
            linewidth=1,
        )
        named.add(head)
    pictures.log_ticks(axes.xaxis)
    pictures.log_ticks(axes.yaxis)
    axes.grid(color="#e3e3e3", linewidth=0.6)


def _by_head(runs):
    """Returns head -> seed -> run."""
    result = {}
    for run in runs:
        result.setdefault(run["head"], {})[run["seed"]] = run
    return result


def _after_time_of(reference, mark, run, measure):
    seconds = reference and measures.elapsed(reference, mark)
    if seconds is None:
        return None, False
    return measures.at_seconds(run, seconds, measure)


def _text_of_found(found, measure):
    """The text of pairs as `measures.at_seconds` returns them."""
    sign = ""
    if any(is_last for _, is_last in found):
        sign = "<=" if measure == "perplexity" else ">="
    return sign + _text([value for value, _ in found], measure)


def _text(values, measure):
    known = [value for value in values if value is not None]
    if not known:
        return _NONE
    value = statistics.median(known)
    return f"{value:,.1f}" if measure == "perplexity" else f"{value:.1%}"


def _aligned(rows):
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
