"""What is compared with which peers, and what each of them is told to do."""

import dataclasses
import pathlib
from typing import NamedTuple

import numpy as np

from benchmarks.common import workloads

WORKLOADS = ("tiny", "text8", "1bw", "deep")
# An eighth of word2vec's: with the gradients of a batch summed, its own makes
# the frequent nodes overshoot until nothing is finite, which takes other paths.
_LEARNING_RATE = 0.025 / 8
# fastText cuts lines at 1,024 words, of which the end of the line is one.
_LINE = 1_000


class Comparison(NamedTuple):
    """Implementations that are measured in turn."""

    title: str
    phases: tuple[str, ...]
    reference: str  # the implementation that others are compared with
    # Name -> (module below `benchmarks`, spec of its `Implementation`).
    implementations: dict[str, tuple[str, dict]]
    # A turn of one step begins with another that is not timed, on the labels of
    # the turn before: a process that slept finds its threads asleep.
    of_single_steps: bool


def adaptive(workload, folder, turns, threads):
    """One step of our loss, of our adaptive softmax, and of PyTorch's.

    Args:
      workload: the name of a workload with cutoffs.
      folder: where to write the labels.
      turns: how many batches of labels to draw.
      threads: how many CPUs each may use.
    """
    case = workloads.Case(workload, "two_level", "zipf", "float32")
    path = pathlib.Path(folder, "labels.npy")
    np.save(path, workloads.draw_labels(case, turns))
    sizes = case.sizes
    spec = {"threads": threads, "labels": str(path)}
    ours = spec | {"case": dataclasses.astuple(case)}
    torch = spec | {
        "num_classes": sizes.num_classes,
        "width": sizes.width,
        "batch": sizes.batch,
        "cutoffs": sizes.cutoffs,
        "div_value": workloads.DIV_VALUE,
    }
    return Comparison(
        f"{workload}: N={sizes.num_classes:,}, D={sizes.width}, "
        f"B={sizes.batch:,}, zipf labels; two_level tree, adaptive softmax "
        f"with cutoffs {', '.join(f'{c:,}' for c in sizes.cutoffs)}",
        ("forward", "forward_backward"),
        "ours",
        {
            "ours": ("peers.ours", ours),
            "ours, adaptive": ("peers.adaptive", torch),
            "pytorch": ("peers.torch_adaptive", torch),
        },
        of_single_steps=True,
    )


def skip_gram(num_words, folder, threads, num_classes=None):
    """Training on the pairs of neighbours of a corpus, with a Huffman tree.

    The words are drawn like zipf labels. The classes are those that occur,
    numbered by frequency, and their counts are those of the Huffman tree.

    Args:
      num_words: the size of the corpus, rounded down to whole lines.
      folder: where to write the corpus.
      threads: how many CPUs each may use.
      num_classes: how many classes there are to draw from; None: as in the
        workload "deep".
    """
    sizes = workloads.WORKLOADS["deep"]
    num_classes = num_classes or sizes.num_classes
    words = _draw_corpus(num_classes, num_words // _LINE)
    array, text = (pathlib.Path(folder, n) for n in ("words.npy", "words.txt"))
    np.save(array, words)
    np.savetxt(text, words, "%d")
    num_classes = int(words.max()) + 1
    spec = {"threads": threads, "width": sizes.width}
    ours = spec | {
        "batch": sizes.batch,
        "learning_rate": _LEARNING_RATE,
        "words": str(array),
        "pinned": False,
    }
    peer = spec | {
        "text": str(text),
        "lines": len(words),
        "line": _LINE,
        "num_classes": num_classes,
    }
    return Comparison(
        f"deep: {words.size:,} words drawn by zipf, N={num_classes:,} classes "
        f"occur, D={sizes.width}, window 1, Huffman tree; ours with "
        f"B={sizes.batch:,}",
        ("train",),
        "ours, skip-gram",
        {
            "ours, skip-gram": ("peers.skip_gram", ours),
            # One vector for each binary node, like the peers' trees.
            "ours, pinned": ("peers.skip_gram", ours | {"pinned": True}),
            "gensim": ("peers.gensim_skip_gram", peer),
            "fasttext": ("peers.fasttext_skip_gram", peer),
        },
        of_single_steps=False,
    )


def _draw_corpus(num_classes, num_lines):
    """Returns `[lines, _LINE]` ids from 0, the most frequent class first."""
    rng = np.random.default_rng(0)
    classes = workloads.draw_zipf(rng, num_classes, num_lines * _LINE)
    _, ids, counts = np.unique(classes, return_inverse=True, return_counts=True)
    by_frequency = np.empty(counts.size, np.int64)
    by_frequency[np.argsort(-counts, kind="stable")] = np.arange(counts.size)
    return by_frequency[ids].reshape(num_lines, _LINE)
