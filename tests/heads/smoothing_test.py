"""Label smoothing of heads made of parts, against float64 NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import oracle
from tests.support.adaptive_layers import COUNTS, arrays_of, ranks_of
from tests.support.adaptive_layers import make as make_adaptive
from tests.support.devices import CPUS
from tests.support.trees import chain
from tf_hsm import Tree, distribute
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.losses import HeadLoss
from tf_hsm.optimizers import SGD

# The ops take both the share and the prior as float32.
SHARE, BATCH = 0.25, 23
TREES = {
    "huffman": Tree.huffman(1 / np.arange(1.0, 61)),
    "two_level": Tree.two_level(60),
    "chain": chain(59),
}
PRIORS = {"even": lambda n: None, "prior": lambda n: np.arange(n) % 7.0}


def step_of(head, x, labels, in_place):
    """The losses, and what a step of SGD(1) on their sum does.

    Returns:
        The losses, the gradient of the inputs, and for each variable of rows
        what was taken off; without a step in place, the gradients.
    """
    variables = head.row_variables()
    before = [v.numpy() for v in variables]
    x = tf.constant(x)
    losses = head.label_losses(labels, x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = HeadLoss(head, "sum")(labels, head(x))
    if in_place:
        dx = tape.gradient(total, x)
        taken = [b - v.numpy() for b, v in zip(before, variables, strict=True)]
    else:
        dx, *taken = tape.gradient(total, [x, *variables])
        taken = [tf.convert_to_tensor(g).numpy() for g in taken]
    return losses.numpy(), dx.numpy(), taken


def shares_of(tree, counts):
    return tree.row_shares(counts).astype("f4")


def assert_near(found, wanted):
    # Float32 shares of a group do not sum to 1 in float64.
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", TREES)
def test_on_devices(name, prior, in_place):
    """Every part smooths the groups that it has, by its part of the prior."""
    tree = TREES[name]
    counts = PRIORS[prior](tree.num_classes)
    head = HierarchicalSoftmax(
        tree,
        plan=distribute.plan(tree, CPUS[:3], top=8),
        dtype="float64",
        optimizer=SGD(1.0) if in_place else None,
        label_smoothing=SHARE,
        smoothing_prior=counts,
    )
    head.build([None, 5])
    problem = oracle.random_problem(tree, BATCH, 5, np.float64)
    shares = None if counts is None else shares_of(tree, counts)
    problem = problem.replace(
        upstream=np.ones(BATCH), label_smoothing=SHARE, smoothing_prior=shares
    )
    parts = [part.tree_rows for part in head._head.rows.parts]
    kernels, biases = head.row_variables()[::2], head.row_variables()[1::2]
    for rows, kernel, bias in zip(parts, kernels, biases, strict=True):
        kernel.assign(problem.weights[rows])
        bias.assign(problem.biases[rows])
    wanted, _ = oracle.hierarchical_softmax(tree, problem)
    losses, dx, taken = step_of(head, problem.inputs, problem.labels, in_place)
    assert_near(losses, wanted.loss)
    assert_near(dx, wanted.dx)
    for rows, dw, db in zip(parts, taken[::2], taken[1::2], strict=True):
        assert_near(dw, wanted.dw[rows])
        assert_near(db, wanted.db[rows])
    if in_place:
        return
    found = head._find_losses(problem.labels, problem.inputs, plain=True)
    plain = problem.replace(label_smoothing=0.0, smoothing_prior=None)
    wanted, _ = oracle.hierarchical_softmax(tree, plain)
    assert_near(found.losses, wanted.loss)


def expected_of_clusters(layer, x, labels, prior):
    """The losses and the gradients of the rows, cluster by cluster."""
    ranks, parts = ranks_of(layer)[labels], arrays_of(layer)
    ends = [*layer.cutoffs, layer.num_classes]
    tails = np.searchsorted(layer.cutoffs, ranks, side="right")
    n = len(parts[0][2]) - len(layer.cutoffs)
    shares = [None] * len(parts)
    if prior is not None:
        by_rank = np.empty(layer.num_classes)
        by_rank[ranks_of(layer)] = prior
        begins = [0, *layer.cutoffs]
        of_tails = [
            by_rank[slice(*pair)] for pair in zip(begins, ends, strict=True)
        ]
        first = np.append(of_tails[0], [tail.sum() for tail in of_tails[1:]])
        trees = [Tree.balanced(first.size, first.size)]
        trees += layer.clusters.tail_trees
        shares = [
            shares_of(tree, counts)
            for tree, counts in zip(trees, [first, *of_tails[1:]], strict=True)
        ]
    losses, found = np.zeros(len(labels)), []
    for j, (tree, projection, kernel, bias) in enumerate(parts):
        at = np.full(len(labels), True) if j == 0 else tails == j
        rows = np.where(tails > 0, n + tails - 1, ranks)
        if j:
            rows = ranks[at] - layer.cutoffs[j - 1]
        value, _ = oracle.hierarchical_softmax(
            tree,
            oracle.Problem(
                np.float64(x[at]) @ projection,
                rows,
                kernel,
                bias,
                np.ones(at.sum()),
                SHARE,
                shares[j],
            ),
        )
        losses[at] += value.loss
        found.append(value.dw)
    return losses, found


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", ["permuted", "trees"])
def test_of_an_adaptive_softmax(name, prior, in_place):
    """The shortlist is smoothed over its classes and tails, then each tail."""
    counts = PRIORS[prior](40)
    layer = make_adaptive(
        name,
        dtype="float64",
        optimizer=SGD(1.0) if in_place else None,
        label_smoothing=SHARE,
        smoothing_prior=counts,
    )
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=[BATCH, 12]), rng.integers(40, size=BATCH)
    wanted, of_kernels = expected_of_clusters(layer, x, labels, counts)
    losses, _, taken = step_of(layer, x, labels, in_place)
    assert_near(losses, wanted)
    for dw, its in zip(taken[::2], of_kernels, strict=True):
        assert_near(dw, its)


def test_a_tail_that_never_occurs():
    """The prior of a tail without counts is even, and no label is there."""
    prior = np.where(COUNTS.mean() < COUNTS, COUNTS, 0.0)
    layer = make_adaptive(label_smoothing=SHARE, smoothing_prior=prior)
    x = np.random.default_rng(1).normal(size=[3, 12]).astype("f4")
    losses = layer(x, np.flatnonzero(prior)[:3])
    assert np.isfinite(losses).all()


def test_saved(tmp_path):
    """The options are in the config, and the loaded layer trains alike."""
    import keras

    options = {"label_smoothing": SHARE, "smoothing_prior": COUNTS}
    x = np.random.default_rng(1).normal(size=[9, 12]).astype("f4")
    layer = make_adaptive(**options)
    model = keras.Sequential([keras.Input([12]), layer])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[-1]
    assert loaded.label_smoothing == SHARE
    np.testing.assert_array_equal(loaded.smoothing_prior, COUNTS)
    labels = np.arange(9)
    np.testing.assert_array_equal(loaded(x, labels), layer(x, labels))
