"""The tables of the comparisons with peers on standard output."""

from benchmarks.common import units

_TITLES = {
    "forward": "forward",
    "forward_backward": "forward+backward",
    "train": "training",
}
# What to install, where it is not named like the module.
_DISTRIBUTIONS = {"fasttext": "fasttext-wheel"}
# Where others kept more CPUs busy than this, a line says so.
_MAX_OTHER_CPUS = 0.1
_NAME = 20


def text(comparison, results, threads):
    """The table of one comparison, and notes on what disturbed it.

    Times are per step, and "x ours" is how much longer a peer takes. Training
    has no common step: it is given in pairs per second and thread, and
    "x ours" is how many more pairs a peer does. Ours is the reference of the
    comparison.

    Args:
      comparison: a `Comparison`.
      results: what was measured, by implementation.
      threads: how many each had.
    """
    phases = comparison.phases
    unit = "pairs/s/thread" if phases == ("train",) else "ms"
    lines = [
        comparison.title,
        "",
        " " * _NAME + "".join(f"{_TITLES[phase]:>24} " for phase in phases),
        " " * _NAME
        + f"{unit:>16}{'x ours':>8} " * len(phases)
        + f"{'parameters':>14}  version",
    ]
    notes = []
    ours = results[comparison.reference]
    for name, result in results.items():
        if "missing" in result:
            module = result["missing"]
            notes.append(
                f"{name} is not installed: pip install "
                f"{_DISTRIBUTIONS.get(module, module)}"
            )
            continue
        cells = ""
        for phase in phases:
            time = result["phases"][phase]
            cells += _cells(time, ours["phases"][phase], phase, threads)
            if time["other_cpus"] > _MAX_OTHER_CPUS:
                notes.append(
                    f"{name}, {_TITLES[phase]}: disturbed, other processes "
                    f"kept {time['other_cpus']:.1f} CPUs busy"
                )
        lines.append(
            f"{name:<{_NAME}}{cells}{result['parameters']:>14,}  "
            f"{result['version']}"
        )
    return "\n".join([*lines, *notes])


def _cells(time, ours, phase, threads):
    if phase == "train":
        rate = time["pairs_per_second"]
        ratio = rate / ours["pairs_per_second"]
        return f"{rate / threads:>16,.0f}{ratio:>8.2f} "
    ratio = time["ms"] / ours["ms"]
    return f"{units.of_seconds(time['ms'] / 1e3):>16}{ratio:>8.2f} "
