"""Label trees that get more labels: probabilities, slots, refusals."""

import itertools

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support import label_tree_reference as reference
from tests.support.training import layer_step
from tests.support.trees import CATALOGUE, KINDS
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import LabelCounts, Tree
from tf_hsm.layers import LabelTree

WIDTH = 7
NEW = 5
HOW = ["near", "fitting", "branch"]


def built(tree, seed=0, **options):
    """A head with random weights and biases."""
    head = LabelTree(tree, **options)
    head.build([None, WIDTH])
    rng = np.random.default_rng(seed)
    for variable in head.row_variables():
        variable.assign(rng.normal(size=variable.shape))
    return head


def grown_tree(tree, how):
    rng = np.random.default_rng(0)
    if how == "near":
        return tree.grow(NEW, near=rng.integers(tree.num_classes, size=NEW))
    return tree.grow(NEW, branch=how == "branch")


def inputs(batch=6):
    return np.random.default_rng(1).normal(size=[batch, WIDTH]).astype("f4")


def arrays(head):
    """Weights and biases in float64."""
    kernel = head.kernel.numpy().astype(float)
    bias = np.zeros(len(kernel)) if head.bias is None else head.bias.numpy()
    return kernel, bias.astype(float)


def log_probs(head, x):
    """`[B, labels]` in float64."""
    return reference.label_log_probs(*arrays(head), x.astype(float), head.tree)


def probabilities(head, x):
    """`[B, rows]` in float64, of each row if its parent is positive."""
    return reference.probabilities(*arrays(head), x.astype(float))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", KINDS)
def test_old_labels_keep_their_probabilities(name, how):
    """All of them, whatever is beside their rows now."""
    head = built(CATALOGUE[name]())
    tree = grown_tree(head.tree, how)
    grown = head.grow(tree)
    rows = tree.map_rows(head.tree)
    for mine, its in zip(grown.get_weights(), head.get_weights(), strict=True):
        np.testing.assert_array_equal(mine[rows >= 0], its[rows[rows >= 0]])
    x, num_old = inputs(), head.num_classes
    expected = log_probs(head, x)
    np.testing.assert_allclose(
        log_probs(grown, x)[:, :num_old], expected, rtol=1e-12, atol=1e-12
    )
    found = grown.log_probs(x).numpy()
    np.testing.assert_allclose(found[:, :num_old], expected, 1e-4, 1e-4)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["random", "two_level_100", "flat"])
def test_new_rows_have_the_mean_log_odds_of_their_group(name, how, use_bias):
    """Beside kept rows, at every input; else each label is as probable."""
    head = built(CATALOGUE[name](), use_bias=use_bias)
    tree = grown_tree(head.tree, how)
    grown = head.grow(tree)
    rows = tree.map_rows(head.tree)
    p = probabilities(grown, inputs())
    log_odds = np.log(p) - np.log1p(-p)
    below = reference.classes_below(tree).sum(1)
    above = reference.parents(tree)
    beside_old = 0
    for row in np.flatnonzero(rows < 0):
        begin, end = tree.group_offsets[tree.row_groups[row] :][:2]
        kept = begin + np.flatnonzero(rows[begin:end] >= 0)
        if kept.size:
            wanted = log_odds[:, kept].mean(1)
            np.testing.assert_allclose(log_odds[:, row], wanted, 1e-4, 1e-5)
            beside_old += 1
            continue
        # Empirical log-odds, where each label occurs once and alone.
        wanted = below[row] + 0.5, below[above[row]] - below[row] + 0.5
        wanted = np.log(np.divide(*wanted)) if use_bias else 0
        np.testing.assert_allclose(log_odds[:, row], wanted, 1e-4, 1e-5)
    assert beside_old


def test_rows_of_a_rebalanced_tree():
    """Inner rows of labels that were apart: as if each label occurred once."""
    head = built(CATALOGUE["random"]())
    tree = head.tree.rebalance(np.arange(head.num_classes) ** 3 + 1)
    rows = tree.map_rows(head.tree, from_top=True)
    new = np.flatnonzero(rows < 0)
    beside = np.isin(tree.row_groups[new], tree.row_groups[rows >= 0])
    assert beside.any() and not np.isin(new, tree.class_rows).any()
    once = LabelCounts.of(tree, np.arange(tree.num_classes)[:, None])
    kernel, bias = head.grow(tree).get_weights()
    assert not kernel[new].any()
    np.testing.assert_allclose(bias[new], once.log_odds()[new], rtol=1e-6)


@pytest.mark.parametrize("how", [*HOW, "rebalance"])
def test_counts_are_the_log_odds_of_new_rows(how):
    """The same at every input, as frequent as the labels are."""
    head = built(CATALOGUE["random"]())
    if how == "rebalance":
        tree = head.tree.rebalance(np.arange(head.num_classes) ** 3 + 1)
    else:
        tree = grown_tree(head.tree, how)
    labels = np.random.default_rng(2).integers(-1, tree.num_classes, (200, 3))
    counts = LabelCounts.of(tree, labels)
    grown = head.grow(tree, counts)
    new = np.flatnonzero(tree.map_rows(head.tree, from_top=True) < 0)
    assert new.size
    kernel, bias = grown.get_weights()
    assert not kernel[new].any()
    np.testing.assert_allclose(bias[new], counts.log_odds()[new], rtol=1e-6)


def deeper_tree():
    """Two groups of labels, and one where label 1 and 4 share a node."""
    old = Tree.from_nested([[0, 1], [2, 3]])
    return old, Tree.from_nested([[0, [1, 4]], [2, 3]])


@pytest.mark.parametrize("use_bias", [True, False])
def test_leaf_that_became_an_inner_node(use_bias):
    """The inner row is the leaf's; the label below it is nearly certain."""
    old, tree = deeper_tree()
    head = built(old, use_bias=use_bias)
    grown = head.grow(tree)
    x = inputs()
    before, after = log_probs(head, x), log_probs(grown, x)
    np.testing.assert_allclose(
        after[:, [0, 2, 3]], before[:, [0, 2, 3]], rtol=1e-12
    )
    inner, leaf = tree.path(1)[1:]
    np.testing.assert_allclose(
        probabilities(grown, x)[:, inner],
        probabilities(head, x)[:, old.class_rows[1]],
        rtol=1e-12,
    )
    assert not grown.kernel.numpy()[leaf].any()
    certain = 1 / (1 + np.exp(-7.0)) if use_bias else 0.5
    np.testing.assert_allclose(after[:, 1], before[:, 1] + np.log(certain))
    if use_bias:
        assert np.allclose(np.exp(after[:, 1]), np.exp(before[:, 1]), 1e-3)
        # One of two labels that occur once is new: it is as probable as not.
        assert grown.bias.numpy()[tree.class_rows[4]] == 0


def test_leaf_of_an_inner_node_with_slots_and_counts():
    """Slots follow the weights, and counts do not move the old label."""
    old, tree = deeper_tree()
    head = built(old, optimizer="lazy_adam")
    layer_step(head, inputs(8), np.arange(8)[:, None] % 4)
    counts = LabelCounts.of(tree, [[4]] * 90 + [[1]] * 10)
    grown = head.grow(tree, counts)
    inner, leaf = tree.path(1)[1:]
    assert grown.bias.numpy()[leaf] == 7
    for slot, its in zip(
        grown.optimizer.slots(grown.kernel),
        head.optimizer.slots(head.kernel),
        strict=True,
    ):
        slot, its = slot.numpy(), its.numpy()
        assert its[old.class_rows[1]].any()
        np.testing.assert_array_equal(slot[inner], its[old.class_rows[1]])
        assert not slot[leaf].any()


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("how", ["near", "branch", "rebalance"])
def test_slots_of_its_own_optimizer(how, rule):
    head = built(CATALOGUE["random"](), optimizer=OPTIMIZERS[rule]())
    labels = np.arange(64)[:, None] % head.num_classes
    for _ in range(3):
        layer_step(head, inputs(64), labels)
    if how == "rebalance":
        tree = head.tree.rebalance(np.arange(head.num_classes) ** 3 + 1)
    else:
        tree = grown_tree(head.tree, how)
    grown = head.grow(tree)
    rows = tree.map_rows(head.tree, from_top=True)
    kept = rows >= 0
    fresh = OPTIMIZERS[rule]()
    fresh.build(grown.row_variables())
    for one, other in zip(
        head.row_variables(), grown.row_variables(), strict=True
    ):
        for slot, its, begun in zip(
            grown.optimizer.slots(other),
            head.optimizer.slots(one),
            fresh.slots(other),
            strict=True,
        ):
            wanted, its = begun.numpy(), its.numpy()
            assert (wanted[kept] != its[rows[kept]]).any()
            wanted[kept] = its[rows[kept]]
            np.testing.assert_array_equal(slot.numpy(), wanted)
    assert int(grown.optimizer.iterations) == 3
    layer_step(grown, inputs(64), np.arange(64)[:, None] % 30)
    assert int(grown.optimizer.iterations) == 4
    assert int(head.optimizer.iterations) == 3


def model_of(own):
    head = LabelTree(
        Tree.balanced(30, [3, 10]),
        ignore_class=99,
        name="labels",
        optimizer=OPTIMIZERS["lazy_adam"]() if own else None,
    )
    model = keras.Sequential(
        [keras.Input([WIDTH]), keras.layers.Dense(WIDTH), head]
    )
    model.compile(OPTIMIZERS["adagrad"](), head.loss)
    return model


def fit(model, labels):
    return model.fit(
        inputs(32), labels, batch_size=8, shuffle=False, verbose=0
    ).history["loss"][0]


@pytest.mark.parametrize("own", [True, False])
def test_model_goes_on(own, tmp_path):
    """Saved and loaded, the grown model trains as the old one does.

    No label of the examples is in the group that grows.
    """
    keras.utils.set_random_seed(0)
    model = model_of(own)
    labels = np.random.default_rng(3).integers(10, 30, size=(32, 2))
    fit(model, labels)
    tree = model.layers[-1].tree.grow(NEW, near=[0] * NEW)
    grown = tf_hsm.grow(model, tree)
    grown.save(tmp_path / "grown.keras")
    grown = keras.models.load_model(tmp_path / "grown.keras")
    head = grown.layers[-1]
    assert (head.name, head.ignore_class, head.tree) == ("labels", 99, tree)
    assert fit(grown, labels) == fit(model, labels)
    rows = tree.map_rows(model.layers[-1].tree)
    optimizers = [(grown.optimizer, model.optimizer)]
    if own:
        optimizers.append((head.optimizer, model.layers[-1].optimizer))
    pairs = [(grown, model), *optimizers]
    num_of_rows = 0
    for one, other in pairs:
        for mine, its in zip(one.variables, other.variables, strict=True):
            mine, its = mine.numpy(), its.numpy()
            if mine.shape != its.shape:
                mine, its = mine[rows >= 0], its[rows[rows >= 0]]
                num_of_rows += 1
            np.testing.assert_array_equal(mine, its)
    assert num_of_rows >= 4
    labels[::2, 0] = 30 + np.arange(16) % NEW
    losses = [fit(grown, labels) for _ in range(4)]
    assert losses[-1] < losses[0]


TREE = Tree.two_level(20)
GROWN = TREE.grow(2)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: built(TREE).grow(7), TypeError, "tree must be a tf_hsm.Tree"),
        (
            lambda: LabelTree(TREE, name="h").grow(GROWN),
            ValueError,
            "h has no weights yet",
        ),
        (
            lambda: built(TREE).grow(Tree.two_level(19)),
            ValueError,
            "the tree has 19 classes, fewer than the 20",
        ),
        (
            lambda: built(Tree.balanced(8, 2)).grow(Tree.balanced(8, 2).pin()),
            ValueError,
            "pinned",
        ),
        (
            lambda: built(TREE).grow(GROWN, np.ones(22)),
            TypeError,
            "counts must be a tf_hsm.LabelCounts, but is ndarray",
        ),
        (
            lambda: built(TREE).grow(GROWN, LabelCounts.of(TREE, [[1]])),
            ValueError,
            "counts belong to another tree",
        ),
        (
            lambda: built(TREE, use_bias=False).grow(
                GROWN, LabelCounts.of(GROWN, [[1]])
            ),
            ValueError,
            "counts set the biases, but use_bias is False",
        ),
    ],
    ids=itertools.count(),
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
