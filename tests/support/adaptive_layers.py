"""AdaptiveSoftmax layers with random weights, and what they should answer."""

import numpy as np

from tests.support import head_oracle
from tf_hsm import Tree
from tf_hsm.layers import AdaptiveSoftmax

COUNTS = np.arange(40) % 11
LAYERS = {
    "one_class": (1, {"cutoffs": []}),
    "flat_softmax": (9, {"cutoffs": []}),
    "head_of_one": (9, {"cutoffs": [1, 2], "div_value": 2}),
    "narrow": (40, {"cutoffs": [5, 9, 21], "div_value": 2.2}),
    "as_wide": (23, {"cutoffs": [3, 12], "div_value": 1, "use_bias": "head"}),
    "two_level": (40, {"cutoffs": [5, 9], "tail": "two_level", "div_value": 3}),
    "trees": (
        40,
        {"cutoffs": [5, 31], "tail": [3, Tree.huffman(range(9))], "width": 12},
    ),
    "pinned": (
        40,
        {
            "cutoffs": [5, 31],
            "tail": [3, Tree.huffman(range(9), pinned=True)],
            "width": None,
        },
    ),
    "permuted": (40, {"cutoffs": [5, 9, 21], "counts": COUNTS, "div_value": 2}),
    "tail_of_one": (9, {"cutoffs": [4, 8], "div_value": 2}),
    "width_1": (17, {"cutoffs": [6], "div_value": 12}),
    "no_bias": (40, {"cutoffs": [5, 9, 21], "use_bias": False, "div_value": 2}),
    "branching": (40, {"cutoffs": [5], "tail": np.int64(3)}),
    "several_trees": (
        40,
        {
            "cutoffs": [5, 9, 21],
            "div_value": 2,
            "tail": [Tree.huffman([9, 1, 5, 3], branching=2), "flat", 3],
        },
    ),
}
SOME = ["flat_softmax", "narrow", "trees", "permuted"]


def make(name="permuted", **options):
    """One of LAYERS, for inputs 12 wide, with random weights."""
    num_classes, own = LAYERS[name]
    options = {"div_value": 3, "width": 12, **own, **options}
    layer = AdaptiveSoftmax(num_classes, **options)
    layer.build([None, 12])
    rng = np.random.default_rng(0)
    for variable in layer.weights:
        if variable is not layer.in_place.anchor:
            variable.assign(0.7 * rng.normal(size=variable.shape))
    return layer


def make_inputs(*shape):
    return np.random.default_rng(1).normal(size=[*shape, 12]).astype("f4")


def ranks_of(layer):
    """The place of each class by its count; of equal ones, of the smaller.

    Classes that joined later come last.
    """
    if layer.clusters.order is None:
        return np.arange(layer.num_classes)
    ranks = np.argsort(np.lexsort((np.arange(40), -COUNTS)))
    return np.append(ranks, np.arange(40, layer.num_classes))


def dense_log_probs(layer, x, temperature=1.0):
    """The log-probabilities `[B, N]` of all classes, in float64."""
    values = head_oracle.log_probs(layer, np.float64(x), temperature)
    return values.numpy()[:, head_oracle.Rows(layer).class_rows]
