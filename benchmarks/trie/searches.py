"""Beam searches over codes: without a constraint, with a trie, with dicts.

Every search has the same model: the hidden vector of a step is looked up by the
last code and the position, and the head is one matrix product.
"""

import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import machine, timing

FREE = "no constraint"
TRIE = "trie on the device"
MASKED = "trie, 9 of 10 items allowed"
MASKED_EACH = "the mask made in each search"
HOST = "dicts in Python"
_WIDTH = 64
_STRIDE = 7_919  # between the inputs of one position and the next
_COUNTED = 2**40  # codes of fewer items could be drawn twice


class Sizes(NamedTuple):
    """How many items, with how many codes of how many levels; the beam."""

    items: int
    num_codes: int
    levels: int
    beam_width: int


def measure(sizes, repetitions, threads, with_dicts):
    """Times the searches in turns.

    To be called in a process of its own.

    Returns:
      A dict that JSON can hold: "nodes", "trie_bytes", "trie_seconds",
      "invalid", how many of the found paths are no item or not allowed, and
      "searches": name -> {"ms", "samples_ms", "added_ms"}, each per step, where
      "added_ms" is the median of what a search takes more than FREE in the same
      turn.
    """
    machine.use_threads(threads)
    codes = _draw_codes(sizes)
    start = time.perf_counter()
    trie = tf_hsm.decoding.Trie(codes)
    seconds = time.perf_counter() - start
    allowed = np.random.default_rng(1).random(sizes.items) < 0.9
    model = Model(sizes)
    searches = {
        FREE: model.free_search(),
        TRIE: model.constrained_search(trie),
        MASKED: model.constrained_search(trie, trie.mask(allowed)),
        MASKED_EACH: model.constrained_search(trie, tf.constant(allowed)),
    }
    if with_dicts:
        searches[HOST] = model.host_search(_nested(codes))
    found = {name: search().numpy() for name, search in searches.items()}
    invalid = int(np.count_nonzero(trie.items(found[TRIE]).numpy() < 0))
    for name in (MASKED, MASKED_EACH):
        items = trie.items(found[name]).numpy()
        invalid += int(np.count_nonzero((items < 0) | ~allowed[items]))
    if with_dicts:
        invalid += int(np.any(found[HOST] != found[TRIE], -1).sum())
    samples = timing.interleave(
        {
            name: lambda turn, search=search: _seconds(search)
            for name, search in searches.items()
        },
        repetitions,
        lambda: None,
    )
    per_step = {
        name: np.array(s) * 1e3 / sizes.levels for name, s in samples.items()
    }
    return {
        "nodes": trie.num_nodes,
        "trie_bytes": sum(v.numpy().nbytes for v in trie.variables),
        "trie_seconds": seconds,
        "invalid": invalid,
        "searches": {
            name: {
                "ms": float(np.median(ms)),
                "added_ms": float(np.median(ms - per_step[FREE][: len(ms)])),
                "samples_ms": ms.tolist(),
            }
            for name, ms in per_step.items()
        },
    }


class Model:
    """The model of all searches, and a head of `sizes.num_codes` codes."""

    def __init__(self, sizes):
        """Draws the weights."""
        rng = np.random.default_rng(0)
        self.num_classes = sizes.num_codes
        self._sizes = sizes
        self._hidden = tf.constant(rng.normal(size=[1024, _WIDTH]), tf.float32)
        self._kernel = tf.constant(
            rng.normal(size=[_WIDTH, sizes.num_codes]), tf.float32
        )

    def step(self, codes, positions):
        """A step, as `tf_hsm.decoding` has it; the state is the position."""
        places = (codes + positions * _STRIDE) % 1024
        return tf.gather(self._hidden, places), positions + 1

    def log_probs(self, hidden):
        """The log-probabilities of all codes."""
        return tf.nn.log_softmax(tf.tensordot(hidden, self._kernel, 1))

    def constrained_search(self, trie, allowed=None):
        """Returns a function that searches with a `Trie`."""

        @tf.function
        def search():
            return tf_hsm.decoding.beam_search(
                self.step,
                tf.zeros([1], tf.int64),
                self,
                beam_width=self._sizes.beam_width,
                length=self._sizes.levels,
                constraint=trie,
                allowed=allowed,
            ).classes[0]

        return search

    def free_search(self):
        """Returns the same search with any code after any other."""

        @tf.function
        def search():
            totals, paths = self._start()
            for position in range(self._sizes.levels):
                log_probs = self._next(paths, position)
                totals, paths = self._extend(totals, paths, log_probs)
            return paths

        return search

    def host_search(self, root):
        """Returns a search with a mask that Python makes from nested dicts."""
        next_log_probs = tf.function(self._next, reduce_retracing=True)
        extend = tf.function(self._extend, reduce_retracing=True)

        def search():
            totals, paths = self._start()
            for position in range(self._sizes.levels):
                log_probs = next_log_probs(paths, tf.constant(position))
                mask = np.full(log_probs.shape, -np.inf, np.float32)
                for row, path in zip(mask, paths.numpy().tolist(), strict=True):
                    node = root
                    for code in path:
                        node = node.get(code, {})
                    row[list(node)] = 0
                totals, paths = extend(totals, paths, log_probs + mask)
            return paths

        return search

    def _start(self):
        """One empty path; the other places of the beam have none."""
        width = self._sizes.beam_width
        is_first = tf.range(width) == 0
        totals = tf.where(is_first, np.float64(0), -np.inf)
        return totals, tf.zeros([width, 0], tf.int64)

    def _next(self, paths, position):
        """The log-probabilities `[beam_width, num_codes]` behind paths."""
        padded = tf.pad(paths, [[0, 0], [1, 0]])
        positions = tf.cast(position, tf.int64)
        return self.log_probs(self.step(padded[:, -1], positions)[0])

    def _extend(self, totals, paths, log_probs):
        """The best paths with one code more, and their log-probabilities."""
        size = self.num_classes
        scores = totals[:, tf.newaxis] + tf.cast(log_probs, tf.float64)
        totals, chosen = tf.math.top_k(
            tf.reshape(scores, [-1]), self._sizes.beam_width
        )
        codes = tf.cast(chosen % size, tf.int64)
        paths = tf.gather(paths, chosen // size)
        return totals, tf.concat([paths, codes[:, tf.newaxis]], 1)


def _draw_codes(sizes):
    """Draws the codes of items, `[items, levels]`, evenly; no path twice."""
    rng = np.random.default_rng(0)
    dtype = np.int16 if sizes.num_codes < 2**15 else np.int32
    shape = [sizes.items, sizes.levels]
    if sizes.num_codes**sizes.levels >= _COUNTED * sizes.items:
        return rng.integers(sizes.num_codes, size=shape, dtype=dtype)
    numbers = rng.choice(
        sizes.num_codes**sizes.levels, sizes.items, replace=False
    )
    powers = sizes.num_codes ** np.arange(sizes.levels)
    return (numbers[:, np.newaxis] // powers % sizes.num_codes).astype(dtype)


def _nested(codes):
    """The items as a dict of dicts."""
    root = {}
    for path in codes.tolist():
        node = root
        for code in path:
            node = node.setdefault(code, {})
    return root


def _seconds(search):
    """The time of a call."""
    start = time.perf_counter()
    np.asarray(search())
    return time.perf_counter() - start
