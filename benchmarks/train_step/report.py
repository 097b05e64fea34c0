"""The tables of the training steps on standard output."""

from benchmarks.common import case_report, units
from benchmarks.train_step import steps

_TITLES = {
    steps.IN_PLACE: "ours, in place",
    steps.IN_FIT: "ours, in place by fit",
    steps.THEN_OPTIMIZER: "ours, gradient then optimizer",
    steps.GATHER_STOCK: "gather + stock",
}
_FLOORS = {"3W": "floor, 3 W", "2W": "floor, 2 W"}


def case_text(case, rule, result):
    """The table of one case and rule, what was refused, and the ratios.

    Args:
      case: a `Case`.
      rule: one of `steps.RULES`.
      result: what `timing.time_case` returned; with "memory", a
        dict of what `memory.measure` returned for each
        implementation, if it was measured.
    """
    times = result["times"]
    memory = result.get("memory", {})
    floor = result["floors"]["3W"]["ms"]
    in_place = times[steps.IN_PLACE].get("ms")
    header = ["", "ms", "x in place", "x floor"]
    if memory:
        header.append("peak memory: parameters + slots + rest")
    rows, notes = [header], []
    for name, time in times.items():
        row = [_TITLES[name], "refused"]
        if "ms" in time:
            row[1:] = _cells(time["ms"], in_place, floor)
        if name in memory:
            row.append(_memory_cell(memory[name]))
        rows.append(row)
        if note := case_report.note(time):
            notes.append(f"{_TITLES[name]}: {note}")
    for key, title in _FLOORS.items():
        milliseconds = result["floors"][key]["ms"]
        rows.append([title, *_cells(milliseconds, in_place, floor)])
    notes += _comparisons(times, in_place)
    if in_place:
        floors = result["floors"]
        of_3, of_2 = (in_place / floors[key]["ms"] for key in _FLOORS)
        notes.append(
            f"in place takes {of_3:.2f} x its floor of 3 W and {of_2:.2f} x "
            f"its floor of 2 W, slots of {rule} included; "
            f"{case_report.binds(floors['3W'])}"
        )
    title = case_report.title(case, result, rule)
    lines = [title, "", *units.aligned(rows), ""]
    return "\n".join([*lines, *notes, case_report.rates(result)])


def _cells(milliseconds, in_place, floor):
    return [
        units.of_seconds(milliseconds / 1000),
        f"{milliseconds / in_place:.2f}" if in_place else "",
        f"{milliseconds / floor:.2f}",
    ]


def _memory_cell(memory):
    if "failed" in memory:
        return memory["failed"]
    parts = ("parameters", "slots", "extra")
    return " + ".join(units.of_bytes(memory[part]) for part in parts)


def _comparisons(times, in_place):
    """How many times faster the step in place is than the others."""
    if not in_place:
        return []
    faster = [
        f"{time['ms'] / in_place:.2f} x faster than {_TITLES[name]}"
        for name, time in times.items()
        if name != steps.IN_PLACE and "ms" in time
    ]
    return [f"in place is {', '.join(faster)}"] if faster else []
