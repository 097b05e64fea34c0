"""What is varied, one thing at a time, and the measurements that this takes."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.common import (
    digest,
    implementations,
    machine,
    timing,
    units,
    workloads,
)

PHASES = ("forward", "forward_backward")
SAME = "same bits"
_DEPTHS = (1, 2, 3, 4, 5, 7, 10, 14, 20)


class Range(NamedTuple):
    """The ends of the sweeps."""

    min_classes: int
    max_classes: int
    max_batch: int


class Point(NamedTuple):
    """One value of what is varied."""

    x: int
    # Title of a column -> its cell.
    columns: dict[str, str]
    result: dict  # of `timing.time_case`
    # Which of several curves it belongs to.
    curve: str = ""


class Sweep(NamedTuple):
    """How one thing is varied."""

    axis: str
    # (case) -> what stays the same.
    title: Callable[[workloads.Case], str]
    implementations: tuple[str, ...]
    # (base case, settings, range) -> points in order, as they are measured.
    points: Callable[..., Iterator[Point]]
    # (name, p): a step whose cost goes like x^p is shown beside the curves.
    guide: tuple[str, float] | None = None


def _classes(base, settings, ends):
    for size in _one_three_ten(ends.min_classes, ends.max_classes):
        case = dataclasses.replace(base, num_classes=size)
        result = machine.run_alone(timing.time_case, case, settings)
        yield Point(
            size, {"N": f"{size:,}"} | _weights_columns(case, result), result
        )


def _batch(base, settings, ends):
    cases = [
        dataclasses.replace(base, batch=batch)
        for batch in _powers_of_four(ends.max_batch)
    ]
    results = machine.run_alone(timing.time_cases, cases, settings)
    for case, result in zip(cases, results, strict=True):
        batch = case.sizes.batch
        yield Point(
            batch, {"B": f"{batch:,}"} | _weights_columns(case, result), result
        )


def _depth(base, settings, ends):
    del ends
    sizes = base.sizes
    for depth in _DEPTHS:
        if 2 ** (depth - 1) >= sizes.num_classes:
            return
        case = dataclasses.replace(base, tree=f"depth:{depth}")
        fanout = workloads.even_branching(sizes.num_classes, depth)[0]
        result = machine.run_alone(timing.time_case, case, settings)
        scored = sum(result["work"]["scored_rows"]) / sizes.batch
        columns = {
            "depth": f"{result['tree']['depth']}",
            "fanout": f"{fanout:,}",
            "rows/example": f"{scored:,.0f}",
        } | _weights_columns(case, result)
        yield Point(depth, columns, result)


def _threads(base, settings, ends):
    counts = [1]
    while counts[-1] < settings.threads:
        counts.append(min(2 * counts[-1], settings.threads))
    cases = [
        dataclasses.replace(base, batch=batch)
        for batch in sorted({base.sizes.batch, ends.max_batch})
    ]
    digests = None
    for count in counts:
        results = machine.run_alone(
            timing.time_cases, cases, settings._replace(threads=count)
        )
        found = machine.run_alone(digest.measure, cases, count)
        digests = digests or found
        for case, result, bits, first in zip(
            cases, results, found, digests, strict=True
        ):
            batch = f"{case.sizes.batch:,}"
            columns = {
                "B": batch,
                "threads": str(count),
                "results": SAME if bits == first else "DIFFERENT",
            }
            yield Point(count, columns, result, f"B={batch}")


def _weights_columns(case, result):
    """The bytes of the weights that a step must read."""
    rows = sum(result["work"]["touched_rows"])
    row_bytes = case.sizes.width * implementations.itemsize(case)
    return {"touched": units.of_bytes(rows * row_bytes)}


def _one_three_ten(least, most):
    """Returns `least` times 1, 3, 10, 30, 100, ... up to `most`."""
    decades = math.ceil(math.log10(most / least)) + 1
    sizes = [f * least * 10**d for d in range(decades) for f in (1, 3)]
    return [size for size in sizes if size <= most]


def _powers_of_four(most):
    """Returns 1, 4, 16, ... up to `most`, and `most`."""
    powers = [4**n for n in range(most.bit_length()) if 4**n < most]
    return [*powers, most]


def _sizes(case, *names):
    sizes = case.sizes
    texts = {
        "N": f"N={sizes.num_classes:,}",
        "D": f"D={sizes.width}",
        "B": f"B={sizes.batch:,}",
        "tree": f"{case.tree} tree",
    }
    fixed = ", ".join(texts[name] for name in names)
    return f"{fixed}, {case.labels} labels, {case.dtype}"


SWEEPS = {
    "classes": Sweep(
        "classes N",
        lambda case: _sizes(case, "D", "B", "tree"),
        ("ours", "gather", "full"),
        _classes,
        ("∝ √N", 0.5),
    ),
    "batch": Sweep(
        "batch B",
        lambda case: _sizes(case, "N", "D", "tree"),
        ("ours", "gather"),
        _batch,
        ("∝ B", 1),
    ),
    "depth": Sweep(
        "depth of the tree",
        lambda case: _sizes(case, "N", "D", "B"),
        ("ours",),
        _depth,
    ),
    "threads": Sweep(
        "threads",
        lambda case: _sizes(case, "N", "D", "tree"),
        ("ours",),
        _threads,
        ("∝ 1 / threads", -1),
    ),
}
