"""Searches in all ways, checks what they find, and times them."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.beam_search import implementations
from benchmarks.common import digest, floors, workbench
from benchmarks.heads import brute_force, calls, heads

# Inputs by which the table says how sure the model is, at most.
_JUDGED_INPUTS = 16


class Question(NamedTuple):
    """What is asked."""

    batches: tuple[int, ...]
    beam_width: int
    length: int


def measure(source, question, settings):
    """Measures one head, in a process of its own.

    `question` is a `Question`, `source` and `settings` go to `heads.make`.

    Returns:
      {"refused": why}; or a dict that JSON can hold: "head", "clarity", "same",
      whether those of the tree find the same to the bit, and "batches": batch
      -> name -> what `call_report.table` takes.
    """
    head, limits, refusal = heads.make(source, question.batches, settings)
    if refusal:
        return {"refused": refusal}
    rates = floors.Probe(settings.threads, head.dtype).sample()
    bench = workbench.Workbench(limits)
    starts = tf.range(head.inputs.shape[0], dtype=tf.int64)

    def prepare(name, batch):
        hypotheses = batch * question.beam_width

        def make(*full_parameters):
            function = implementations.make(
                name,
                head,
                batch,
                question.beam_width,
                question.length,
                *full_parameters,
            )
            return lambda ids: [result.numpy() for result in function(ids)]

        return bench.prepare(
            [heads.full_softmax(head)] * (name == implementations.FULL),
            implementations.step_bytes(name, head, hypotheses),
            question.length
            * implementations.step_seconds(name, head, hypotheses, rates),
            make,
        )

    def times_of(batch):
        timed, times, found = {}, {}, {}
        for name in implementations.NAMES:
            function, refusal = prepare(name, batch)
            times[name] = {"refused": refusal}  # Keeps the order.
            if function:
                timed[name] = calls.on_inputs(function, starts, batch)
                found[name] = digest.of(function(starts[:batch]))
        found.pop(implementations.FULL, None)  # another model
        times |= calls.measure(timed, batch, settings.repetitions)
        return times, len(set(found.values())) == 1

    results = {batch: times_of(batch) for batch in question.batches}
    return {
        "head": heads.facts(head),
        "clarity": _clarity(head, rates),
        "same": {batch: same for batch, (_, same) in results.items()},
        "batches": {batch: times for batch, (times, _) in results.items()},
    }


def is_wrong(result):
    """Whether two searches of one tree have found something else."""
    return not all(result.get("same", {}).values())


def _clarity(head, rates):
    """How sure the model is of its inputs; see `call_report.clarity_text`."""
    count = brute_force.num_inputs(head, _JUDGED_INPUTS, rates)
    parts = [
        brute_force.clarity(tf.gather(nodes, head.tree.class_rows, axis=1))
        for nodes in brute_force.chunks(head, count)
    ]
    top_1, entropy = map(np.concatenate, zip(*parts, strict=True))
    return {
        "inputs": count,
        "top_1": float(top_1.mean()),
        "entropy": float(entropy.mean()),
    }
