"""Trees from vectors: shape, what is near, and hard inputs."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.support.clusterings import normal, spectrum, within
from tf_hsm.tree import Tree, clustering
from tf_hsm.tree.builders import embeddings, progress

EUCLIDEAN = {"metric": "euclidean"}


def groups_of(tree):
    """The sets of classes that share a leaf's parent."""
    groups = {}
    for c, row in enumerate(tree.class_rows):
        groups.setdefault(int(tree.row_groups[row]), []).append(c)
    return {frozenset(group) for group in groups.values()}


def below(tree, level):
    """The row on each class's path at `level`, [N]."""
    return np.array([tree.path(c)[level] for c in range(tree.num_classes)])


def same_shape(num_classes, branching):
    if branching is None:
        return Tree.two_level(num_classes)
    return Tree.balanced(num_classes, branching)


@pytest.mark.parametrize("num_classes", [1, 2, 3, 4, 5, 7, 16, 37, 101, 500])
def test_shape_is_that_of_balanced(num_classes):
    vectors = normal(num_classes, 5)
    for branching in (
        *(None, 2, 3, 4, 7, 1000, [num_classes]),
        *([2, 1, num_classes], (3, 9, 100), np.array([50, 50])),
    ):
        tree = Tree.from_embeddings(vectors, branching=branching)
        shape = same_shape(num_classes, branching)
        for name in ("group_offsets", "group_parents"):
            np.testing.assert_array_equal(
                getattr(tree, name), getattr(shape, name)
            )
        # The leaves of a group stand in class order.
        order = np.argsort(tree.class_rows)
        groups = tree.row_groups[tree.class_rows[order]]
        assert (np.diff(order)[np.diff(groups) == 0] > 0).all()
    sizes = [len(group) for group in groups_of(Tree.from_embeddings(vectors))]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("metric", embeddings.METRICS)
def test_planted_clusters_are_found(metric):
    rng = np.random.default_rng(0)
    planted = rng.permutation(np.repeat(np.arange(32), 32))
    vectors = normal(32, 16)[planted] + 0.1 * normal(1024, 16, seed=1)
    tree = Tree.from_embeddings(vectors, metric=metric)
    assert groups_of(tree) == {
        frozenset(np.flatnonzero(planted == k).tolist()) for k in range(32)
    }


@pytest.mark.parametrize("branching", [2, 4, [4, 2, 8]])
def test_a_planted_hierarchy_is_found(branching):
    rng = np.random.default_rng(1)
    leaf = rng.permutation(64)
    # Four corners far apart, in each of them two, in each of these eight.
    vectors = np.concatenate(
        [
            100 * np.eye(4)[leaf // 16],
            10 * np.eye(2)[leaf // 8 % 2],
            rng.random((64, 3)),
        ],
        axis=1,
    )
    tree = Tree.from_embeddings(vectors, branching=branching, **EUCLIDEAN)
    level = 1 if branching == 2 else 0
    for part in (leaf // 16, leaf // 8)[: 2 if branching != 4 else 1]:
        rows = below(tree, level)
        assert len(set(zip(rows, part, strict=True))) == len(set(part))
        level += 1


def test_the_metrics_differ_as_they_say():
    # Six rays; the length of a vector says nothing to the cosine.
    angle = np.repeat(np.arange(6), 6)
    length = np.tile(10.0 ** np.arange(6), 6)
    rays = np.stack([np.cos(angle), np.sin(angle)], axis=1) * length[:, None]
    by_ray = {frozenset(range(6 * k, 6 * k + 6)) for k in range(6)}
    assert groups_of(Tree.from_embeddings(rays)) == by_ray
    euclidean = groups_of(Tree.from_embeddings(rays, **EUCLIDEAN))
    assert not euclidean & by_ray
    vectors = normal(500, 4) * np.arange(1, 501)[:, None]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = Tree.from_embeddings(vectors, branching=7)
    assert cosine == Tree.from_embeddings(unit, branching=7, **EUCLIDEAN)
    assert cosine != Tree.from_embeddings(vectors, branching=7, **EUCLIDEAN)


def test_vectors_far_from_zero():
    planted = np.random.default_rng(0).permutation(900) % 30
    vectors = normal(30, 4)[planted] + 0.01 * normal(900, 4, seed=1)
    for offset in (0, 1e9, -1e9):
        tree = Tree.from_embeddings(vectors + offset, **EUCLIDEAN)
        assert groups_of(tree) == {
            frozenset(np.flatnonzero(planted == k).tolist()) for k in range(30)
        }


def test_one_dimension_is_cut_into_intervals():
    values = normal(203, 1)
    for branching in (None, 2, 5):
        tree = Tree.from_embeddings(values, branching=branching, **EUCLIDEAN)
        ranks = np.argsort(np.argsort(values[:, 0]))
        for level in range(min(len(tree.path(c)) for c in range(203))):
            rows = below(tree, level)
            for row in np.unique(rows):
                inside = np.sort(ranks[rows == row])
                assert inside[-1] - inside[0] == inside.size - 1


@pytest.mark.parametrize("branching", [None, 2, 3, 10, [5, 100]])
def test_equal_vectors_stay_in_class_order(branching):
    for vectors in (
        np.zeros((203, 3)),
        np.ones((203, 1)),
        np.full((203, 2), 7),
    ):
        for metric in embeddings.METRICS:
            tree = Tree.from_embeddings(
                vectors, branching=branching, metric=metric
            )
            assert tree == same_shape(203, branching)


def test_zero_is_similar_to_nothing():
    """It is no error; the vectors of zeros share a group."""
    vectors = 1 + 0.1 * normal(400, 4)
    vectors[::2] = 0
    tree = Tree.from_embeddings(vectors, branching=[2, 200])
    assert frozenset(range(0, 400, 2)) in groups_of(tree)


def test_what_holds_the_numbers_does_not_matter():
    vectors = np.random.default_rng(0).integers(-9, 9, (150, 4))
    vectors = vectors[np.argsort(vectors[:, 0])]
    expected = {
        m: Tree.from_embeddings(vectors, metric=m) for m in embeddings.METRICS
    }
    assert expected["cosine"] != expected["euclidean"]
    read_only = vectors.astype(np.float32)
    read_only.flags.writeable = False
    for same in (
        *(vectors.tolist(), read_only, np.asfortranarray(read_only)),
        *(vectors.astype(np.float16), vectors.astype(ml_dtypes.bfloat16)),
        *(vectors * 2.0**1000, vectors * 2.0**-1000, vectors.astype(np.int8)),
        np.repeat(read_only, 2, axis=1)[:, ::2],
    ):
        for metric, tree in expected.items():
            assert Tree.from_embeddings(same, metric=metric) == tree


def test_the_seed_decides():
    vectors = spectrum(1500, 8)
    trees = [
        Tree.from_embeddings(vectors, branching=6, seed=s) for s in (0, 0, 1)
    ]
    assert trees[0] == trees[1] != trees[2]
    assert trees[0] != Tree.from_embeddings(
        vectors, branching=6, max_iterations=1
    )


def test_in_a_graph():
    """Also where nothing runs at once; and any seed is one."""
    vectors = spectrum(300, 8)
    expected = Tree.from_embeddings(vectors, branching=6)

    @tf.function
    def traced():
        assert Tree.from_embeddings(vectors, branching=6) == expected

    traced()
    with tf.Graph().as_default(), tf.device("GPU:0"):
        assert Tree.from_embeddings(vectors, branching=6) == expected
        data = np.arange(3000) % 500
        Tree.from_data(data, data // 7, verbose=False)
    Tree.from_embeddings(vectors, seed=2**70, max_iterations=2**70)


def test_threads_do_not_matter(tmp_path):
    """Here there are as many as cores or as told, in another process not."""
    vectors = normal(4000, 48).astype(np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    threads = "5" if len(os.sched_getaffinity(0)) == 1 else "1"
    flags = ["--branching=60,70", "--output=tree.npz"]
    build = ["-m", "tf_hsm", "tree", "build", "embeddings:vectors.npy", *flags]
    subprocess.run(
        [sys.executable, *build],
        env={
            **os.environ,
            "TF_NUM_INTRAOP_THREADS": threads,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        cwd=tmp_path,
        check=True,
    )
    here = Tree.from_embeddings(vectors, branching=[60, 70])
    assert Tree.load(tmp_path / "tree.npz") == here


def test_parts_of_a_large_problem(monkeypatch):
    """Runs of siblings, blocks of families and chunks, at a small size."""
    monkeypatch.setattr(embeddings, "_CHUNK", 1000)
    vectors = spectrum(2000, 8)
    monkeypatch.setattr(clustering, "_MAX_CLUSTERS", 7)
    monkeypatch.setattr(clustering, "_MAX_PAIRS", 100)
    for branching in ([100, 20], 10):
        tree = Tree.from_embeddings(vectors, branching=branching, **EUCLIDEAN)
        shape = Tree.balanced(2000, branching)
        np.testing.assert_array_equal(tree.group_offsets, shape.group_offsets)
        labels = below(tree, 0)
        random = np.random.default_rng(0).permutation(labels)
        assert within(vectors, labels) < 0.8 * within(vectors, random)


def test_progress_is_for_long_work(monkeypatch, capfd):
    vectors = normal(300, 3)
    Tree.from_embeddings(vectors, branching=6)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(progress, "_SECONDS", 0)
    Tree.from_embeddings(vectors, branching=6, verbose=False)
    assert capfd.readouterr() == ("", "")
    Tree.from_embeddings(vectors, branching=6)
    out, err = capfd.readouterr()
    assert not out
    lines = err.splitlines()
    assert lines[0] == (
        "Tree.from_embeddings: level 1 of 4, parts of 300 classes (0 s)"
    )
    assert any("level 1 of 4, round 1: " in line for line in lines)
    groups = "level 2 of 4, 6 groups of 6, round 50: "
    assert any(groups in line for line in lines)


def hole(value):
    vectors = normal(5000, 300)
    vectors[4321, 7] = value
    vectors[4322:, 5] = np.nan
    return vectors


ONE = [[1.0]]


@pytest.mark.parametrize(
    ("vectors", "options", "message"),
    [
        (hole(np.nan), {}, "class 4321 has nan at position 7"),
        (hole(-np.inf), EUCLIDEAN, "class 4321 has -inf at position 7"),
        ([1.0, 2.0], {}, r"shape is \[2\]"),
        (np.zeros((2, 2, 2)), {}, "rank 2"),
        ([[1], [2, 3]], {}, r"array \[N, D\]"),
        (np.zeros((0, 4)), {}, r"shape \[0, 4\]"),
        (np.zeros((4, 0)), {}, r"shape \[4, 0\]"),
        ([["a"]], {}, "numbers, not <U1"),
        ([[1j]], {}, "numbers, not complex128"),
        ([[None]], {}, "numbers, not object"),
        (ONE, {"branching": 1}, "branching is 1"),
        (ONE, {"branching": 2.5}, "must be an integer"),
        (np.zeros((5, 1)), {"branching": [2, 2]}, "4 leaves; there are 5"),
        (ONE, {"seed": -1}, "seed is -1"),
        (ONE, {"seed": "a"}, "seed must be"),
        (ONE, {"metric": "dot"}, "metric is 'dot'; it must be one of"),
        (ONE, {"max_iterations": 0}, "max_iterations is 0; it must be at le"),
    ],
)
def test_bad_arguments(vectors, options, message):
    with pytest.raises(ValueError, match=message):
        Tree.from_embeddings(vectors, **options)
