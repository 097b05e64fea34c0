"""Asks a quantized head whose original rows rank the best classes anew."""

import tempfile
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import units
from benchmarks.heads import call_report, calls, heads

_BATCH = 400  # inputs of a call whose answers are compared
_FLOATS = "float32"


class Question(NamedTuple):
    """What is asked."""

    k: int
    batches: tuple[int, ...]
    counts: tuple[int, ...]  # how many classes the codes rank


def measure(source, question, settings):
    """Measures one head, in a process of its own.

    `question` is a `Question`, `source` and `settings` go to `heads.make`.

    Returns:
      {"refused": why}; or a dict that JSON can hold: "head", "answers": name ->
      {"top_1", "top_k": the share of the inputs that have the best class and
      the k best classes of the float weights; "certain": the share of certain
      answers, or None}, and "batches": batch -> name -> what
      `call_report.table` takes, in CPU time.
    """
    head, _, refusal = heads.make(source, question.batches, settings)
    if refusal:
        return {"refused": refusal}
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, head.parameters.weights.numpy())
        file.flush()
        asked = _functions(head, question, np.load(file.name, mmap_mode="r"))
        return {
            "head": heads.facts(head),
            "answers": _answers(head, question, asked),
            "batches": {
                batch: calls.measure(
                    {
                        name: calls.on_inputs(
                            ask, head.inputs, batch, time.process_time
                        )
                        for name, ask in asked.items()
                    },
                    batch,
                    settings.repetitions,
                )
                for batch in question.batches
            },
        }


def _functions(head, question, array):
    """Returns name -> a function of inputs that returns arrays."""
    weights, biases = head.parameters
    found = {_FLOATS: _asking(head, question.k, weights, biases)}
    for mode in ("int8", "int4"):
        rows = tf_hsm.quantize_rows(weights, mode)
        found[mode] = _asking(head, question.k, rows, biases)
        for count in question.counts:
            for place, originals in {"memory": weights, "file": array}.items():
                kept = tf_hsm.QuantizedRows(rows.codes, rows.scales, rows.width)
                kept.keep(originals)
                found[f"{mode}, {count} anew, {place}"] = _asking(
                    head, question.k, kept, biases, count
                )
    return found


def _asking(head, k, weights, biases, rescore=None):
    function = tf.function(
        lambda inputs: tf_hsm.hierarchical_softmax_top_k(
            weights, biases, inputs, head.tree, k, rescore=rescore
        )
    )
    return lambda inputs: [each.numpy() for each in function(inputs)]


def _answers(head, question, asked):
    found, best = {}, None
    for name, ask in asked.items():
        parts = [
            ask(head.inputs[first : first + _BATCH])
            for first in range(0, len(head.inputs), _BATCH)
        ]
        _, classes, *certain = map(np.concatenate, zip(*parts, strict=True))
        best = classes if best is None else best
        same = np.sort(classes, 1) == np.sort(best, 1)
        found[name] = {
            "top_1": float(np.mean(classes[:, 0] == best[:, 0])),
            "top_k": float(np.mean(same.all(axis=1))),
            "certain": float(np.mean(certain[0])) if certain else None,
        }
        if certain and not same.all(axis=1)[certain[0]].all():
            raise ValueError(f"{name}: a certain answer is wrong")
    return found


def text(source, question, result):
    """The tables of a head; arguments as for `report.text`."""
    k = question.k
    lines = [
        call_report.head_text(source, result["head"]) + f"; k={k}; CPU time",
        "",
        f"{'weights':<26}{'top-1 equal':>13}{f'top-{k} equal':>15}"
        f"{'certain':>10}"
        + "".join(f"{f'batch {b:,}, ms':>15}" for b in result["batches"]),
    ]
    for name, found in result["answers"].items():
        certain = found["certain"]
        lines.append(
            f"{name:<26}{found['top_1']:>13.2%}{found['top_k']:>15.2%}"
            + (f"{'-':>10}" if certain is None else f"{certain:>10.2%}")
            + "".join(
                f"{units.of_seconds(times[name]['p50_ms'] / 1e3):>15}"
                for times in result["batches"].values()
            )
        )
    return "\n".join(lines)
