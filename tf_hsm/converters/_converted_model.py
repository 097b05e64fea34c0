"""What a converter returns."""

import dataclasses

import numpy as np

from tf_hsm.tree import Tree


@dataclasses.dataclass(frozen=True, eq=False)
class ConvertedModel:
    """A tree with weights, and the input vectors that belong to it.

    `tf_hsm.hierarchical_softmax_loss(model.weights, model.biases, labels,
    inputs, model.tree)` is -log p of the model that was converted, for any
    inputs `[..., D]`.

    Attributes:
      tree: a binary `tf_hsm.Tree` over the N output words or labels, pinned
        unless it was asked not to be, or N is 1.
      weights: `[G, D]`, the model's own vectors, to the bit; of a tree that is
        not pinned `[R, D]`, where of the two rows of a group one is zero.
      names: the N output words or labels, in class order.
      inputs: `[V, D]`, the vectors of the input words.
      input_names: the V input words.
      biases: None; the models that are read here have none.
    """

    tree: Tree
    weights: np.ndarray = dataclasses.field(repr=False)
    names: list[str] = dataclasses.field(repr=False)
    inputs: np.ndarray = dataclasses.field(repr=False)
    input_names: list[str] = dataclasses.field(repr=False)
    biases: None = None
