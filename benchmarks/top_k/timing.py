"""Finds the best classes in all ways, checks what they find, and times them."""

import functools
from typing import NamedTuple

import numpy as np

from benchmarks.common import digest, floors, workbench
from benchmarks.heads import brute_force, calls, heads
from benchmarks.top_k import implementations, peer, reference

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
    shares: tuple[float, ...] = ()  # of the classes, those that are allowed


def measure(source, question, settings):
    """Measures one head, in a process of its own.

    `question` is a `Question`, `source` and `settings` go to `heads.make`.

    Returns:
      {"refused": why}; or a dict that JSON can hold: "head", "clarity",
      "needs", "checks", "rates", and "batches": batch -> name -> what
      `call_report.table` takes, both of the latter for each batch.
    """
    head, limits, refusal = heads.make(source, question.batches, settings)
    if refusal:
        return {"refused": refusal}
    probe = floors.Probe(settings.threads, head.dtype)
    rates = [probe.sample()]
    most = max(*question.batches, _CHECKED_CALLS)
    count = brute_force.num_inputs(head, most, rates[0])
    answers = reference.make(head, question.k, count)
    bench = workbench.Workbench(limits)

    def prepare(name, batch):
        def make(*full_parameters):
            function = implementations.make(
                name, head, question.k, batch, *full_parameters
            )
            return lambda inputs: [r.numpy() for r in function(inputs)]

        return bench.prepare(
            [heads.full_softmax(head)] * (name == implementations.FULL),
            implementations.step_bytes(name, head, batch),
            implementations.step_seconds(name, head, batch, rates[0]),
            make,
        )

    @functools.cache
    def answers_of(name):
        allowed = implementations.allowed_classes(
            name, head.tree.num_classes, question.k
        )
        if allowed is None:
            return answers
        return reference.make(head, question.k, count, allowed)

    batches, checks = {}, {}
    with peer.Peer(source, head, question, settings.threads) as pytorch:
        for batch in question.batches:
            timed, times, checks[batch] = {}, {}, {}
            for name in implementations.names(
                question.beam_widths, question.shares
            ):
                function, refusal = prepare(name, batch)
                times[name] = {"refused": refusal}  # Keeps the order.
                if function:
                    timed[name] = calls.on_inputs(function, head.inputs, batch)
                    wanted = answers_of(name)
                    check = _check(name, function, head, wanted, batch)
                    checks[batch] |= {name: check} if check else {}
            for name, call in pytorch.calls(batch, limits).items():
                times[name] = call if isinstance(call, dict) else {}
                timed |= {} if times[name] else {name: call}
            times |= calls.measure(timed, batch, settings.repetitions)
            rates.append(probe.sample())
            batches[batch] = times
    rates = floors.median(rates)
    for batch, times in batches.items():
        floor = reference.floor_ms(answers, head, batch, rates)
        times |= {FLOOR: {"floor_ms": floor}} if floor else {}
    return {
        "head": heads.facts(head),
        "clarity": answers.clarity,
        "needs": reference.needs(answers, head.tree),
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


def _check(name, function, head, answers, batch):
    """Compares what a function finds with the answers.

    Returns:
      {"inputs", "bits"}; for a beam {"inputs", "found", "complete", "proved"}:
      the share of the k best classes that it finds, of the inputs for which it
      finds all, and of those for which it knows that it did; None for the full
      softmax, which is another model.
    """
    if name == implementations.FULL:
        return None
    num_calls = np.clip(len(answers.classes) // batch, 1, _CHECKED_CALLS)
    count = min(len(answers.classes), num_calls * batch)
    parts = [
        function(calls.batch_of(head.inputs, number, batch))
        for number in range(num_calls)
    ]
    log_probs, classes, *pruned = (
        np.concatenate(part)[:count] for part in zip(*parts, strict=True)
    )
    if not implementations.is_beam(name):
        same = digest.of([log_probs, classes]) == answers.digest(count)
        return {"inputs": int(count), "bits": SAME if same else DIFFERENT}
    hits = [
        np.isin(best, found).mean()
        for best, found in zip(answers.classes[:count], classes, strict=True)
    ]
    return {
        "inputs": int(count),
        "found": float(np.mean(hits)),
        "complete": float(np.mean(np.equal(hits, 1))),
        "proved": float(np.mean(pruned[0] == 0)),
    }
