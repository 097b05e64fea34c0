"""Models: what is estimated of them, beside what training them takes."""

from benchmarks.common import machine, units
from benchmarks.estimate import estimated, process, report, trained

_MEMORY_SHARE = 0.95  # of what is available


def run(figures, settings):
    """Compares all models; prints the table."""
    print(report.head(), flush=True)
    rows = []
    for name in settings.models:
        result = _compare(name, settings)
        figures.add("models", {"model": name, **result})
        if "refused" in result:
            print(f"{name}: refused: {result['refused']}", flush=True)
        else:
            rows.append(result)
            peak = result["measured"]["peak_with_onednn"]
            print(report.line(name, result["figures"], peak), flush=True)
    if rows:
        summary = report.summary(
            [row["figures"] for row in rows],
            [row["measured"]["process"] for row in rows],
        )
        print(f"\n{summary}")


def _compare(name, settings):
    """Trains and estimates one model; returns a dict."""
    threads = settings.threads
    first = machine.run_alone(estimated.estimate, name, threads, None)
    available = machine.available_bytes()
    if first["peak"] > _MEMORY_SHARE * available:
        return {
            "refused": f"needs {units.of_bytes(first['peak'])}; "
            f"{units.of_bytes(available)} are available"
        }
    measured = process.alone(trained.measure, name, threads, 0, False)
    timed = measured and process.alone_with_onednn(
        trained.measure,
        name,
        threads,
        settings.repetitions,
        settings.calibrates,
    )
    if timed is None:
        return {"refused": process.KILLED}
    measured |= {
        "ms": timed["ms"],
        "samples_ms": timed["samples_ms"],
        "machine": timed["machine"],
        "peak_with_onednn": timed["peak"],
    }
    second = machine.run_alone(
        estimated.estimate, name, threads, timed["machine"]
    )
    return {
        "measured": measured,
        "estimated": second,
        "figures": report.judge(measured, second),
    }
