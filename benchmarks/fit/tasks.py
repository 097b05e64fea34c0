"""The tasks."""

import dataclasses

import numpy as np

from benchmarks.fit import baskets, synthetic

MAKERS = {
    "packages": baskets.dependencies,
    "synthetic": synthetic.clusters,
}
# The learning rates at which `dense_counts` is best after 1,000 steps, among
# 1e-3, 2e-3, 4e-3 and 8e-3.
RATES = {"packages": 4e-3, "synthetic": 2e-3}
_MAX_HELD_OUT = 10_000


@dataclasses.dataclass(frozen=True)
class Task:
    """A classification of contexts.

    Attributes:
      contexts: `[n, C]` int32, the classes that are known of each example; -1:
        none.
      labels: `[n]` int32, classes.
      held_out_contexts: `[m, C]`.
      held_out_labels: `[m]`.
      num_classes: N. The ids of the classes are in random order.
      is_bag: whether the order of a context has no meaning.
      counts: `[N]`, how often each class occurs in training.
      optimum: the lowest possible perplexity, or None if it is not known.
    """

    contexts: np.ndarray
    labels: np.ndarray
    held_out_contexts: np.ndarray
    held_out_labels: np.ndarray
    num_classes: int
    is_bag: bool
    counts: np.ndarray
    optimum: float | None = None


def load(name):
    """Returns the `Task` of a name.

    Raises:
      OSError: the files that the task is made of are not available.
    """
    print(f"Preparing the task {name} ...", flush=True)
    return prepare(MAKERS[name]())


def prepare(made):
    """Returns the `Task` of what a maker returned, its ids in random order."""
    rng = np.random.default_rng(1)
    num_classes = made["num_classes"]
    order = rng.permutation(num_classes)
    contexts, labels = made["training"]
    held_out_contexts, held_out_labels = made["held_out"]
    chosen = np.sort(rng.permutation(len(held_out_labels))[:_MAX_HELD_OUT])

    def renumbered(numbers):
        new = np.append(order, -1).astype(np.int32)  # -1 stays -1
        return new[numbers]

    labels = renumbered(labels)
    return Task(
        contexts=renumbered(contexts),
        labels=labels,
        held_out_contexts=renumbered(held_out_contexts[chosen]),
        held_out_labels=renumbered(held_out_labels[chosen]),
        num_classes=num_classes,
        is_bag=made["is_bag"],
        counts=np.bincount(labels, minlength=num_classes),
        optimum=made.get("optimum"),
    )
