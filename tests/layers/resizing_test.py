"""Heads of all kinds that get or lose classes: slots, models, refusals."""

import functools
import itertools

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support import adaptive_layers, heads_by_name
from tests.support import embedding_softmaxes as softmaxes
from tests.support.in_place_models import (
    arguments,
    make_model,
)
from tests.support.models import (
    NUM_CLASSES,
    WIDTH,
    head_of,
    make_data,
    sampled_head,
)
from tests.support.resized_heads import (
    NEW,
    SHALLOW,
    assert_same_rows,
    grown_tree,
    inputs,
    randomized,
)
from tests.support.resized_models import check_goes_on
from tests.support.training import layer_step
from tests.support.trees import CATALOGUE
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import LabelCounts, Tree
from tf_hsm.layers import (
    AdaptiveSoftmax,
    EmbeddingSoftmax,
    HierarchicalSoftmax,
    LabelTree,
)

KEEP = np.arange(12)
PINNED = Tree.huffman(10**4 // np.arange(1, 60)).pin()
MAKE = {
    "tree": lambda **options: HierarchicalSoftmax(
        CATALOGUE["random"](), **options
    ),
    "pinned": lambda **options: HierarchicalSoftmax(PINNED, **options),
    "label_tree": lambda **options: LabelTree(CATALOGUE["random"](), **options),
    "shallow_label_tree": lambda **options: LabelTree(SHALLOW, **options),
    "embedding": lambda **options: EmbeddingSoftmax(
        CATALOGUE["random"](), num_embeddings=64, width=WIDTH, **options
    ),
    **{
        name: lambda name=name, **options: adaptive_layers.make(name, **options)
        for name in ("flat_softmax", "narrow", "trees")
    },
}
CHANGES = [
    *itertools.product(
        ["tree", "label_tree"],
        ["near", "fitting", "branch", "rebalance", "merge", "drop"],
    ),
    ("shallow_label_tree", "deepen"),
    *itertools.product(["embedding"], ["near", "merge", "drop"]),
    *itertools.product(["pinned"], ["merge", "drop", "expand"]),
    *itertools.product(["flat_softmax", "narrow", "trees"], ["grow"]),
]


def resized(head, how):
    """The new head, and the old row of each row of each of its variables."""
    if how == "grow":
        new = head.grow(head.num_classes + NEW)
        trees = [
            [each.clusters.shortlist_tree, *each.clusters.tail_trees]
            for each in (head, new)
        ]
        # Weights and biases of each cluster.
        return new, [
            after.map_rows(before)
            for before, after in zip(*trees, strict=True)
            for _ in "wb"
        ]
    # All of a table of embeddings stays.
    table = [np.arange(64)] if isinstance(head, EmbeddingSoftmax) else []
    if how in ("merge", "drop"):
        pruned = head.prune(KEEP, merge=how == "merge")
        rows = pruned.rows[::2] // 2 if head.tree.pinned else pruned.rows
        return pruned.head, [rows, rows, *table]
    if how == "expand":
        tree = head.tree.expand()
        rows = np.arange(tree.num_rows)
        rows = np.where(rows % 2, -1, rows // 2)
        return head.grow(tree), [rows, rows]
    tree = grown_tree(head.tree, how)
    from_top = {"from_top": True} if isinstance(head, LabelTree) else {}
    rows = tree.map_rows(head.tree, **from_top)
    return head.grow(tree), [rows, rows, *table]


# Each change has two rules, and trees and label trees have all of them.
RULES = [*zip(2 * CHANGES, itertools.cycle(OPTIMIZERS), strict=False)]


@pytest.mark.parametrize("change, rule", RULES)
def test_slots_of_its_own_optimizer(change, rule):
    """They follow the rows, which stay; new rows have slots as they begin."""
    name, how = change
    head = MAKE[name](optimizer=OPTIMIZERS[rule]())
    if not head.built:
        randomized(head)
    width = head.row_variables()[0].shape[1]
    x = np.random.default_rng(1).normal(size=[64, width]).astype("f4")
    labels = np.arange(64) % head.num_classes
    if isinstance(head, LabelTree):
        labels = labels[:, None]
    if name == "embedding":
        x = np.random.default_rng(1).permutation(64)
    for _ in range(3):
        layer_step(head, x, labels)
    head.optimizer.learning_rate = 0.0625
    new, maps = resized(head, how)
    fresh = OPTIMIZERS[rule]()
    fresh.build(new.row_variables())
    for rows, one, other in zip(
        maps, head.row_variables(), new.row_variables(), strict=True
    ):
        np.testing.assert_array_equal(
            other.numpy()[rows >= 0], one.numpy()[rows[rows >= 0]]
        )
        for slot, its, begun in zip(
            new.optimizer.slots(other),
            head.optimizer.slots(one),
            fresh.slots(other),
            strict=True,
        ):
            wanted, its = begun.numpy(), its.numpy()
            assert (wanted[rows >= 0] != its[rows[rows >= 0]]).any()
            wanted[rows >= 0] = its[rows[rows >= 0]]
            np.testing.assert_array_equal(slot.numpy(), wanted)
    assert int(new.optimizer.iterations) == 3
    assert float(new.optimizer.learning_rate) == 0.0625
    layer_step(new, x, labels % new.num_classes)
    assert int(new.optimizer.iterations) == 4
    assert int(head.optimizer.iterations) == 3


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize("how", ["near", "merge", "drop"])
def test_other_types(how, dtype):
    """Kept rows stay to the bit, and with them merged probabilities."""
    head = randomized(HierarchicalSoftmax(Tree.two_level(100), dtype=dtype))
    new, (rows, _) = resized(head, how)
    assert new.kernel.dtype == dtype
    assert_same_rows(new, head, rows)
    x = inputs(dtype="float64" if dtype == "float64" else "float32")
    before, after = (h.log_probs(x).numpy() for h in (head, new))
    if how == "merge":
        np.testing.assert_array_equal(after[:, : KEEP.size], before[:, KEEP])
    np.testing.assert_allclose(np.exp(after).sum(1), 1, rtol=1e-2)


@pytest.mark.parametrize("how", ["near", "merge", "drop"])
def test_arguments_stay(how):
    head = MAKE["tree"](
        name="words",
        ignore_class=-1,
        seed=3,
        kernel_regularizer=keras.regularizers.L2(0.5),
        trainable=False,
        label_smoothing=0.1,
    )
    new, _ = resized(randomized(head), how)
    mine, its = new.get_config(), head.get_config()
    assert mine.pop("tree") != its.pop("tree")
    assert mine == its


def label_tree_model(form, own):
    """Label sets, of which the new group has none."""
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
    rng = np.random.default_rng(1)
    x = rng.normal(size=[22, WIDTH]).astype("f4")
    labels = rng.integers(10, 30, size=(22, 2))
    new = np.where([True, False], 30 + labels % NEW, labels)
    return model, [{"x": x, "y": y} for y in (labels, new)]


def adaptive_model(form, own):
    """No label in the tail that grows."""

    def make(**options):
        return AdaptiveSoftmax(
            NUM_CLASSES, cutoffs=[5, 14], div_value=1.5, **options
        )

    model = make_model(form, "lazy_adam", own, make=make)
    tokens, labels = make_data()
    new = np.where(tokens % 3 == 1, NUM_CLASSES + tokens % NEW, labels)
    return model, [arguments(form, tokens, y) for y in (labels % 14, new)]


def sampled_model(form, own):
    """Draws go on, so the losses are others."""
    model = make_model(form, own=own, make=sampled_head)
    tokens, labels = make_data()
    return model, [
        arguments(form, tokens, y)
        for y in (labels, (labels + NEW) % (NUM_CLASSES + NEW))
    ]


def embedding_model(form, own):
    """Bags of ids, whose table and its slots stay."""
    layer = softmaxes.make_layer(
        optimizer=OPTIMIZERS["lazy_adam"]() if own else None
    )
    model = softmaxes.make_model(layer, "ragged", form, OPTIMIZERS["adagrad"]())
    inputs = softmaxes.make_inputs("ragged")
    labels = softmaxes.make_labels() % 4 + NUM_CLASSES - 4
    return model, [arguments(form, inputs, y) for y in (labels, labels + NEW)]


@pytest.mark.parametrize(
    "make, form, own",
    [
        (label_tree_model, "compile", True),
        (label_tree_model, "compile", False),
        (adaptive_model, "compile", True),
        (adaptive_model, "endpoint", False),
        (sampled_model, "compile", False),
        (embedding_model, "compile", False),
        (embedding_model, "endpoint", True),
    ],
)
def test_a_model_goes_on(make, form, own, tmp_path):
    """Saved and loaded, the grown model trains as the old one does.

    No label of the examples is in a group that grows.
    """
    keras.utils.set_random_seed(0)
    model, (data, new_data) = make(form, own)
    model.run_eagerly = True
    head, rows, new = head_of(model), None, NUM_CLASSES + NEW
    if make not in (adaptive_model, sampled_model):
        new = head.tree.grow(NEW, near=[0] * NEW)
        rows = new.map_rows(head.tree)
    found = head_of(
        check_goes_on(
            model,
            lambda model: tf_hsm.grow(model, new),
            rows,
            data,
            None if make is sampled_model else data,
            new_data,
            tmp_path,
        )
    )
    assert found.num_classes == NUM_CLASSES + NEW
    assert (found.name, found.ignore_class) == (head.name, head.ignore_class)
    if make is sampled_model:
        assert int(found.step) == int(head.step) + 12


def of(name):
    """A function from options to a built head."""
    return functools.partial(heads_by_name.built, name)


def tied():
    table = keras.layers.Embedding(30, heads_by_name.WIDTH)
    return tree(tree=FLAT, tied_to=table)


tree, tails, labels, sampled, bags = map(
    of,
    (
        "HierarchicalSoftmax",
        "AdaptiveSoftmax",
        "LabelTree",
        "SampledSoftmax",
        "EmbeddingSoftmax",
    ),
)
TREE, COUNTS = heads_by_name.TREE, heads_by_name.COUNTS
GROWN, FLAT, EIGHT = TREE.grow(2), Tree.flat(30), Tree.balanced(8, 2)
NAMED, OTHERS = (
    TREE.with_class_names([str(c) for c in order])
    for order in (range(30), range(30)[::-1])
)
NESTED = Tree.from_nested([0, 1, [2, 3], [4, [5, 6, 7]]])
DEVICES = {"devices": ["CPU:0"] * 2}
X = np.ones([3, heads_by_name.WIDTH])
WRONG_COUNTS = [
    (COUNTS, "counts has 30 entries; the tree has 32 classes"),
    (-np.ones(32), "count of class 0 is -1"),
]
# The call, and words of the error.
REFUSALS = [
    *(
        (lambda make=make, wrong=wrong: make().grow(wrong), words)
        for make in (tree, bags, labels)
        for wrong, words in (
            (7, "tree must be a tf_hsm.Tree"),
            (Tree.two_level(29), "has 29 classes, fewer than the 30"),
        )
    ),
    *(
        (lambda make=make, wrong=wrong: make().grow(wrong), words)
        for make in (tails, sampled)
        for wrong, words in (
            (29, "num_classes is 29, fewer than the 30|class"),
            (GROWN, "num_classes must be an integer"),
        )
    ),
    *(
        (lambda make=make, c=counts: make().grow(32, c), words)
        for make in (tails, sampled)
        for counts, words in WRONG_COUNTS
    ),
    *((lambda c=c: tree().grow(GROWN, c), words) for c, words in WRONG_COUNTS),
    (lambda: sampled(sampler="counts", counts=COUNTS).grow(9), "class"),
    *(
        (lambda make=make: make(tree=EIGHT).grow(EIGHT.pin()), "pinned")
        for make in (tree, labels)
    ),
    (lambda: tree(tree=EIGHT.pin()).grow(EIGHT.pin()), r"pinned.*expand\(\)"),
    (lambda: tree(tree=NAMED).grow(OTHERS), "class 0 is named '29', but was"),
    (lambda: tree(tree=NAMED).regroup(OTHERS), "class 0 is named '29'"),
    (lambda: tree(**DEVICES).grow(GROWN), "several devices; copy it"),
    (lambda: tree(**DEVICES).prune(2), "several devices; copy .* prune that"),
    (lambda: tied().grow(Tree.flat(31)), "grow is not possible with tied_to"),
    (lambda: tied().prune([1], merge=False), "prune is not possible with tied"),
    (lambda: tied().regroup(FLAT), "regroup is not possible"),
    *(
        (lambda c=counts, o=options: labels(**o).grow(GROWN, c), words)
        for counts, options, words in (
            (np.ones(32), {}, "counts must be a tf_hsm.LabelCounts, but is nd"),
            (LabelCounts.of(TREE, [[1]]), {}, "counts belong to another tree"),
            (
                LabelCounts.of(GROWN, [[1]]),
                {"use_bias": False},
                "counts set the biases, but use_bias is False",
            ),
        )
    ),
    (lambda: tree().prune(31), "keep is 31; the tree has 30 classes"),
    (lambda: tree().prune(3), "the tree has no counts"),
    (lambda: sampled().prune(5, merge=False), "the tree has no counts"),
    (lambda: tree(tree=FLAT).prune([1, 2]), "can merge; pass merge=False"),
    (lambda: sampled().prune([1, 2]), "can merge; pass merge=False"),
    (
        lambda: tree(tree=NESTED, ignore_class=6).prune([0, 3]),
        "ignore_class 6 would merge with other classes",
    ),
    (lambda: tree().regroup(X), "must be a tf_hsm.Tree"),
    (lambda: tree().regroup(Tree.two_level(10)), "head.tree.regroup"),
    (lambda: tree(tree=EIGHT).regroup(EIGHT.pin()), "same shape only"),
    (lambda: tree().regroup(TREE, X * np.inf), "takes finite inputs"),
    (lambda: tree().regroup(TREE, X[:0]), "at least one; their shape"),
    *(
        (lambda make=make: make().regroup(TREE), "regroup is not possible for")
        for make in (labels, tails, sampled)
    ),
]


@pytest.mark.parametrize("call, words", REFUSALS)
def test_refusals(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_a_head_without_weights(name):
    head = heads_by_name.make(name)
    total = 32 if name in ("AdaptiveSoftmax", "SampledSoftmax") else GROWN
    calls = [functools.partial(head.grow, total)]
    if name != "AdaptiveSoftmax":
        calls.append(functools.partial(head.prune, [0, 1], merge=False))
    if name in ("HierarchicalSoftmax", "EmbeddingSoftmax"):
        calls.append(functools.partial(head.regroup, TREE))
    for call in calls:
        with pytest.raises(ValueError, match="has no weights yet"):
            call()
