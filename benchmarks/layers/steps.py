"""What a step of each head takes, from the output of the layer to gradients.

Only arguments that earlier versions have too, all by keyword.
"""

import time

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import machine
from tf_hsm import layers

_TRACES = 5
_WIDTH, _BATCH = 300, 400
_PAIRS = 8192


def measure(classes, repetitions, threads):
    """Returns a dict for each head, to be called in a process of its own.

    Args:
      classes: N of the hierarchical softmax; the others have fewer.
      repetitions: steps for each figure.
      threads: how many this process may use.
    """
    machine.use_threads(threads)
    rng = np.random.default_rng(0)
    few = max(classes // 20, 100)
    tree = tf_hsm.Tree.two_level(classes)
    small = tf_hsm.Tree.two_level(few)
    words = tf_hsm.Tree.huffman(1e7 / np.arange(1, few + 1))
    heads = {
        "HierarchicalSoftmax": layers.HierarchicalSoftmax(tree),
        "  in place": layers.HierarchicalSoftmax(small, optimizer="sgd"),
        "  on two devices": layers.HierarchicalSoftmax(
            small, devices=["CPU:0"] * 2
        ),
        "AdaptiveSoftmax": layers.AdaptiveSoftmax(
            few, cutoffs=[few // 10, few // 3]
        ),
        "EmbeddingSoftmax": layers.EmbeddingSoftmax(
            words, num_embeddings=few, width=_WIDTH, optimizer="sgd"
        ),
    }
    results = []
    for name, head in heads.items():
        batch, inputs = _BATCH, None
        if name == "EmbeddingSoftmax":
            batch = _PAIRS
            inputs = tf.constant(rng.integers(few, size=batch))
        else:
            values = rng.normal(size=[batch, _WIDTH])
            inputs = tf.constant(values.astype(np.float32))
        labels = tf.constant(rng.integers(head.num_classes, size=batch))
        head(inputs)  # builds it
        results.append(_timed(name, head, inputs, labels, repetitions))
    return results


def _timed(name, head, inputs, labels, repetitions):
    loss = head.loss

    def step(inputs, labels):
        sources = [v.value for v in head.trainable_variables]
        with tf.GradientTape() as tape:
            if inputs.dtype.is_floating:
                tape.watch(inputs)
                sources.append(inputs)
            total = loss(labels, head(inputs))
        return total, tape.gradient(total, sources)

    traces, samples = [], []
    for _ in range(_TRACES):
        traced = tf.function(step)
        begin = time.process_time()
        traced.get_concrete_function(inputs, labels)
        traces.append(1e3 * (time.process_time() - begin))
    for _ in range(repetitions + 2):
        begin = time.perf_counter()
        total, _ = traced(inputs, labels)
        total.numpy()
        samples.append(1e3 * (time.perf_counter() - begin))
    return {
        "head": name,
        "step_ms": float(np.median(samples[2:])),
        "trace_ms": float(np.median(traces)),
        "samples_ms": samples[2:],
    }
