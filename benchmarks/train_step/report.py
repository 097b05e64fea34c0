"""The tables of the training steps on standard output."""

from benchmarks.common import case_report, units
from benchmarks.train_step import steps

_TITLES = {
    steps.IN_PLACE: "ours, in place",
    steps.IN_FIT: "ours, in place by fit",
    steps.THEN_OPTIMIZER: "ours, gradient then optimizer",
    steps.GATHER_STOCK: "gather + stock",
}
_NAME = 31
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
    lines = [
        case_report.title(case, result, rule),
        "",
        (
            f"{'':<{_NAME}}{'ms':>10}{'x in place':>12}{'x floor':>9}"
            + ("   peak memory: parameters + slots + rest" if memory else "")
        ),
    ]
    notes = []
    for name, time in times.items():
        cells = f"{'refused':>10}"
        if "ms" in time:
            cells = _cells(time["ms"], in_place, floor)
        if note := case_report.note(time):
            notes.append(f"{_TITLES[name]}: {note}")
        line = f"{_TITLES[name]:<{_NAME}}{cells}"
        if name in memory:
            line += "   " + _memory_cell(memory[name])
        lines.append(line.rstrip())
    for key, title in _FLOORS.items():
        cells = _cells(result["floors"][key]["ms"], in_place, floor)
        lines.append(f"{title:<{_NAME}}{cells}")
    notes += _comparisons(times, in_place)
    if in_place:
        floors = result["floors"]
        of_3, of_2 = (in_place / floors[key]["ms"] for key in _FLOORS)
        notes.append(
            f"in place takes {of_3:.2f} x its floor of 3 W and {of_2:.2f} x "
            f"its floor of 2 W, slots of {rule} included; "
            f"{case_report.binds(floors['3W'])}"
        )
    return "\n".join([*lines, "", *notes, case_report.rates(result)])


def _cells(milliseconds, in_place, floor):
    ratio = f"{milliseconds / in_place:.2f}" if in_place else ""
    return (
        f"{units.of_seconds(milliseconds / 1000):>10}{ratio:>12}"
        f"{milliseconds / floor:>9.2f}"
    )


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
