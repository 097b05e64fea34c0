"""Training steps of a Transformer with one head, in a process of their own."""

import functools
import gc
import re
import resource
import statistics
import time
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import machine
from examples.language_model import transformer
from examples.language_model.settings import Settings


class Sizes(NamedTuple):
    """The sizes of the model and of its batches."""

    classes: int
    width: int
    blocks: int
    sequences: int
    steps: int  # tokens of a sequence


class _NoHead:
    """The body alone, which minimizes the squares of its outputs."""

    def __init__(self, sizes):
        self.embedding = keras.layers.Embedding(sizes.classes, sizes.width)
        self.outputs = keras.layers.Identity()
        self.loss = lambda labels, outputs: keras.ops.mean(outputs**2)


class _DenseHead:
    """Keras' `Dense`, which has a table of its own."""

    def __init__(self, sizes):
        self.embedding = keras.layers.Embedding(sizes.classes, sizes.width)
        self.outputs = keras.layers.Dense(sizes.classes)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class _ReversibleHead:
    """Keras' `ReversibleEmbedding`, whose table is tied."""

    def __init__(self, sizes):
        self.embedding = keras.layers.ReversibleEmbedding(
            sizes.classes, sizes.width
        )
        self.outputs = functools.partial(self.embedding, reverse=True)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class _FlatHead:
    """`HierarchicalSoftmax` of a flat tree, whose table is tied."""

    def __init__(self, sizes):
        self.embedding = keras.layers.Embedding(sizes.classes, sizes.width)
        self.outputs = tf_hsm.layers.HierarchicalSoftmax(
            tf_hsm.Tree.flat(sizes.classes),
            use_bias=False,
            tied_to=self.embedding,
        )
        self.loss = self.outputs.loss


HEADS = {
    "flat": _FlatHead,
    "reversible": _ReversibleHead,
    "dense": _DenseHead,
    "none": _NoHead,
}


def make_model(name, sizes):
    """Returns a compiled model of tokens `[sequences, steps]`."""
    head = HEADS[name](sizes)
    settings = Settings(
        corpus="",
        body="transformer",
        units=(sizes.width,) * sizes.blocks,
        dropout=0.0,
    )
    tokens = keras.Input([sizes.steps], sizes.sequences, dtype="int32")
    hidden = transformer.stack(head.embedding(tokens), settings)
    model = keras.Model(tokens, head.outputs(hidden))
    model.compile(keras.optimizers.Adam(1e-3), head.loss, jit_compile=False)
    return model


def measure(name, sizes, repetitions, threads, limit):
    """Trains a model for some steps, after one to warm up.

    Args:
      name: one of `HEADS`.
      sizes: `Sizes`.
      repetitions: how many steps are timed.
      threads: the number of threads.
      limit: the most bytes of address space of this process, or None.

    Returns:
      A dict: "parameters", the bytes of the model's variables, and
      "optimizer", of the slots; "extra", the peak of resident memory beyond
      these; "peak", of the process; "cpu_seconds", the median of a step;
      "losses". Or {"failed": why}.
    """
    machine.use_threads(threads)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (int(limit), int(limit)))
    model = make_model(name, sizes)
    model.optimizer.build(model.trainable_variables)
    rng = np.random.default_rng(0)
    text = rng.integers(sizes.classes, size=[sizes.sequences, sizes.steps + 1])
    tokens, labels = tf.constant(text[:, :-1]), tf.constant(text[:, 1:])
    gc.collect()
    resident = machine.resident_bytes()
    machine.restart_peak()
    seconds, losses = [], []
    try:
        for _ in range(1 + repetitions):
            start = time.process_time()
            losses.append(float(model.train_on_batch(tokens, labels)))
            seconds.append(time.process_time() - start)
    except tf.errors.ResourceExhaustedError as error:
        found = re.search(r"(OOM|no memory)[^[]*\S*", error.message)
        return {"failed": found[0] if found else error.message}
    except MemoryError:
        return {"failed": "MemoryError"}
    return {
        "parameters": _num_bytes(model.variables),
        "optimizer": _num_bytes(model.optimizer.variables),
        "extra": machine.peak_bytes() - resident,
        "peak": machine.peak_bytes(),
        "cpu_seconds": statistics.median(seconds[1:]),
        "losses": losses,
    }


def _num_bytes(variables):
    return sum(
        int(np.prod(v.shape)) * tf.as_dtype(v.dtype).size for v in variables
    )
