"""Draws classes in all ways, checks the draws, and times them."""

from typing import NamedTuple

from benchmarks.common import floors, workbench
from benchmarks.heads import brute_force, calls, heads
from benchmarks.sample import implementations, reference

# Inputs whose draws are checked, at most, and how many draws of each.
_CHECKED_INPUTS = 16
_CHECKED_DRAWS = 1000


class Question(NamedTuple):
    """What is asked."""

    batches: tuple[int, ...]
    num_samples: tuple[int, ...]
    top_k: int
    top_p: float


def measure(source, question, settings):
    """Measures one head, in a process of its own.

    `question` is a `Question`, `source` and `settings` go to `heads.make`.

    Returns:
      {"refused": why}; or a dict that JSON can hold: "head", "clarity",
      "found", name -> how many classes a draw is among, "checks", name -> what
      `reference.check` returned, and "tables": a list of {"batch",
      "num_samples", "times"}, the times as `call_report.table` takes them.
    """
    head, limits, refusal = heads.make(source, question.batches, settings)
    if refusal:
        return {"refused": refusal}
    restrictions = implementations.restrictions(
        min(question.top_k, head.tree.num_classes), question.top_p
    )
    rates = floors.Probe(settings.threads, head.dtype).sample()
    count = brute_force.num_inputs(head, _CHECKED_INPUTS, rates)
    expected, clarity = reference.make(head, restrictions, count)
    found = {name: float(e.size.mean()) for name, e in expected.items()}
    bench = workbench.Workbench(limits)

    def prepare(name, batch, num_samples):
        size = found.get(name, 0)

        def make(*full_parameters):
            function = implementations.make(
                restrictions.get(name),
                head,
                batch,
                num_samples,
                *full_parameters,
            )
            return lambda inputs: function(inputs).numpy()

        return bench.prepare(
            [heads.full_softmax(head)] * (name == implementations.FULL),
            implementations.step_bytes(name, head, batch, num_samples, size),
            implementations.step_seconds(
                name, head, batch, size, rates, settings.threads
            ),
            make,
        )

    def times_of(batch, num_samples):
        timed, times = {}, {}
        for name in [*restrictions, implementations.FULL]:
            function, refusal = prepare(name, batch, num_samples)
            times[name] = {"refused": refusal}  # Keeps the order.
            if function:
                timed[name] = calls.on_inputs(function, head.inputs, batch)
        return times | calls.measure(timed, batch, settings.repetitions)

    checks = {}
    for name in restrictions:
        function, _ = prepare(name, count, _CHECKED_DRAWS)
        if function:
            classes = function(head.inputs[:count])
            checks[name] = reference.check(head, classes, expected[name])
    return {
        "head": heads.facts(head),
        "clarity": clarity,
        "found": found,
        "checks": checks,
        "tables": [
            {
                "batch": batch,
                "num_samples": num_samples,
                "times": times_of(batch, num_samples),
            }
            for batch in question.batches
            for num_samples in question.num_samples
        ],
    }


def is_wrong(result):
    """Whether some draws were not as they should be."""
    checks = result.get("checks", {}).values()
    return not all(check["right"] for check in checks)
