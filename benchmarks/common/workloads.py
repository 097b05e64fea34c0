"""The workloads by name: sizes, trees, and the labels that are drawn."""

import dataclasses

import numpy as np

from tf_hsm.tree import Tree

TREES = {
    "two_level": Tree.two_level,
    "flat": Tree.flat,
    "binary": lambda num_classes: Tree.balanced(num_classes, 2),
    "huffman": lambda num_classes: Tree.huffman(zipf_counts(num_classes)),
    "data": lambda num_classes: _data_tree(num_classes),
}
LABELS = ("uniform", "zipf")
# In adaptive softmaxes, each tail is narrower than the one before by this.
DIV_VALUE = 4.0


@dataclasses.dataclass(frozen=True)
class Workload:
    """Sizes, and the trees and labels that a workload is run with."""

    num_classes: int
    width: int
    batch: int
    trees: tuple[str, ...] = ("two_level",)
    labels: tuple[str, ...] = LABELS
    # Where adaptive softmaxes cut the classes. 1bw, text8 and `DIV_VALUE` are
    # those of the paper's code (Grave et al., 2017: Efficient softmax
    # approximation for GPUs).
    cutoffs: tuple[int, ...] = ()


WORKLOADS = {
    "tiny": Workload(1_000, 16, 32, cutoffs=(100, 300)),
    "1m-b400": Workload(1_000_000, 300, 400),
    "1m-b8192": Workload(1_000_000, 300, 8_192),
    "10m-b400": Workload(10_000_000, 300, 400),
    "10m-b40k": Workload(10_000_000, 300, 40_000),
    "1bw": Workload(
        793_471,
        512,
        2_560,
        labels=("zipf",),
        cutoffs=(4_000, 40_000, 200_000),
    ),
    "text8": Workload(
        44_371,
        512,
        2_560,
        trees=("two_level", "huffman"),
        labels=("zipf",),
        cutoffs=(2_000, 10_000),
    ),
    "50k": Workload(
        50_000, 128, 2_048, trees=("data", "huffman"), labels=("zipf",)
    ),
    "flat-32k": Workload(32_000, 1_024, 4_096, trees=("flat",)),
    "flat-50k": Workload(50_000, 512, 2_048, trees=("flat",)),
    "flat-128k": Workload(128_000, 256, 4_096, trees=("flat",)),
    "deep": Workload(1_000_000, 300, 8_192, trees=("binary", "huffman")),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One workload with one tree, one kind of labels, one type of numbers."""

    workload: str
    tree: str
    labels: str
    dtype: str
    # In place of the workload's own.
    num_classes: int | None = None
    batch: int | None = None

    @property
    def sizes(self):
        """The `Workload`, with the sizes that were replaced."""
        workload = WORKLOADS[self.workload]
        return dataclasses.replace(
            workload,
            num_classes=self.num_classes or workload.num_classes,
            batch=self.batch or workload.batch,
        )

    def __str__(self):
        """Names the case."""
        return (
            f"{self.workload}, {self.tree} tree, {self.labels} labels, "
            f"{self.dtype}"
        )


def cases(workloads, labels, dtype):
    """Lists the cases to run.

    Args:
      workloads: names in `WORKLOADS`.
      labels: "uniform", "zipf", "both", or None for the first kind of each
        workload.
      dtype: the name of the type of weights and inputs.
    """
    kinds = {None: None, "both": LABELS}.get(labels, (labels,))
    return [
        Case(name, tree, kind, dtype)
        for name in workloads
        for tree in WORKLOADS[name].trees
        for kind in kinds or WORKLOADS[name].labels[:1]
    ]


def make_tree(case):
    """Builds the tree of a case."""
    return TREES[case.tree](case.sizes.num_classes)


def zipf_counts(num_classes):
    """How often each class occurs, class 0 most: 1 / (class + 1)."""
    return 1 / np.arange(1, num_classes + 1)


def draw_labels(case, number, seed=0):
    """Draws `[number, B]` int64 labels, the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    shape = (number, case.sizes.batch)
    if case.labels == "uniform":
        return rng.integers(case.sizes.num_classes, size=shape)
    return draw_zipf(rng, case.sizes.num_classes, shape)


def draw_zipf(rng, num_classes, shape):
    """Draws classes with the probabilities of `zipf_counts`."""
    cumulative = np.cumsum(zipf_counts(num_classes))
    return np.searchsorted(cumulative, rng.random(shape) * cumulative[-1])


def _data_tree(num_classes):
    """The `from_data` tree of classes that have one context in a hundred."""
    rng = np.random.default_rng(0)
    labels = draw_zipf(rng, num_classes, 20 * num_classes)
    return Tree.from_data(
        labels, labels % 100, num_classes=num_classes, verbose=False
    )
