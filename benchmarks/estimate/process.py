"""A process of its own, and the memory that it takes."""

import concurrent.futures.process
import contextlib
import gc
import os
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import machine

KILLED = "killed, as the machine has not the memory"


class Peak(NamedTuple):
    """Resident bytes of this process.

    Attributes:
      before: what it had.
      beyond: the most that it had beyond that.
    """

    before: int
    beyond: int

    @property
    def total(self):
        """The most that it had."""
        return self.before + self.beyond


def alone(function, *args):
    """Returns `function(*args)` of a new process; None if that was killed.

    Its tensors are from malloc, and large ones are given back when they are
    freed. With oneDNN, which CPUs with AVX512_VNNI have by default, TensorFlow
    keeps what is freed and rounds up to powers of 2.
    """
    with _without_onednn():
        return alone_with_onednn(function, *args)


def alone_with_onednn(function, *args):
    """As `alone`, with oneDNN if that is the default."""
    try:
        return machine.run_alone(function, *args)
    except concurrent.futures.process.BrokenProcessPool:
        return None


def start(threads):
    """Lets TensorFlow, Keras and our library take what they take once.

    Must come first in a process.
    """
    machine.use_threads(threads)
    x = keras.Input((4,))
    model = keras.Model(x, keras.layers.Dense(3)(x))
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    model.train_on_batch(np.ones([2, 4]), np.ones([2]))
    tf_hsm.hierarchical_softmax_loss(
        tf.ones([4, 2]), None, [0], tf.ones([1, 2]), tf_hsm.Tree.balanced(4, 4)
    )


def peak_of(function):
    """Calls a function; returns the `Peak` and what the function returned."""
    gc.collect()
    before = machine.resident_bytes()
    machine.restart_peak()
    result = function()
    return Peak(before, machine.peak_bytes() - before), result


@contextlib.contextmanager
def _without_onednn():
    name, before = "TF_ENABLE_ONEDNN_OPTS", dict(os.environ)
    os.environ[name] = "0"
    try:
        yield
    finally:
        del os.environ[name]
        os.environ.update(before)
