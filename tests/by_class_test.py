"""Numbers of classes in a mapping, wherever the package takes some."""

import collections

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.series import Series
from tf_hsm import layers
from tf_hsm.tree import Tree

COUNTS = [2, 9, 1, 5]
NAMES = ["the", "cat", "and", "dog"]
TREE = Tree.balanced(4, [2, 2])
NAMED = TREE.with_class_names(NAMES)


def losses(make, *arguments, **options):
    keras.utils.set_random_seed(0)
    return make(*arguments, **options)(np.ones([4, 8], "f4"), np.arange(4))


def hierarchical(**options):
    return losses(layers.HierarchicalSoftmax, NAMED, **options)


def embedding(**options):
    keras.utils.set_random_seed(0)
    layer = layers.EmbeddingSoftmax(NAMED, num_embeddings=5, width=3, **options)
    return layer(np.arange(4), np.arange(4))


def adaptive(**options):
    return losses(layers.AdaptiveSoftmax, 4, cutoffs=[2], **options)


# What takes numbers of classes, and whether it takes names of classes.
USES = {
    "tree": (lambda n: Tree(*TREE._arrays, counts=n).counts, False),
    "with_counts": (lambda n: NAMED.with_counts(n).counts, True),
    "expected_cost": (lambda n: NAMED.expected_cost(n), True),
    "row_shares": (lambda n: NAMED.row_shares(n), True),
    "log_prior": (lambda n: NAMED.log_prior(n), True),
    "rebalance": (lambda n: NAMED.rebalance(n).class_rows, True),
    "prune": (lambda n: NAMED.prune(2, merge=False, counts=n).classes, True),
    "label_counts": (
        lambda n: tf_hsm.LabelCounts.expected(NAMED, n, examples=20).rows,
        True,
    ),
    "plan": (
        lambda n: tf_hsm.distribute.plan(NAMED, 2, counts=n).get_config(),
        True,
    ),
    "counts": (lambda n: hierarchical(counts=n), True),
    "class_weights": (lambda n: hierarchical(class_weights=n), True),
    "prior": (
        lambda n: hierarchical(label_smoothing=0.5, smoothing_prior=n),
        True,
    ),
    "embedding_counts": (lambda n: embedding(counts=n), True),
    "embedding_weights": (lambda n: embedding(class_weights=n), True),
    "adaptive_counts": (lambda n: adaptive(counts=n), False),
    "adaptive_weights": (lambda n: adaptive(class_weights=n), False),
    "sampled": (
        lambda n: losses(
            layers.SampledSoftmax, 4, num_sampled=4, counts=n, sampler="counts"
        ),
        False,
    ),
    "propensity": (
        lambda n: (
            tf_hsm.metrics.PropensityScoredPrecisionAtK(
                layers.HierarchicalSoftmax(TREE), n, 17
            ).counts
        ),
        False,
    ),
}


@pytest.mark.parametrize("use", USES)
def test_keys_are_classes_or_names(use):
    call, takes_names = USES[use]
    expected = call(np.array(COUNTS))
    order = [1, 3, 0, 2]  # as `value_counts` of pandas
    keys = [order] + [[NAMES[c] for c in order]] * takes_names
    for index in keys:
        values = [COUNTS[c] for c in order]
        for mapping in (
            Series(np.array(index), values),
            collections.Counter(dict(zip(index, values, strict=True))),
        ):
            np.testing.assert_array_equal(call(mapping), expected)
    if not takes_names:
        with pytest.raises(ValueError, match="has the key 'cat'; the keys"):
            call({"cat": 9, "dog": 5})


@pytest.mark.parametrize("use", USES)
def test_classes_without_a_key(use):
    """They have a count of zero, and a weight of one."""
    rest = 1 if "weights" in use else 0
    call, _ = USES[use]
    np.testing.assert_array_equal(call({3: 5, 1: 2}), call([rest, 2, rest, 5]))


@pytest.mark.parametrize("use", USES)
def test_refused(use):
    call, takes_names = USES[use]
    with pytest.raises(IndexError, match="class 4 is out of range"):
        call({0: 3, 4: 1})
    with pytest.raises(IndexError, match="class -1 is out of range"):
        call({-1: 3})
    with pytest.raises(ValueError, match=r"has the key 0\.5"):
        call({0.5: 1})
    with pytest.raises(ValueError, match="has class 1 twice"):
        call(Series([0, 1, 1], [1, 1, 1]))
    if takes_names:
        with pytest.raises(KeyError, match="no class is named 'cut'"):
            call({"cut": 1})
