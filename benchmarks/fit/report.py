"""The tables of all runs."""

import statistics

from benchmarks.common import units
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
    return "\n".join([title, *units.aligned(rows)])


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
