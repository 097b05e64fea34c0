"""Finds the best classes in all ways, checks what they find, and times them."""

from typing import NamedTuple

import numpy as np

from benchmarks.common import floors, limits, machine, workbench
from benchmarks.top_k import calls, implementations, reference

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


def measure(source, question, settings):
    """Measures one head, in a process of its own.

    Args:
      source: makes a `heads.Head`.
      question: a `Question`.
      settings: `timing.Settings`; its implementations are not used.

    Returns:
      {"refused": why}; or a dict that JSON can hold: "head", "clarity",
      "needs", "checks", "rates", and "batches": batch -> name -> what
      `calls.measure` returns, both of the latter for each batch.
    """
    machine.use_threads(settings.threads)
    room = limits.of(settings)
    num_inputs = calls.num_inputs(max(question.batches), settings.repetitions)
    head, refusal = source.make(num_inputs, room)
    if refusal:
        return {"refused": refusal}
    probe = floors.Probe(settings.threads, head.dtype)
    rates = [probe.sample()]
    most = max(*question.batches, _CHECKED_CALLS)
    count = reference.num_inputs(head, most, rates[0])
    answers = reference.make(head, question.k, count)
    bench = workbench.Workbench(room)
    # A row for each class.
    full_softmax = workbench.parameters(head.sizes.num_classes, head)

    def prepare(name, batch):
        def make(*full_parameters):
            function = implementations.make(
                name, head, question.k, batch, *full_parameters
            )
            return lambda inputs: [r.numpy() for r in function(inputs)]

        return bench.prepare(
            [full_softmax] * (name == implementations.FULL),
            implementations.step_bytes(name, head, batch),
            implementations.step_seconds(name, head, batch, rates[0]),
            make,
        )

    batches, checks = {}, {}
    for batch in question.batches:
        functions, times, checks[batch] = {}, {}, {}
        for name in implementations.names(question.beam_widths):
            function, refusal = prepare(name, batch)
            times[name] = {"refused": refusal}  # Keeps the order.
            if function:
                functions[name] = function
                check = _check(name, function, head, answers, batch)
                checks[batch] |= {name: check} if check else {}
        times |= calls.measure(
            functions, head.inputs, batch, settings.repetitions
        )
        rates.append(probe.sample())
        batches[batch] = times
    rates = floors.median(rates)
    for batch, times in batches.items():
        floor = reference.floor_ms(answers, head, batch, rates)
        times |= {FLOOR: {"floor_ms": floor}} if floor else {}
    return {
        "head": {
            "classes": head.sizes.num_classes,
            "width": head.sizes.width,
            "rows": head.tree.num_rows,
            "groups": head.tree.num_groups,
        },
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
    """Returns what `report` prints of a function and the answers."""
    if name == implementations.FULL:
        return None  # Another model has other answers.
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
        same = answers.is_equal(count, log_probs, classes)
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
