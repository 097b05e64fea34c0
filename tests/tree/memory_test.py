"""Trees that do not fit: refused at once, with the bytes that they need."""

import contextlib
import re
import tracemalloc

import numpy as np
import pytest

from tf_hsm import layers
from tf_hsm.tree import Tree, memory
from tf_hsm.tree.builders import balanced, embeddings


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Tree.balanced(10**15, 2), "num_classes is 1000000000000000; "),
        (lambda: Tree.balanced(10**15, [10**5] * 3), " 45,000,450.0 GB of"),
        (
            lambda: Tree.two_level(10**12),
            "needs 45,000.0 GB of memory",
        ),
        (lambda: Tree.two_level(np.int64(2**62)), "is 4611686018427387904; "),
        # A hundred thousand levels of one row for each pair of classes.
        (
            lambda: Tree.balanced(10**8, [5 * 10**7] + [1] * 10**5 + [2]),
            "num_classes is 100000000; ",
        ),
        (lambda: Tree.huffman(many(1)), "counts has 1000000000000 entries; "),
        (lambda: Tree.from_counts(many(1)), "counts has 1000000000000 entries"),
        (lambda: Tree.adaptive(many(1)), "needs 125,000.0 GB of memory"),
        (
            lambda: Tree.from_parents(many(-1)),
            "parents has 100000000000",
        ),
        (
            lambda: Tree.from_embeddings(np.broadcast_to(1.0, [10**12, 3])),
            "vectors has shape [1000000000000, 3]; ",
        ),
        (
            lambda: layers.AdaptiveSoftmax(10**12).build((None, 8)),
            "num_classes is 1000000000000; ",
        ),
        (
            lambda: layers.AdaptiveSoftmax(10**12, cutoffs=[10]),
            "num_classes is 9999999",
        ),
        (
            lambda: layers.SampledSoftmax(10**12, num_sampled=10),
            "num_classes is 1000000000000; ",
        ),
    ],
)
def test_trees_that_are_too_large(build, message):
    with (
        traced_peak() as peak,
        pytest.raises(ValueError, match=re.escape(message)) as error,
    ):
        build()
    assert "and this machine has " in str(error.value)
    assert peak[0] < 20e6


@contextlib.contextmanager
def traced_peak():
    """Yields a list in which the most bytes of the block are put."""
    peak = []
    tracemalloc.start()
    try:
        yield peak
    finally:
        peak.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


def many(value):
    """An array of 10**12 numbers in the memory of one."""
    return np.broadcast_to(np.int64(value), [10**12])


def test_numbers_of_classes_beyond_int64():
    for build in (Tree.two_level, lambda n: Tree.balanced(n, 10**40)):
        for number in (2**63, 10**30, 10**5000):
            with pytest.raises(ValueError, match=r"must be below 2\*\*63"):
                build(number)
    assert (
        Tree.balanced(5, 10**40)
        == Tree.balanced(5, [10**30])
        == (Tree.balanced(5, 5))
    )


def test_what_builders_say_that_they_need(monkeypatch):
    needed = []

    def check_fits(argument, size, item_bytes):
        needed.append(size * item_bytes)

    for module in (balanced, embeddings, memory):
        monkeypatch.setattr(module, "check_fits", check_fits)
    size = 100_000
    counts = 10**7 // np.arange(1, size + 1)
    parents = np.random.default_rng(0).integers(0, np.arange(1, size))
    for build in (
        lambda: Tree.balanced(size, 2),
        lambda: Tree.balanced(size, 300),
        lambda: Tree.balanced(size, [size // 2, 1, 1, 1, 2]),
        lambda: Tree.two_level(size),
        lambda: Tree.huffman(counts),
        lambda: Tree.huffman(counts, branching=300),
        lambda: Tree.adaptive(counts, num_clusters=2),
        lambda: Tree.from_parents(np.append(-1, parents)),
    ):
        needed.clear()
        with traced_peak() as peak:
            build()
        assert max(needed) / 4 < peak[0] < 1.05 * max(needed)
