"""Random lists of allowed classes, and answers among them by brute force."""

import numpy as np

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import oracle, tries

BATCH = 7
TREE = tf_hsm.Tree.huffman(1 + np.arange(60) ** 2, branching=3)


def random_arguments(tree, batch=BATCH, dtype=np.float32):
    """Weights, biases and inputs."""
    problem = oracle.random_problem(tree, batch, 5, dtype)
    return problem.weights, problem.biases, problem.inputs


def random_mask(tree, chance, lists, seed=0):
    """`[lists, N]` bool, which classes each list has."""
    rng = np.random.default_rng(seed)
    return rng.random([lists, tree.num_classes]) < chance


def padded(mask):
    """The classes of each list `[B, M]`, shuffled, -1 at the end."""
    rng = np.random.default_rng(1)
    return tries.padded([rng.permutation(np.flatnonzero(row)) for row in mask])


def lists_of(mask):
    """As `allowed` takes them: one list for all, `[M]`, or `[B, M]`."""
    return padded(mask) if len(mask) > 1 else padded(mask)[0]


def masked(log_probs, mask, renormalize):
    """The definition, for log-probabilities `[..., N]`, in float64.

    What is not allowed has probability zero, and the rest may be divided by
    its sum.
    """
    values = np.where(mask, log_probs.astype(np.float64), -np.inf)
    if renormalize:
        sums = np.exp(values).sum(-1, keepdims=True)
        values -= np.log(np.where(mask.any(-1, keepdims=True), sums, 1))
    return values


def wanted(tree, arguments, mask, renormalize=False, **options):
    """`masked` of what the op gives."""
    values = tf_hsm.hierarchical_softmax_log_probs(*arguments, tree, **options)
    return masked(values.numpy(), mask, renormalize)


def check(found, values, mask, k, exact):
    """The order of a sort of what is allowed; to the bit if `exact`."""
    log_probs, classes = reference.ranked(values, k, mask)
    np.testing.assert_array_equal(found.classes, classes)
    tolerance = 0 if exact else 1e-4
    np.testing.assert_allclose(
        found.log_probs, log_probs, rtol=tolerance, atol=tolerance
    )
