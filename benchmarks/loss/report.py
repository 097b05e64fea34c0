"""The tables of the loss on standard output."""

from benchmarks.common import implementations, units

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
    sizes, phases = case.sizes, result["phases"]
    memory = result.get("memory", {})
    lines = [
        f"{case}: N={sizes.num_classes:,}, D={sizes.width}, B={sizes.batch:,},"
        f" {result['tree']['rows']:,} rows in {result['tree']['groups']:,} "
        "groups",
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
        if "refused" in time:
            phases.setdefault(f"refused: {time['refused']}", []).append(phase)
        elif len(time["samples_ms"]) < 3:
            note = f"measured only {len(time['samples_ms'])} times: slow"
            phases.setdefault(note, []).append(phase)
    return [
        f"{name}, {', '.join(_TITLES[p] for p in group)}: {note}"
        for note, group in phases.items()
    ]


def _floor_lines(result, ours):
    """What the floors are made of, and how far ours is from them."""
    rates, work = result["rates"], result["work"]
    lines = [
        f"kernels for {result['isa']}; "
        f"floor: {rates['flops'] / 1e9:,.0f} GFLOP/s of tf.matmul, "
        f"{units.of_bytes(rates['read'])}/s read, "
        f"{units.of_bytes(rates['read_write'])}/s read and written; "
        f"{work['touched_groups']:,} groups of "
        f"{sum(work['touched_rows']):,} rows touched"
    ]
    for phase in _TITLES:
        if "ms" not in ours.get(phase, {}):
            continue
        floor = result["floors"][phase]
        share = floor["memory_share"]
        binds = "memory" if share >= 0.5 else "arithmetic"
        line = (
            f"  {_TITLES[phase]}: ours takes "
            f"{ours[phase]['ms'] / floor['ms']:.2f} x the floor; {binds} binds "
            f"({max(share, 1 - share):.0%} of the floor)"
        )
        if phase == "forward_backward":
            in_turn = result["floors"]["forward_then_backward"]["ms"]
            line += (
                f"; {ours[phase]['ms'] / in_turn:.2f} x that of forward, then "
                "backward"
            )
        lines.append(line)
    return lines
