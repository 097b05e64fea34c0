"""What a comparison found, as a table."""

import statistics

import numpy as np

_NEIGHBOURS = 10
_FREQUENT = 1000


def text(done, reference):
    """The table of what `runs.all_runs` returns.

    It has medians over the seeds, and the mean of the overlaps.
    """
    near = neighbours(reference)
    lines = [f"{'':16} {'words/s':>9} {'ratio':>6} {'loss':>8} {'overlap':>8}"]
    first = None
    for name, of_name in done.items():
        rate = statistics.median(run.words_per_s for run in of_name)
        first = first or rate
        overlaps = [overlap(neighbours(run.vectors), near) for run in of_name]
        lines.append(
            f"{name:16} {rate:9,.0f} {rate / first:6.2f} "
            f"{statistics.median(run.loss for run in of_name):8.4f} "
            f"{np.mean(overlaps):8.1%}"
        )
    return "\n".join(lines)


def neighbours(vectors):
    """The nearest by cosine of each frequent word, `[n, 10]`."""
    unit = vectors / np.maximum(
        np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30
    )
    count = min(_FREQUENT, len(unit))
    cosines = unit[:count] @ unit.T
    cosines[np.arange(count), np.arange(count)] = -np.inf
    most = min(_NEIGHBOURS, len(unit) - 1)
    return np.argpartition(-cosines, most - 1, axis=1)[:, :most]


def overlap(one, other):
    """The mean share that two results of `neighbours` have in common."""
    common = [
        len(np.intersect1d(a, b)) for a, b in zip(one, other, strict=True)
    ]
    return np.mean(common) / one.shape[1]
