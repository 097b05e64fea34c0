"""Draws classes in all ways, checks the draws, and times them."""

from typing import NamedTuple

from benchmarks.common import brute_force, calls, floors, full_softmax, machine
from benchmarks.common import limits as common_limits
from benchmarks.heads import heads
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
    """Measures one head.

    To be called in a process of its own.

    Args:
      source: what makes the head; see `heads.heads`.
      question: a `Question`.
      settings: `_timing.Settings`; implementations and phases are not used.

    Returns:
      {"refused": why}; or a dict that JSON can hold: "head", "clarity",
      "found", name -> how many classes a draw is among, "checks", name -> what
      `_sample_reference.check` returned, and "tables": a list of {"batch",
      "num_samples", "times"}, the times as `_call_report.table` takes them.
    """
    machine.use_threads(settings.threads)
    limits = common_limits.of(settings)
    most = max(question.batches)
    num_inputs = calls.num_inputs(most, settings.repetitions)
    head, refusal = source.make(num_inputs, limits)
    if refusal:
        return {"refused": refusal}
    restrictions = implementations.restrictions(
        min(question.top_k, head.tree.num_classes), question.top_p
    )
    rates = floors.Probe(settings.threads, head.dtype).sample()
    count = brute_force.num_inputs(head, _CHECKED_INPUTS, rates)
    expected, clarity = reference.make(head, restrictions, count)
    found = {name: float(e.size.mean()) for name, e in expected.items()}
    bench = _Bench(head, restrictions, found, limits, rates, settings.threads)
    checks = {}
    for name in restrictions:
        function, _ = bench.prepare(name, count, _CHECKED_DRAWS)
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
                "times": bench.measure(
                    batch, num_samples, settings.repetitions
                ),
            }
            for batch in question.batches
            for num_samples in question.num_samples
        ],
    }


def is_wrong(result):
    """Whether some draws were not as they should be."""
    checks = result.get("checks", {}).values()
    return not all(check["right"] for check in checks)


class _Bench:
    """Prepares functions and times them."""

    def __init__(self, head, restrictions, found, limits, rates, threads):
        self._head = head
        self._restrictions = restrictions
        self._found = found
        self._limits = limits
        self._rates = rates
        self._threads = threads
        self._full = full_softmax.SharedParameters(head, limits)

    def measure(self, batch, num_samples, repetitions):
        """Times all; returns what `_call_report.table` takes."""
        timed, times = {}, {}
        for name in [*self._restrictions, implementations.FULL]:
            function, refusal = self.prepare(name, batch, num_samples)
            times[name] = {"refused": refusal}  # Keeps the order.
            if function:
                timed[name] = calls.on_inputs(
                    function, self._head.inputs, batch
                )
        return times | calls.measure(timed, batch, repetitions)

    def prepare(self, name, batch, num_samples):
        """Returns (function, None), or (None, why it is refused)."""
        head, found = self._head, self._found.get(name, 0)
        full = name == implementations.FULL
        refusal = self._limits.refusal(
            self._full.missing_bytes if full else 0,
            implementations.step_bytes(name, head, batch, num_samples, found),
            implementations.step_seconds(
                name, head, batch, found, self._rates, self._threads
            ),
        )
        if refusal:
            return None, refusal
        function = implementations.make(
            None if full else self._restrictions[name],
            head,
            batch,
            num_samples,
            self._full.get() if full else None,
        )
        return lambda inputs: function(inputs).numpy(), None
