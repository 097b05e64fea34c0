"""The tables of the loss on standard output."""

from benchmarks.common import case_report, implementations, units

_TITLES = {
    "forward": "forward",
    "forward_backward": "forward+backward",
    "sgd": "with SGD applied",
}
_NAME = 18


def case_text(case, result):
    """The table of one case, what was refused, and the floors.

    Args:
      case: a `Case`.
      result: what `timing.time_case` returned; with "memory", a dict of what
        `memory.measure` returned for each implementation, if it was measured.
    """
    phases = result["phases"]
    memory = result.get("memory", {})
    lines = [
        case_report.title(case, result),
        "",
        " " * _NAME
        + "".join(f"{title:^19}" for title in _TITLES.values())
        + ("  peak memory: parameters + fwd / bwd / SGD" if memory else ""),
        " " * _NAME + f"{'ms':>10}{'x ours':>8} " * len(_TITLES),
    ]
    ours = phases.get("ours", {})
    notes = []
    for name, times in phases.items():
        cells = "".join(
            _cells(times[phase], ours.get(phase, {})) for phase in _TITLES
        )
        line = f"{name:<{_NAME}}{cells}"
        if name in memory:
            line += "  " + _memory_cell(memory[name])
        lines.append(line.rstrip())
        notes += _notes(name, times)
    lines.append(f"{'floor':<{_NAME}}" + _floor_cells(result["floors"]))
    return "\n".join([*lines, "", *notes, *_floor_lines(result, ours)])


def _cells(time, ours):
    if "refused" in time:
        return f"{'refused':>10}{'':9}"
    ratio = f"{time['ms'] / ours['ms']:.2f}" if "ms" in ours else ""
    return f"{units.of_seconds(time['ms'] / 1e3):>10}{ratio:>8} "


def _floor_cells(floors):
    return "".join(
        f"{units.of_seconds(floors[phase]['ms'] / 1e3):>10}{'':9}"
        for phase in _TITLES
    ).rstrip()


def _memory_cell(memory):
    if "failed" in memory:
        return memory["failed"]
    extra = " / ".join(
        units.of_bytes(memory["extra"][phase])
        for phase in implementations.PHASES
        if phase in memory["extra"]
    )
    return f"{units.of_bytes(memory['parameters'])} + {extra}"


def _notes(name, times):
    """Lines on refusals, equal ones joined, and on short measurements."""
    phases = {}
    for phase, time in times.items():
        if note := case_report.note(time):
            phases.setdefault(note, []).append(phase)
    return [
        f"{name}, {', '.join(_TITLES[p] for p in group)}: {note}"
        for note, group in phases.items()
    ]


def _floor_lines(result, ours):
    """What the floors are made of, and how far ours is from them."""
    lines, floors = [case_report.rates(result)], result["floors"]
    for phase in _TITLES:
        if "ms" not in ours.get(phase, {}):
            continue
        ms, floor = ours[phase]["ms"], floors[phase]
        line = (
            f"  {_TITLES[phase]}: ours takes {ms / floor['ms']:.2f} x the "
            f"floor; {case_report.binds(floor)}"
        )
        if phase == "forward_backward":
            in_turn = ms / floors["forward_then_backward"]["ms"]
            line += f"; {in_turn:.2f} x the floor of forward, then backward"
        lines.append(line)
    return lines
