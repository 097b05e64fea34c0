"""Finds the best classes in all ways, checks what they find, and times them."""

from typing import NamedTuple

import numpy as np

from benchmarks.common import brute_force, floors, full_softmax, machine
from benchmarks.common import calls as common_calls
from benchmarks.common import digest as common_digest
from benchmarks.common import limits as common_limits
from benchmarks.heads import heads
from benchmarks.top_k import implementations
from benchmarks.top_k import peer as top_k_peer
from benchmarks.top_k import reference as top_k_reference

FLOOR = "floor of exact"
SAME = "same bits"
DIFFERENT = "DIFFERENT"
# Calls that are checked, at most, of each number of inputs.
_CHECKED_CALLS = 16


class Question(NamedTuple):
    """What is asked."""

    k: int
    beam_widths: tuple[int, ...]
    batches: tuple[int, ...]
    python: str  # the interpreter that has the peer


def measure(source, question, settings):
    """Measures one head.

    To be called in a process of its own.

    Args:
      source: what makes the head; see `heads.heads`.
      question: a `Question`.
      settings: `_timing.Settings`; implementations and phases are not used.

    Returns:
      {"refused": why}; or a dict that JSON can hold: "head", "clarity",
      "needs", "checks", "rates", and "batches": batch -> name -> what
      `_call_report.table` takes, both of the latter for each batch.
    """
    machine.use_threads(settings.threads)
    limits = common_limits.of(settings)
    most = max(question.batches)
    num_inputs = common_calls.num_inputs(most, settings.repetitions)
    head, refusal = source.make(num_inputs, limits)
    if refusal:
        return {"refused": refusal}
    probe = floors.Probe(settings.threads, head.dtype)
    rates = [probe.sample()]
    count = brute_force.num_inputs(head, max(most, _CHECKED_CALLS), rates[0])
    reference = top_k_reference.make(head, question.k, count)
    bench = _Bench(head, question.k, limits, rates[0])
    batches, checks = {}, {}
    with top_k_peer.Peer(source, head, question, settings.threads) as peer:
        for batch in question.batches:
            timed, times, checks[batch] = {}, {}, {}
            for name in implementations.names(question.beam_widths):
                function, refusal = bench.prepare(name, batch)
                times[name] = {"refused": refusal}  # Keeps the order.
                if function:
                    timed[name] = common_calls.on_inputs(
                        function, head.inputs, batch
                    )
                    check = _check(name, function, head, reference, batch)
                    checks[batch] |= {name: check} if check else {}
            for name, call in peer.calls(batch, limits).items():
                times[name] = call if isinstance(call, dict) else {}
                timed |= {} if times[name] else {name: call}
            times |= common_calls.measure(timed, batch, settings.repetitions)
            rates.append(probe.sample())
            batches[batch] = times
    rates = floors.median(rates)
    for batch, times in batches.items():
        floor = top_k_reference.floor_ms(reference, head, batch, rates)
        times |= {FLOOR: {"floor_ms": floor}} if floor else {}
    return {
        "head": heads.facts(head),
        "clarity": reference.clarity,
        "needs": top_k_reference.needs(reference, head.tree),
        "checks": checks,
        "rates": rates._asdict(),
        "batches": batches,
    }


def is_wrong(result):
    """Whether some results were not those of brute force."""
    return any(
        check.get("bits") == DIFFERENT
        for checks in result.get("checks", {}).values()
        for check in checks.values()
    )


class _Bench:
    """Prepares functions."""

    def __init__(self, head, k, limits, rates):
        self._head = head
        self._k = k
        self._limits = limits
        self._rates = rates
        self._full = full_softmax.SharedParameters(head, limits)

    def prepare(self, name, batch):
        """Returns (function, None), or (None, why it is refused)."""
        head = self._head
        full = name == implementations.FULL
        refusal = self._limits.refusal(
            self._full.missing_bytes if full else 0,
            implementations.step_bytes(name, head, batch),
            implementations.step_seconds(name, head, batch, self._rates),
        )
        if refusal:
            return None, refusal
        function = implementations.make(
            name, head, self._k, batch, self._full.get() if full else None
        )
        return lambda inputs: [r.numpy() for r in function(inputs)], None


def _check(name, function, head, reference, batch):
    """Compares what a function finds with the reference.

    Returns:
      {"inputs", "bits"}; for a beam {"inputs", "found", "complete", "proved"}:
      the share of the k best classes that it finds, of the inputs for which it
      finds all, and of those for which it knows that it did; None for the full
      softmax, which is another model.
    """
    if name == implementations.FULL:
        return None
    calls = np.clip(len(reference.classes) // batch, 1, _CHECKED_CALLS)
    count = min(len(reference.classes), calls * batch)
    parts = [
        function(common_calls.batch_of(head.inputs, number, batch))
        for number in range(calls)
    ]
    log_probs, classes, *pruned = (
        np.concatenate(part)[:count] for part in zip(*parts, strict=True)
    )
    if not implementations.is_beam(name):
        same = common_digest.of([log_probs, classes]) == reference.digest(count)
        return {"inputs": int(count), "bits": SAME if same else DIFFERENT}
    hits = [
        np.isin(best, found).mean()
        for best, found in zip(reference.classes[:count], classes, strict=True)
    ]
    return {
        "inputs": int(count),
        "found": float(np.mean(hits)),
        "complete": float(np.mean(np.equal(hits, 1))),
        "proved": float(np.mean(pruned[0] == 0)),
    }
