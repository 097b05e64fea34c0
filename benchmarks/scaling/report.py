"""The tables of the sweeps on standard output, as the lines come in."""

from benchmarks.common import units
from benchmarks.scaling import sweeps

TITLES = {"forward": "forward", "forward_backward": "forward+backward"}
_TEXT = 13
_NUMBER = 10


class Table:
    """One sweep."""

    def __init__(self, name, sweep, case):
        """Prints what stays the same; `case` is the one that is varied."""
        self._name = name
        self._sweep = sweep
        self._points = []
        print(f"\nby {name}: {sweep.title(case)}\n", flush=True)

    def add(self, point):
        """Prints the line of a point."""
        if not self._points:
            print(*self._header(point), sep="\n")
        self._points.append(point)
        cells = [f"{cell:>{_TEXT}}" for cell in point.columns.values()]
        for phase in sweeps.PHASES:
            floor = point.result["floors"][phase]["ms"]
            ours = milliseconds(point, "ours", phase)
            ratio = "" if ours is None else f"{ours / floor:.2f}"
            cells += [_number(ours), _number(floor), f"{ratio:>{_NUMBER}}"]
            for name in self._others():
                cells.append(_number(milliseconds(point, name, phase)))
            cells.append("  ")
        print("".join(cells).rstrip(), flush=True)

    def close(self):
        """Prints what was refused, and what the points add up to."""
        for point in self._points:
            for name, times in point.result["phases"].items():
                refusals = {
                    time["refused"]: TITLES[phase]
                    for phase, time in times.items()
                    if "refused" in time
                }
                for why, title in refusals.items():
                    print(
                        f"{name}, {title}, {self._name} {point.x:,}: refused: "
                        f"{why}"
                    )
        for line in self._conclusions():
            print(line, flush=True)

    def _others(self):
        return [n for n in self._sweep.implementations if n != "ours"]

    def _header(self, point):
        names = ["ours", "floor", "x floor", *self._others()]
        width = _NUMBER * len(names)
        titles = "  ".join(
            f"{TITLES[phase] + ', ms':^{width}}" for phase in sweeps.PHASES
        )
        numbers = "".join(f"{name:>{_NUMBER}}" for name in names)
        return [
            (" " * _TEXT * len(point.columns) + titles).rstrip(),
            "".join(f"{title:>{_TEXT}}" for title in point.columns)
            + "  ".join([numbers] * len(sweeps.PHASES)),
        ]

    def _conclusions(self):
        """Which point is the fastest; or how much time grows."""
        for curve in dict.fromkeys(point.curve for point in self._points):
            points = [
                p
                for p in self._points
                if p.curve == curve
                and all(milliseconds(p, "ours", f) for f in TITLES)
            ]
            if self._sweep.guide is None:
                for phase, title in TITLES.items():
                    best = min(
                        points, key=lambda p: milliseconds(p, "ours", phase)
                    )
                    yield f"fastest {title}: {self._name} {best.x:,}"
                continue
            for first, last in _pairs(points):
                growths = ", ".join(
                    f"{title} x {_growth(first, last, 'ours', phase)} "
                    f"(floor x {_growth(first, last, 'floor', phase)})"
                    for phase, title in TITLES.items()
                )
                yield (
                    f"{curve + ', ' if curve else ''}{self._name} "
                    f"{first.x:,} to {last.x:,}: ours {growths}"
                )


def milliseconds(point, name, phase):
    """The median of an implementation, or the floor; None: not measured."""
    if name == "floor":
        return point.result["floors"][phase]["ms"]
    return point.result["phases"].get(name, {}).get(phase, {}).get("ms")


def _pairs(points):
    """Those a factor of 100 apart, else the ends."""
    by_x = {point.x: point for point in points}
    pairs = [(p, by_x[100 * p.x]) for p in points if 100 * p.x in by_x]
    return pairs or [(points[0], points[-1])] * (len(points) > 1)


def _growth(first, last, name, phase):
    ratio = milliseconds(last, name, phase) / milliseconds(first, name, phase)
    return f"{ratio:.2f}"


def _number(ms):
    text = "-" if ms is None else units.of_seconds(ms / 1e3)
    return f"{text:>{_NUMBER}}"
