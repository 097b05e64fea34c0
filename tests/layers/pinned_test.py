"""Heads on pinned trees against heads on the expanded ones."""

import keras
import numpy as np
import pytest

from tests.support.pinned_heads import TREE, data, two_heads
from tests.support.training import assert_same
from tf_hsm import Tree
from tf_hsm.layers import AdaptiveSoftmax, HierarchicalSoftmax
from tf_hsm.layers.initial_values import of_pairs


@pytest.mark.parametrize(
    "initializer",
    [
        keras.initializers.GlorotUniform(seed=1),
        keras.initializers.HeNormal(seed=1),
        keras.initializers.GlorotNormal(seed=keras.random.SeedGenerator(1)),
        keras.initializers.VarianceScaling(0.7, "fan_out", seed=1),
        keras.initializers.RandomNormal(0.1, 0.3, seed=1),
        keras.initializers.TruncatedNormal(0.1, 0.3, seed=1),
        keras.initializers.RandomUniform(-0.2, 0.5, seed=1),
    ],
)
def test_weights_begin_as_differences_do(initializer):
    rows, width = 4_000, 50
    table = initializer([2 * rows, width]).numpy()
    differences = table[0::2] - table[1::2]
    pairs = of_pairs(initializer, rows, width)([rows, width]).numpy()
    assert pairs.std() == pytest.approx(differences.std(), rel=0.02)
    assert pairs.mean() == pytest.approx(table.mean(), abs=0.005)


def test_the_layer_begins_so():
    tree = Tree.balanced(900, 2).pin()
    wide = 60
    stddevs = []
    for each in (tree, tree.expand()):
        layers = (
            HierarchicalSoftmax(each),
            AdaptiveSoftmax(
                903, cutoffs=[3], div_value=1.0, tail=[each], use_bias=False
            ),
        )
        for layer in layers:
            layer.build([None, wide])
        tables = layers[0].kernel.numpy(), layers[1].tail_kernels[0].numpy()
        if not each.pinned:
            tables = [each.pin_rows(table) for table in tables]
        stddevs.append([table.std() for table in tables])
    np.testing.assert_allclose(*stddevs, rtol=0.02)
    # Values that somebody chose stay as they are.
    head = HierarchicalSoftmax(tree, kernel_initializer="ones")
    head.build([None, wide])
    assert (head.kernel.numpy() == 1).all()


def test_labels_at_nodes():
    head, other = two_heads(node_labels=True)
    rows = np.arange(TREE.num_rows)
    classes = head.top_k(data((rows.size,))[0], 3).classes
    np.testing.assert_array_equal(
        head.hits(classes, rows), other.hits(classes, rows)
    )


@pytest.mark.parametrize("use_bias", [True, False])
def test_growth_to_the_expanded_tree(use_bias):
    head, other = two_heads(use_bias=use_bias)
    for tree in (TREE.expand(), TREE.expand().grow(3, near=[0, 5, 9])):
        grown, wanted = (h.grow(tree) for h in (head, other))
        assert grown.tree == tree
        assert_same(grown.row_variables(), wanted.row_variables())
