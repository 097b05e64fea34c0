"""The tables of the loss on standard output."""

from benchmarks.common import case_report, implementations, units

_TITLES = {
    "forward": "forward",
    "forward_backward": "forward+backward",
    "sgd": "with SGD applied",
}


def case_text(case, result):
    """The table of one case, what was refused, and the floors.

    Args:
      case: a `Case`.
      result: what `timing.time_case` returned; with "memory", a dict of what
        `memory.measure` returned for each implementation, if it was measured.
    """
    phases = result["phases"]
    memory = result.get("memory", {})
    header = [""]
    for title in _TITLES.values():
        header += [f"{title}, ms", "x ours"]
    if memory:
        header.append("peak memory: parameters + fwd / bwd / SGD")
    rows, notes = [header], []
    ours = phases.get("ours", {})
    for name, times in phases.items():
        row = [name]
        for phase in _TITLES:
            row += _cells(times[phase], ours.get(phase, {}))
        if name in memory:
            row.append(_memory_cell(memory[name]))
        rows.append(row)
        notes += _notes(name, times)
    floors = [result["floors"][phase] for phase in _TITLES]
    rows.append(["floor", *(cell for x in floors for cell in _cells(x, {}))])
    lines = [case_report.title(case, result), "", *units.aligned(rows), ""]
    return "\n".join([*lines, *notes, *_floor_lines(result, ours)])


def _cells(time, ours):
    if "refused" in time:
        return "refused", ""
    ratio = f"{time['ms'] / ours['ms']:.2f}" if "ms" in ours else ""
    return units.of_seconds(time["ms"] / 1e3), ratio


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
