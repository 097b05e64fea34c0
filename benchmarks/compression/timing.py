"""Asks one head with weights of several types."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.heads import calls, heads

TYPES = ("float32", "bfloat16", "int8", "int4")
# Inputs in one call, where answers are compared.
_BATCH = 400


class Question(NamedTuple):
    """What is asked."""

    k: int
    batches: tuple[int, ...]


def measure(source, question, settings):
    """Measures one head, in a process of its own.

    `question` is a `Question`, `source` and `settings` go to `heads.make`.

    Returns:
      {"refused": why}; or a dict that JSON can hold: "head", "types": name ->
      {"bytes", "perplexity" or None, "top_1": the share of the inputs that
      have the best class of the float weights}, and "batches": batch -> name
      -> what `call_report.table` takes.
    """
    head, _, refusal = heads.make(source, question.batches, settings)
    if refusal:
        return {"refused": refusal}
    parameters = {name: _parameters(head, name) for name in TYPES}
    types, best = {}, None
    for name, found in parameters.items():
        answers = [
            _answers(head, found, name, first)
            for first in range(0, len(head.inputs), _BATCH)
        ]
        top, losses = (np.concatenate(x) for x in zip(*answers, strict=True))
        best = top if best is None else best
        types[name] = {
            "bytes": bytes_of(found[0]),
            "perplexity": float(np.exp(losses.mean())) if losses.size else None,
            "top_1": float(np.mean(top == best)),
        }
    batches = {
        batch: calls.measure(
            {
                name: calls.on_inputs(
                    _top_k(head, found, name, question.k), head.inputs, batch
                )
                for name, found in parameters.items()
            },
            batch,
            settings.repetitions,
        )
        for batch in question.batches
    }
    return {"head": heads.facts(head), "types": types, "batches": batches}


def _parameters(head, name):
    """Returns weights of a type, and biases that the ops take beside them."""
    weights, biases = head.parameters
    if name in ("int8", "int4"):
        return tf_hsm.quantize_rows(weights, name), biases
    if weights.dtype == name:
        return weights, biases
    return tuple(
        None if v is None else tf.Variable(tf.cast(v, name), trainable=False)
        for v in (weights, biases)
    )


def bytes_of(weights):
    """Returns the bytes of weights; of codes and scales, if quantized."""
    if isinstance(weights, tf_hsm.QuantizedRows):
        return bytes_of(weights.codes) + bytes_of(weights.scales)
    dtype = tf.as_dtype(weights.dtype)
    return int(np.prod(weights.shape)) * dtype.size


def _inputs(inputs, name):
    return tf.cast(inputs, "bfloat16" if name == "bfloat16" else "float32")


def _answers(head, parameters, name, first):
    """The best class of some inputs, and the losses of their labels."""
    inputs = _inputs(head.inputs[first : first + _BATCH], name)
    top = tf_hsm.hierarchical_softmax_top_k(*parameters, inputs, head.tree, 1)
    if head.labels is None:
        return top.classes[:, 0], np.zeros(0)
    labels = head.labels[first : first + _BATCH, np.newaxis]
    found = tf_hsm.hierarchical_softmax_log_prob(
        *parameters, labels, inputs, head.tree
    )
    return top.classes[:, 0], -found[:, 0].numpy()


def _top_k(head, parameters, name, k):
    function = tf.function(
        lambda inputs: tf_hsm.hierarchical_softmax_top_k(
            *parameters, _inputs(inputs, name), head.tree, k
        )
    )
    return lambda inputs: [r.numpy() for r in function(inputs)]
