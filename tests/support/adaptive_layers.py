"""AdaptiveSoftmax layers with random weights, and the same in float64 NumPy."""

import numpy as np

from tests.support import inference_reference as reference
from tests.support import oracle
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
    "permuted": (40, {"cutoffs": [5, 9, 21], "counts": COUNTS, "div_value": 2}),
}
SOME = ["flat_softmax", "narrow", "trees", "permuted"]


def make(name="permuted", **options):
    """One of LAYERS; see `made`."""
    num_classes, own = LAYERS[name]
    return made(num_classes, **{**own, **options})


def made(num_classes, seed=0, **options):
    """A layer for inputs 12 wide, with random weights."""
    options = {"div_value": 3, "width": 12, **options}
    layer = AdaptiveSoftmax(num_classes, **options)
    layer.build([None, 12])
    rng = np.random.default_rng(seed)
    for variable in layer.weights:
        if variable is layer.in_place.anchor:
            continue
        variable.assign(0.7 * rng.normal(size=variable.shape))
    return layer


def make_inputs(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=[*shape, 12]).astype("f4")


def arrays_of(layer):
    """The float64 matrices of the clusters: of the head, then of the tails."""
    n = layer.num_classes if not layer.cutoffs else layer.cutoffs[0]
    head_tree = oracle.OneGroup(n + len(layer.cutoffs))
    parts = [(head_tree, np.eye(12), layer.head_kernel, layer.head_bias)]
    for j, tree in enumerate(layer.clusters.tail_trees):
        p = layer.projections[j]
        p = np.eye(12) if p is None else p.numpy().astype(float)
        parts.append((tree, p, layer.tail_kernels[j], layer.tail_biases[j]))
    return [
        (t, p, k.numpy().astype(float), b if b is None else b.numpy())
        for t, p, k, b in parts
    ]


def ranks_of(layer):
    """The place of each class by its count; of equal ones, of the smaller.

    Classes that joined later come last.
    """
    if layer.clusters.order is None:
        return np.arange(layer.num_classes)
    ranks = np.argsort(np.lexsort((np.arange(40), -COUNTS)))
    return np.append(ranks, np.arange(40, layer.num_classes))


def dense_log_probs(layer, x, temperature=1.0):
    """Those of all classes, `[B, N]`."""
    (head, *tails), columns = arrays_of(layer), []
    for j, (tree, p, kernel, bias) in enumerate([head, *tails]):
        bias = 0 if bias is None else bias.astype(float)
        problem = oracle.Problem(
            np.float64(x) @ p,
            None,
            kernel / temperature,
            bias / temperature + np.zeros(len(kernel)),
            None,
        )
        values, _ = reference.node_log_probs(tree, problem)
        values = reference.by_class(tree, values)
        if j == 0:
            n, in_head = len(kernel) - len(tails), values
            columns.append(values[:, :n])
        else:
            columns.append(values + in_head[:, [n + j - 1]])
    return np.concatenate(columns, 1)[:, ranks_of(layer)]


def assert_close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
