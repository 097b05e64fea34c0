"""AdaptiveSoftmax layers that get more classes, and models with them."""

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.adaptive_layers import (
    LAYERS,
    dense_log_probs,
    make,
    make_inputs,
    ranks_of,
)
from tests.support.training import assert_near, assert_same
from tf_hsm import Tree
from tf_hsm.layers import AdaptiveSoftmax

NEW = 6
# A pinned tree cannot grow.
NAMES = [name for name in LAYERS if name != "pinned"]
# The last tail has several groups.
DEEP = ["two_level", "trees", "branching", "several_trees"]


def by_rank(layer, log_probs):
    """Columns in the order of the ranks."""
    return log_probs[:, np.argsort(ranks_of(layer))]


@pytest.mark.parametrize("name", NAMES)
def test_old_classes(name):
    """Only classes of the last cluster give new classes their share."""
    layer = make(name)
    grown = layer.grow(layer.num_classes + NEW)
    assert grown.num_classes == layer.num_classes + NEW
    assert grown.cutoffs == layer.cutoffs
    # The last cluster begins at this rank, and grows.
    x, begin = make_inputs(7), [0, *layer.cutoffs][-1]
    np.testing.assert_array_equal(
        by_rank(grown, grown.log_probs(x).numpy())[:, :begin],
        by_rank(layer, layer.log_probs(x).numpy())[:, :begin],
    )
    before, after = (
        by_rank(head, dense_log_probs(head, x)) for head in (layer, grown)
    )
    assert_near(by_rank(grown, grown.log_probs(x).numpy()), after, 1e-5)
    np.testing.assert_allclose(np.exp(after).sum(1), 1, 1e-6)
    lost = (before - after[:, :-NEW])[:, begin:]
    assert (lost > -1e-6).all() and lost.max() > 1e-3
    if name in DEEP:
        *others, last = layer.clusters.tail_trees
        assert grown.clusters.tail_trees == (*others, last.grow(NEW))
    else:
        # All alike, by no more than the share of the new ones.
        np.testing.assert_allclose(lost, lost[:, :1] + 0 * lost, 0, 1e-5)
        share = np.log1p(NEW / (layer.num_classes - begin))
        assert (lost < share + 1e-6).all()


def test_counts():
    """Shares of new classes at zeros, whose order the counts do not change."""
    layer = make("permuted")
    counts = np.arange(46) ** 2 % 23 + 1
    counts[40:] = [3, 100, 1, 7, 40, 9]
    grown = layer.grow(46, counts)
    np.testing.assert_array_equal(
        grown.clusters.order.class_rows, ranks_of(grown)
    )
    p = np.exp(dense_log_probs(grown, np.zeros([1, 12], "f4")))[0]
    old = ranks_of(layer) >= layer.cutoffs[-1]
    expected = counts[40:] / counts[:40][old].sum()
    np.testing.assert_allclose(p[40:] / p[:40][old].sum(), expected, 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_twice_and_by_none(name):
    """Each step goes on from the one before; the config holds all of it."""
    layer = make(name)
    same = layer.grow(layer.num_classes)
    assert same.get_config() == layer.get_config()
    assert_same(same.get_weights(), layer.get_weights())
    grown = layer.grow(layer.num_classes + 2).grow(layer.num_classes + NEW)
    assert grown.num_classes == layer.num_classes + NEW
    copy = AdaptiveSoftmax.from_config(grown.get_config())
    copy.build([None, 12])
    copy.set_weights(grown.get_weights())
    x = make_inputs(5)
    np.testing.assert_array_equal(copy.log_probs(x), grown.log_probs(x))
    is_flat = [t.num_groups == 1 for t in layer.clusters.tail_trees]
    now = [t.num_groups == 1 for t in grown.clusters.tail_trees]
    assert now == is_flat


def test_only_the_last_tail_may_not_be_pinned():
    trees = [Tree.huffman(range(26)).pin(), Tree.huffman(range(9))]
    options = {"cutoffs": [5, 31], "width": None, "div_value": 2}
    layer = make("trees", tail=trees, **options)
    grown = layer.grow(43)
    x = make_inputs(5)
    np.testing.assert_array_equal(
        grown.log_probs(x)[:, :31], layer.log_probs(x)[:, :31]
    )
    layer = make("trees", tail=[3, trees[1].pin()], **options)
    with pytest.raises(ValueError, match="tree of tail 1 is pinned, and its"):
        layer.grow(43)


def test_model_that_embeds():
    """The rows of new classes are their vectors too."""
    head = AdaptiveSoftmax(20, cutoffs=[4, 9], div_value=2, width=8)
    tokens = keras.Input([None], dtype="int32")
    body = keras.layers.Dense(8, activation="tanh")
    model = keras.Model(tokens, head(body(head(tokens, embed=True))))
    optimizer = tf_hsm.optimizers.LazyAdam(0.01)
    model.compile(optimizer, loss=head.loss, run_eagerly=True)
    x = np.random.default_rng(0).integers(20, size=[16, 3])
    model.fit(x, x, verbose=0)
    grown = tf_hsm.grow(model, 23, counts=np.arange(23))
    larger = grown.layers[1]
    classes = np.arange(20)
    np.testing.assert_array_equal(larger.embed(classes), head.embed(classes))
    vectors = larger.embed([20, 21, 22]).numpy()
    means = larger.tail_kernels[-1].numpy()[-3:]
    assert_near(vectors, means @ larger.projections[-1].numpy().T, 1e-5)
    assert np.abs(vectors).min() > 0
    grown.fit(x + 3, x + 3, verbose=0)
