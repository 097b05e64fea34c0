"""The table of what was measured and what was estimated."""

from benchmarks.common import units
from tf_hsm.estimation.result import PROCESS_BYTES

# What counts as right: a ratio of the two; of peaks, plus so many bytes.
_PEAK_SHARE, _PEAK_BYTES = 0.10, 100e6
_TIME_SHARE = 0.25
_SPARSE_SHARE = 0.02  # of gradients: which rows are touched is drawn
_NAME = 26


def judge(measured, estimated):
    """Returns for each figure (measured, estimated, ratio, whether right).

    A process that was ready to train is no part of either peak.
    """
    estimated = {
        **estimated,
        "peak": estimated["peak"] + PROCESS_BYTES - measured["process"],
    }
    bounds = {
        "parameters": 0.0,
        "slots": 0.0,
        "gradients": _SPARSE_SHARE * measured["gradients"],
        "peak": _PEAK_SHARE * measured["peak"] + _PEAK_BYTES,
        "ms": _TIME_SHARE * measured["ms"],
    }
    return {
        name: {
            "measured": measured[name],
            "estimated": estimated[name],
            "ratio": _ratio(estimated[name], measured[name]),
            "ok": abs(estimated[name] - measured[name]) <= bound,
        }
        for name, bound in bounds.items()
    }


def _ratio(estimated, measured):
    return estimated / measured if measured else float(estimated == measured)


def head():
    """The first lines of the table."""
    return "\n".join(
        [
            f"{'':<{_NAME}}{'parameters':>12}{'gradients':>17}{'slots':>17}"
            f"{'peak':>36}{'ms':>29}",
            f"{'model':<{_NAME}}"
            f"{'measured':>12}"
            + f"{'measured  ratio':>17}" * 2
            + f"{'measured  estimated  ratio   oneDNN':>36}"
            + f"{'measured  estimated  ratio':>29}",
        ]
    )


def line(name, figures, peak_with_onednn):
    """The line of a model; * marks what is not right."""
    cells = f"{units.of_bytes(figures['parameters']['measured']):>11}"
    cells += _mark(figures["parameters"])
    for what in ("gradients", "slots"):
        figure = figures[what]
        cells += f"{units.of_bytes(figure['measured']):>9}"
        cells += f"{figure['ratio']:>7.3f}{_mark(figure)}"
    for what, text, width in (
        ("peak", units.of_bytes, 9),
        ("ms", lambda ms: units.of_seconds(ms / 1000), 11),
    ):
        figure = figures[what]
        cells += f"{text(figure['measured']):>{width}}"
        cells += f"{text(figure['estimated']):>11}"
        cells += f"{figure['ratio']:>6.2f}{_mark(figure)}"
        if what == "peak":
            cells += f"{units.of_bytes(peak_with_onednn):>9}"
    return f"{name:<{_NAME}}{cells}"


def _mark(figure):
    return " " if figure["ok"] else "*"


def summary(rows, processes):
    """How many models are right, by figure, and what a process has without.

    Args:
      rows: a list of what `judge` returned.
      processes: for each, bytes of the process that was ready to train.
    """
    counts = ", ".join(
        f"{name} {sum(row[name]['ok'] for row in rows)}" for name in rows[0]
    )
    least, most = map(units.of_bytes, (min(processes), max(processes)))
    return (
        f"right of {len(rows)} models: {counts}\n"
        "right: parameters and slots byte for byte; gradients within "
        f"{_SPARSE_SHARE:.0%}, as\nlabels are drawn; peak within "
        f"{_PEAK_SHARE:.0%} plus {units.of_bytes(_PEAK_BYTES)}; ms within "
        f"{_TIME_SHARE:.0%}; * is not\n"
        f"a process that is ready to train has {least} to {most}; "
        f"{units.of_bytes(PROCESS_BYTES)} are taken"
    )
