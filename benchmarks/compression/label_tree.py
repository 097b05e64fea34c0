"""Trains a label tree, and asks it with weights of several types."""

import time

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import label_examples, machine
from benchmarks.compression import timing
from benchmarks.heads import calls

_WIDTH, _STEPS, _BATCH, _TESTS = 128, 2_000, 1_000, 10_000


def measure(labels, question, settings):
    """As `timing.measure`, with a "loss" in nats, and times of the CPU."""
    machine.use_threads(settings.threads)
    tree = tf_hsm.Tree.balanced(labels, 100)
    source = label_examples.Source(tree, _WIDTH, most=5)
    head = tf_hsm.layers.LabelTree(tree, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input([_WIDTH]), head])
    model.compile(tf_hsm.optimizers.RowwiseAdagrad(0.5, 1e-6), head.loss)
    for step in range(_STEPS):
        model.train_on_batch(*source.draw(_BATCH, step))
    inputs, true = map(tf.constant, source.draw(_TESTS, _STEPS))
    heads, types, asked = {"float32": head}, {}, {}
    for name in ("int8", "int4"):
        heads[name] = tf_hsm.layers.LabelTree.from_config(head.get_config())
        heads[name].build(inputs.shape)
        heads[name].set_weights(head.get_weights())
        heads[name].quantize(name)
    best = head.top_k(inputs, 1).classes
    for name, copy in heads.items():
        found = copy.top_k(inputs, 1).classes
        types[name] = {
            "bytes": timing.bytes_of(copy.kernel),
            "loss": float(np.mean(copy(inputs, true))),
            "top_1": float(np.mean(found == best)),
        }
        asked[name] = tf.function(lambda x, of=copy: of.top_k(x, question.k))
    sizes = {"classes": labels, "rows": tree.num_rows}
    return {
        "head": {**sizes, "width": _WIDTH, "groups": tree.num_groups},
        "types": types,
        "batches": {
            batch: calls.measure(
                {
                    name: calls.on_inputs(ask, inputs, batch, time.process_time)
                    for name, ask in asked.items()
                },
                batch,
                settings.repetitions,
            )
            for batch in question.batches
        },
    }
