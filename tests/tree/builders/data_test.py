"""Trees from training data: what is read, what is found, bad input."""

import numpy as np
import pytest
import tensorflow as tf

from tf_hsm import Tree, class_vectors
from tf_hsm.tree.builders import data as builder

N, CLUSTERS = 600, 12


def clustered(size=16_000, seed=0):
    """Labels whose cluster follows from the id before, and the clusters."""
    rng = np.random.default_rng(seed)
    clusters = rng.permutation(N) % CLUSTERS
    members = [np.flatnonzero(clusters == k) for k in range(CLUSTERS)]
    contexts = rng.integers(200, size=size)
    follows = (contexts + (rng.random(size) < 0.1)) % CLUSTERS
    ranks = (50 * rng.random(size) ** 2).astype(int)
    pairs = zip(follows, ranks, strict=True)
    labels = np.array([members[k][rank] for k, rank in pairs])
    return labels, contexts, clusters


def tree_of(*data, num_classes=N, **options):
    return Tree.from_data(
        *data, num_classes=num_classes, verbose=False, **options
    )


LABELS, CONTEXTS, TRUTH = clustered()
EXPECTED = tree_of(LABELS, CONTEXTS)


def purity(tree):
    """The share of the labels whose leaf's group is mostly of their cluster."""
    counts = np.bincount(LABELS, minlength=N)
    groups = tree.row_groups[tree.class_rows]
    right = 0
    for group in np.unique(groups[groups > 0]):
        inside = groups == group
        right += np.bincount(TRUTH[inside], counts[inside]).max()
    return right / counts[groups > 0].sum()


def same(tree, other):
    return tree == other and np.array_equal(tree.counts, other.counts)


def test_clusters_are_found():
    tree = EXPECTED
    assert tree.num_classes == N and tree.depth == 2
    assert (tree.counts == np.bincount(LABELS, minlength=N)).all()
    # 49 clusters of classes for 12 true ones.
    assert purity(tree) > 0.95
    mixed = Tree.two_level(N)
    assert purity(mixed) < 0.3
    assert (
        tree.expected_loss(LABELS, CONTEXTS)
        < mixed.expected_loss(LABELS, CONTEXTS) - 0.2
    )


def test_leaves_of_the_root_are_the_most_frequent_classes():
    rng = np.random.default_rng(1)
    labels = (N * rng.random(40_000) ** 6).astype(int)
    labels = rng.permutation(N)[labels]
    contexts = rng.integers(5, size=40_000)  # They say nothing.
    tree = tree_of(labels, contexts)
    at_root = tree.row_groups[tree.class_rows] == 0
    assert 0 < np.count_nonzero(at_root) < N
    counts = np.bincount(labels, minlength=N)
    assert counts[at_root].min() >= counts[~at_root].max()


def test_long_training_has_more_leaves_at_the_root():
    """Each class has many examples; contexts tell little."""
    rng = np.random.default_rng(1)
    labels = rng.permutation(4000)[
        (4000 * rng.random(400_000) ** 4).astype(int)
    ]
    contexts = labels % 3 + rng.integers(20, size=labels.size)
    sizes = [
        tree_of(
            labels, contexts, num_classes=4000, long_training=long
        ).group_offsets[1]
        for long in (False, True)
    ]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("size", [1, 2, 3, 256, 257, 300, 1000, 70_000])
def test_every_class_has_a_leaf(size):
    rng = np.random.default_rng(2)
    labels = (size * rng.random(3000) ** 3).astype(int)
    tree = tree_of(labels, labels // 7, num_classes=size)
    assert tree.num_classes == size
    assert tree.counts.sum() == 3000
    assert np.diff(tree.group_offsets)[1:].max(initial=0) <= 256
    if size <= 256:
        assert tree.depth == 1
    assert tree.depth == (1 if size <= 256 else 2 if size < 60_000 else 3)


@pytest.mark.parametrize("size", [257, 1000, 65_536, 65_537, 2_000_000])
def test_clusters_hold_all_classes(size):
    below = builder._below(size)
    fanouts = np.diff(below.group_offsets)
    assert fanouts.max() <= 256
    if size > 256:
        assert fanouts[0] == min(256, round(2 * size**0.5))
    assert below.class_rows.size == size


def test_predicted_times():
    """As for a tree with random classes in its clusters."""
    counts = np.sort(np.bincount(LABELS, minlength=N))[::-1]
    shuffled = np.random.default_rng(0).permutation(N)
    for size in (0, 16, 128):
        rest = shuffled[shuffled >= size]
        arrays = builder._grafted(
            np.arange(size), rest, builder._below(N, rest.size)
        )
        cost = Tree(*arrays).expected_cost(counts, batch=1024, width=512)
        found = builder._milliseconds(counts, shuffled, size)
        assert found == pytest.approx(cost.milliseconds, rel=1e-9)


def test_a_level_costs(monkeypatch):
    """Where nothing else does, as many classes as may be are in the root."""
    monkeypatch.setattr(
        builder,
        "leave_one_out_losses",
        lambda *arguments: np.zeros(len(arguments[-1])),
    )
    monkeypatch.setattr(builder, "_milliseconds", lambda *arguments: 1)
    tree = tree_of(LABELS, CONTEXTS)
    assert np.sum(tree.row_groups[tree.class_rows] == 0) == 128


def test_without_contexts():
    tree = tree_of(LABELS, num_classes=None)
    assert same(tree, Tree.from_counts(np.bincount(LABELS)))


def test_names():
    names = [f"item {c}" for c in range(N)]
    tree = tree_of(LABELS, CONTEXTS, names=names, num_classes=None)
    assert tree.class_of("item 17") == 17


def batches(labels, contexts, size=3_000):
    for begin in range(0, len(labels), size):
        part = slice(begin, begin + size)
        yield contexts[part], labels[part]


def dataset(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(999)


WAYS = {
    "types": (LABELS.astype(np.int32), CONTEXTS.astype(np.uint16)),
    "lists": (LABELS.tolist(), CONTEXTS.tolist()),
    "columns": (LABELS[:, None], CONTEXTS[:, None]),
    "tensors": (tf.constant(LABELS), tf.constant(CONTEXTS)),
    "generator": (batches(LABELS, CONTEXTS),),
    "batches": (list(batches(LABELS[:, None], CONTEXTS)),),
    "dataset": (dataset(CONTEXTS, LABELS),),
    "weights": (dataset(CONTEXTS, LABELS, np.ones(LABELS.size)),),
    "none": (np.append(LABELS, [-1, -7]), np.append(CONTEXTS, [1, -1])),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_pass_data(way):
    assert same(tree_of(*WAYS[way]), EXPECTED)


def test_sequences():
    tokens = np.stack([LABELS[:1000], LABELS[1000:2000]])
    contexts, labels = tokens[:, :-1], tokens[:, 1:]
    tree = tree_of(labels, contexts)
    before = np.concatenate([np.full([2, 1], -1), contexts[:, :-1]], 1)
    windows = np.stack([contexts, before], -1)
    flat = tree_of(labels.reshape(-1), windows.reshape(-1, 2), ordered=True)
    assert same(tree, flat)


def test_bags():
    rng = np.random.default_rng(4)
    lengths = rng.integers(4, size=LABELS.size)
    ids = rng.integers(200, size=[LABELS.size, 3])
    ids[:, 0] = CONTEXTS
    ids[np.arange(3) >= lengths[:, None]] = -1
    ragged = tf.RaggedTensor.from_row_lengths(ids[ids >= 0], lengths)
    tree = tree_of(LABELS, ids)
    assert same(tree, tree_of(LABELS, ragged))
    shuffled = ids[:, [2, 0, 1]]
    assert same(tree, tree_of(LABELS, shuffled))
    in_order = tree_of(LABELS, ids, ordered=True)
    assert not same(tree, in_order)


def test_bags_of_several_lengths_in_batches():
    def elements():
        yield np.array([[1, 2, 3], [4, -1, -1]]), np.array([0, 1])
        yield np.array([[3], [2]]), np.array([300, 1])

    tree = tree_of(elements(), num_classes=301)
    assert tree.counts.sum() == 4


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        (([],), {}, "there are no labels"),
        (([-1, -2], [1, 2]), {}, "there are no labels"),
        (([0, 5], [1, 2]), {"num_classes": 5}, "a label is 5; it must be"),
        (([0.5], [1]), {}, "labels must be integers, but are float64"),
        (([0], [[0.5, 1.5]]), {}, "from_embeddings takes the mean vector"),
        (([0, 1], [1]), {}, "there are 2 labels and 1 contexts"),
        ((np.zeros([2, 3], int), np.zeros([2, 4], int)), {}, r"shape \[2, 4\]"),
        (([0, 1], [1, 2**40]), {}, "an id must be below"),
        (([0], [[2**62] * 4]), {}, "an id must be below 1073741824"),
        (([2**40, 1], [1, 2]), {}, "a label is 1099511627776; such a tr"),
        (((CONTEXTS, LABELS),), {}, r"from_data\(labels, contexts\)"),
        (([(LABELS, LABELS, np.ones(3))],), {}, "one weight for each label"),
        (([0, 1], [1, 2]), {"num_classes": 0}, "num_classes"),
        (([0, 1], [1, 2]), {"seed": -1}, "seed"),
        (([0, 1], [1, 2]), {"names": ["a"]}, "names"),
        (
            (tf.data.Dataset.from_tensors(([1], [1])).repeat(),),
            {},
            "the dataset is infinite",
        ),
        (
            (tf.data.Dataset.from_tensor_slices(([1], [1])),),
            {},
            "batch the dataset",
        ),
        ((tf.data.Dataset.range(3).batch(2),), {}, r"yield \(contexts, labels"),
        (
            (tf.data.Dataset.from_tensors(({"ids": [1]}, [1])),),
            {},
            "several inputs",
        ),
        (
            ([[0, 1], [2, -1]], np.zeros([2, 2, 2], int)),
            {"several_labels": True},
            r"contexts must be \[n, C\]",
        ),
        (([0, 1],), {"several_labels": True}, r"they must be \[n, M\]"),
        ((np.eye(5, dtype=int),), {"several_labels": True}, "label_lists"),
        ((np.array([1, 2**63 + 5], np.uint64),), {}, "below 2..63"),
        (([1, 2], np.array([1, 2**63], np.uint64)), {}, "contexts have the id"),
        (
            (((np.array(x), np.array([1])) for x in ([[1, 2]], [[1]])),),
            {},
            "pass ordered=False",
        ),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        Tree.from_data(*arguments, verbose=False, **options)


def test_other_functions_need_contexts():
    with pytest.raises(ValueError, match="there are no contexts"):
        Tree.two_level(N).expected_loss(LABELS)
    with pytest.raises(ValueError, match="there are no contexts"):
        class_vectors(LABELS)


def label_sets(size=8_000):
    """Sets of 1 to 4 labels of one cluster, `[n, 4]`, and an id of each."""
    rng = np.random.default_rng(5)
    clusters = rng.integers(CLUSTERS, size=size)
    members = np.argsort(TRUTH, kind="stable").reshape(CLUSTERS, -1)
    sets = rng.permuted(members[clusters], axis=1)[:, :4]
    sets[np.arange(4) >= rng.integers(1, 5, [size, 1])] = -1
    return sets, clusters


@pytest.mark.parametrize("has_contexts", [True, False])
def test_sets_of_labels(has_contexts):
    sets, clusters = label_sets()
    contexts = clusters if has_contexts else None
    options = {"several_labels": True, "verbose": False}
    tree = Tree.from_data(sets, contexts, **options)
    assert tree.counts.tolist() == np.bincount(sets[sets >= 0]).tolist()
    # The 49 clusters cannot be pure: 12 true ones have 50 classes each.
    assert purity(tree) > 0.85
    ragged = tf.RaggedTensor.from_tensor(sets, padding=-1)
    assert tree == Tree.from_data(ragged, contexts, **options)
    # The same pairs as labels of their own, where a context is one id.
    if has_contexts:
        known = sets >= 0
        ids = np.repeat(clusters[:, None], 4, 1)[known]
        assert tree == tree_of(sets[known], ids, num_classes=None)
    loss, of_mixed = (
        one.expected_loss(sets, contexts, several_labels=True)
        for one in (tree, Tree.two_level(N))
    )
    # An id of the cluster alone predicts as well in any tree.
    assert loss < of_mixed + (0.01 if has_contexts else -0.2)


def test_one_long_set_and_labels_that_are_repeated():
    """As pair by pair: a label is no context of itself."""
    rng = np.random.default_rng(0)
    sets = np.full([300, 400], -1)
    sets[:, :5] = rng.integers(N, size=[300, 5])
    sets[7] = rng.integers(N, size=400)
    tree = tree_of(sets, several_labels=True)
    labels, others = [], []
    for one in sets:
        for label in one[one >= 0]:
            known = one[(one >= 0) & (one != label)]
            labels += [label] * known.size
            others += known.tolist()
    want = class_vectors(np.array(labels), np.array(others), num_classes=N)
    found = class_vectors(sets, several_labels=True, num_classes=N)
    np.testing.assert_allclose(found, want, atol=1e-4)
    assert tree.counts.sum() == np.count_nonzero(sets >= 0)


def test_sets_of_labels_without_weight():
    sets, clusters = label_sets()
    weights = np.arange(len(sets)) % 2
    options = {"several_labels": True, "num_classes": N, "verbose": False}
    tree = Tree.from_data([(clusters, sets, weights)], **options)
    half = Tree.from_data(sets[1::2], clusters[1::2], **options)
    assert same(tree, half)


def test_class_vectors():
    vectors = class_vectors(LABELS, CONTEXTS, num_classes=N, width=16)
    assert vectors.shape == (N, 16) and vectors.flags.writeable
    dataset = batches(LABELS, CONTEXTS)
    again = class_vectors(dataset, num_classes=N, width=16)
    np.testing.assert_array_equal(vectors, again)
    # Most classes are most similar to a class of their cluster.
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, 1e-9)
    similar = unit @ unit.T - 2 * np.eye(N)
    assert np.mean(TRUTH[similar.argmax(1)] == TRUTH) > 0.9


def test_progress(monkeypatch, capsys):
    monkeypatch.setattr("tf_hsm.tree.builders.progress._SECONDS", -1)
    Tree.from_data(LABELS, CONTEXTS)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Tree.from_data: 16,000 of 16,000 labels read")
    tree_of(LABELS, CONTEXTS, num_classes=None)
    assert not capsys.readouterr().err


def test_weights_of_zero_and_sequences_of_one_position():
    def elements():
        yield (
            np.array([[5, 6, 0]]),
            np.array([[6, 7, 0]]),
            np.array([[1, 1, 0]]),
        )
        yield np.array([[5]]), np.array([[7]]), np.array([0.5])

    tree = tree_of(elements(), num_classes=300)
    assert np.flatnonzero(tree.counts).tolist() == [6, 7]
    assert tree.counts[7] == 2


def test_large_ids():
    labels = np.arange(600) % 300
    tree = tree_of(labels, labels + 2**32 - 600, num_classes=None)
    assert tree.num_classes == 300


def test_data_made_by_the_seed_of_the_tree(monkeypatch):
    """The sample of the examples does not depend on the labels."""
    found, best = [], builder._best_root_leaves

    def recorded(counts, points, sample, *options):
        found.append(sample[1])
        return best(counts, points, sample, *options)

    monkeypatch.setattr(builder, "_best_root_leaves", recorded)
    numbers = np.random.default_rng(0).random(1_000_000)
    labels = (N**numbers).astype(int) - 1
    tree = tree_of(labels, labels % CLUSTERS)
    assert (found[0] >= np.minimum(tree.counts, 180)).all()
