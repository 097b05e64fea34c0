"""Label trees that lose labels: every kept probability stays."""

import itertools

import numpy as np
import pytest

from tests.support import label_tree_reference as reference
from tests.support.training import layer_step
from tests.support.trees import CATALOGUE, KINDS
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import Tree
from tf_hsm.layers import LabelTree

WIDTH = 7


def built(tree, **options):
    """A head with random weights and biases."""
    head = LabelTree(tree, **options)
    head.build([None, WIDTH])
    rng = np.random.default_rng(0)
    for variable in head.row_variables():
        variable.assign(rng.normal(size=variable.shape))
    return head


def inputs(batch=6):
    return np.random.default_rng(1).normal(size=[batch, WIDTH]).astype("f4")


def kept(tree, how):
    """Labels: a third of them from the first on, or some here and there."""
    if how == "first":
        return np.arange(max(1, tree.num_classes // 3))
    order = np.random.default_rng(0).permutation(tree.num_classes)
    return np.sort(order[: 1 + tree.num_classes // 8])


@pytest.mark.parametrize("how", ["first", "some"])
@pytest.mark.parametrize("name", KINDS)
def test_dropped_labels(name, how):
    """The others keep their bits; groups of one row stay."""
    head = built(CATALOGUE[name]())
    keep = kept(head.tree, how)
    pruned = head.prune(keep, merge=False)
    found, x = pruned.head, inputs()
    assert found.num_classes == keep.size
    np.testing.assert_array_equal(
        found.log_probs(x), head.log_probs(x).numpy()[:, keep]
    )
    for new, old in enumerate(keep):
        np.testing.assert_array_equal(
            pruned.rows[found.tree.path(new)], head.tree.path(old)
        )
    paths = np.concatenate([head.tree.path(c) for c in keep])
    assert found.tree.num_rows == np.unique(paths).size


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("name", ["two_level_100", "huffman_4ary", "chain_50"])
def test_merged_labels(name, use_bias):
    """A merged label is as probable as one label at least below its node."""
    head = built(CATALOGUE[name](), use_bias=use_bias)
    keep = kept(head.tree, "some")
    pruned = head.prune(keep)
    found, x = pruned.head, inputs()
    log_probs = found.log_probs(x).numpy()
    np.testing.assert_array_equal(
        log_probs[:, : keep.size], head.log_probs(x).numpy()[:, keep]
    )
    kernel = head.kernel.numpy().astype(float)
    bias = (
        head.bias.numpy().astype(float) if use_bias else np.zeros(len(kernel))
    )
    p = reference.probabilities(kernel, bias, x.astype(float))
    above = head.tree.group_parents[head.tree.row_groups]
    for row in range(head.tree.num_rows):
        if above[row] >= 0:
            p[:, row] *= p[:, above[row]]
    merged = pruned.rows[found.tree.class_rows]
    np.testing.assert_allclose(np.exp(log_probs), p[:, merged], rtol=1e-4)
    # Label sets may have several labels that merged into one.
    sets = np.arange(12).reshape(6, 2) % head.num_classes
    assert np.isfinite(found(x, pruned.classes[sets])).all()


@pytest.mark.parametrize(
    "rule, merge", list(itertools.product(OPTIMIZERS, [True, False]))[::2]
)
def test_slots(rule, merge):
    head = built(Tree.two_level(60), optimizer=OPTIMIZERS[rule]())
    x, labels = inputs(), np.arange(24).reshape(6, 4)
    layer_step(head, x, labels)
    keep = np.arange(0, 16)
    pruned = head.prune(keep, merge=merge)
    for one, other in zip(
        head.row_variables(), pruned.head.row_variables(), strict=True
    ):
        for slot, its in zip(
            pruned.head.optimizer.slots(other),
            head.optimizer.slots(one),
            strict=True,
        ):
            np.testing.assert_array_equal(slot, its.numpy()[pruned.rows])
    layer_step(pruned.head, x, pruned.classes[labels])
    assert int(pruned.head.optimizer.iterations) == 2


def test_dropped_labels_are_none():
    """Label -1 stands for none already."""
    head = built(Tree.two_level(30), ignore_class=7)
    pruned = head.prune([3, 4, 7], merge=False)
    assert pruned.head.ignore_class == 2
    sets = np.array([[3, 9], [9, 10], [4, 3]])
    renamed = pruned.classes[sets]
    assert renamed.tolist() == [[0, -1], [-1, -1], [1, 0]]
    assert np.isfinite(pruned.head(inputs(3), renamed)).all()
