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
    header = [""]
    for phase in phases:
        header += [f"{_TITLES[phase]}, {unit}", "x ours"]
    rows = [[*header, "parameters", "version"]]
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
        row = [name]
        for phase in phases:
            time = result["phases"][phase]
            row += _cells(time, ours["phases"][phase], phase, threads)
            if time["other_cpus"] > _MAX_OTHER_CPUS:
                notes.append(
                    f"{name}, {_TITLES[phase]}: disturbed, other processes "
                    f"kept {time['other_cpus']:.1f} CPUs busy"
                )
        rows.append([*row, f"{result['parameters']:,}", result["version"]])
    return "\n".join([comparison.title, "", *units.aligned(rows), *notes])


def _cells(time, ours, phase, threads):
    if phase == "train":
        rate = time["pairs_per_second"]
        ratio = rate / ours["pairs_per_second"]
        return f"{rate / threads:,.0f}", f"{ratio:.2f}"
    ratio = time["ms"] / ours["ms"]
    return units.of_seconds(time["ms"] / 1e3), f"{ratio:.2f}"
