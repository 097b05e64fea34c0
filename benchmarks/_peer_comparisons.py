"""What is compared with which peers, and what each is told to do."""

import dataclasses
import pathlib
import sys

import numpy as np

from benchmarks import _peer_process, _workloads

# The distributions to install, by the module that was not found.
_DISTRIBUTIONS = {"fasttext": "fasttext-wheel"}
# Words per line; fastText takes at most 1,024 with the end of the line.
_LINE = 1_000


@dataclasses.dataclass(frozen=True)
class Adaptive:
    """One step of a loss, against PyTorch's adaptive softmax.

    The cutoffs of 1bw and text8 are those of the paper's code (Grave et al.,
    2017: Efficient softmax approximation for GPUs).
    """

    workload: str
    cutoffs: tuple[int, ...]
    div_value: float = 4.0

    phases = ("forward", "forward_backward")

    def prepare(self, folder, turns, threads):
        """Draws the labels and returns module and spec by implementation."""
        case = _workloads.Case(self.workload, "two_level", "zipf", "float32")
        path = pathlib.Path(folder, "labels.npy")
        np.save(path, _workloads.draw_labels(case, turns))
        spec = {"threads": threads, "labels": str(path)}
        sizes = case.sizes
        return {
            "ours": (
                "_peer_ours",
                spec | {"case": dataclasses.astuple(case)},
            ),
            "pytorch": (
                "_peer_torch",
                spec
                | dataclasses.asdict(self)
                | dataclasses.asdict(sizes),
            ),
        }

    def describe(self):
        """Returns the headline."""
        sizes = _workloads.WORKLOADS[self.workload]
        return (
            f"{self.workload}: N={sizes.num_classes:,}, D={sizes.width}, "
            f"B={sizes.batch:,}, zipf labels; two_level tree against cutoffs "
            f"{', '.join(f'{c:,}' for c in self.cutoffs)} with div_value "
            f"{self.div_value:g}"
        )


@dataclasses.dataclass(frozen=True)
class SkipGram:
    """Training steps on a corpus, against gensim and fastText.

    The words are drawn like zipf labels. The classes are those that occur,
    numbered by frequency; their counts are the counts of the Huffman tree.
    """

    num_classes: int
    num_words: int
    width: int = 300
    batch: int = 8_192

    phases = ("train",)
