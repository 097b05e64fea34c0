"""The tables of the training steps on standard output."""

from benchmarks.common import units
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
    sizes, times = case.sizes, result["times"]
    memory = result.get("memory", {})
    floor = result["floors"]["3W"]["ms"]
    in_place = times[steps.IN_PLACE].get("ms")
    lines = [
        f"{case}, {rule}: N={sizes.num_classes:,}, D={sizes.width}, "
        f"B={sizes.batch:,}, {result['tree']['rows']:,} rows in "
        f"{result['tree']['groups']:,} groups",
        "",
        (
            f"{'':<{_NAME}}{'ms':>10}{'x in place':>12}{'x floor':>9}"
            + ("   peak memory: parameters + slots + rest" if memory else "")
        ),
    ]
    notes = []
    for name, time in times.items():
        if "refused" in time:
            cells = f"{'refused':>10}"
            notes.append(f"{_TITLES[name]}: refused: {time['refused']}")
        else:
            cells = _cells(time["ms"], in_place, floor)
            count = len(time["samples_ms"])
            if count < 3:
                notes.append(f"{_TITLES[name]}: measured only {count} times")
        line = f"{_TITLES[name]:<{_NAME}}{cells}"
        if name in memory:
            line += "   " + _memory_cell(memory[name])
        lines.append(line.rstrip())
    for key, title in _FLOORS.items():
        cells = _cells(result["floors"][key]["ms"], in_place, floor)
        lines.append(f"{title:<{_NAME}}{cells}")
    return "\n".join(
        [
            *lines,
            "",
            *notes,
            *_comparisons(times, in_place),
            *_floor_lines(rule, result, in_place),
        ]
    )


def _cells(milliseconds, in_place, floor):
    ratio = f"{milliseconds / in_place:.2f}" if in_place else ""
    return (
        f"{units.of_seconds(milliseconds / 1000):>10}{ratio:>12}"
        f"{milliseconds / floor:>9.2f}"
    )


def _memory_cell(memory):
    if "failed" in memory:
        return memory["failed"]
    return " + ".join(
        units.of_bytes(memory[part])
        for part in ("parameters", "slots", "extra")
    )


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


def _floor_lines(rule, result, in_place):
    """How far the step in place is from its floors, and their rates."""
    rates, work, floors = result["rates"], result["work"], result["floors"]
    lines = []
    if in_place:
        share = floors["3W"]["memory_share"]
        binds = "memory" if share >= 0.5 else "arithmetic"
        of_3, of_2 = (in_place / floors[key]["ms"] for key in _FLOORS)
        lines.append(
            f"in place takes {of_3:.2f} x its floor of 3 W and {of_2:.2f} x "
            f"that of 2 W, slots of {rule} included; {binds} binds "
            f"({max(share, 1 - share):.0%} of the floor)"
        )
    lines.append(
        f"floor: {rates['flops'] / 1e9:,.0f} GFLOP/s, "
        f"{units.of_bytes(rates['read'])}/s read, "
        f"{units.of_bytes(rates['read_write'])}/s read and written; "
        f"{work['touched_groups']:,} groups of "
        f"{sum(work['touched_rows']):,} rows touched"
    )
    return lines
