"""Simulated steps: what devices do with labels, against paths one by one."""

import numpy as np
import pytest

from tests.support import trees
from tf_hsm.distribute import plan
from tf_hsm.tree import Tree


def by_paths(p, labels):
    """Examples, work and touched rows of each shard, and of the top (last)."""
    tree, count = p.tree, len(p.devices)
    fanouts = np.diff(tree.group_offsets)
    shard_of_row = np.full(tree.num_rows, count)
    for i, shard in enumerate(p.shards):
        shard_of_row[p.layout.rows_of(shard)] = i
    examples, work, touched = np.zeros([3, count + 1], np.int64)
    seen = set()
    for c in labels:
        path = tree.path(c)
        examples[shard_of_row[path[-1]]] += 1
        for group in tree.row_groups[path]:
            shard = shard_of_row[tree.group_offsets[group]]
            work[shard] += fanouts[group]
            if group not in seen:
                touched[shard] += fanouts[group]
            seen.add(group)
    return examples, work, touched


@pytest.mark.parametrize("name", trees.CATALOGUE)
@pytest.mark.parametrize("count", [1, 3, 8])
def test_against_paths(name, count):
    tree = trees.CATALOGUE[name]()
    p = plan(tree, count, top=8, width=5)
    rng = np.random.default_rng(0)
    batches = [
        rng.integers(tree.num_classes, size=size) for size in (1, 40, 0, 7)
    ]
    result = p.simulate(batches)
    assert result.batches.tolist() == [1, 40, 0, 7]
    assert result.work.shape == (4, count)
    for i, labels in enumerate(batches):
        examples, work, touched = by_paths(p, labels)
        np.testing.assert_array_equal(result.examples[i], examples[:-1])
        np.testing.assert_array_equal(result.work[i], work[:-1])
        np.testing.assert_array_equal(result.touched_rows[i], touched[:-1])
        assert result.top_work[i].tolist() == [work[-1]]
        np.testing.assert_array_equal(
            result.wire_bytes[i], examples[:-1] * (2 * 5 * 4 + 12)
        )
        model = p.step.cost_model
        for j in range(count):
            expected = 0.0
            if examples[j]:
                expected = model.call + model.weights(touched[j], width=5)
                expected += model.products(work[j], 1, width=5)
            assert result.milliseconds[i, j] == pytest.approx(expected)
        wire = result.wire_bytes[i].sum() / 2 / 1.25e9 * 1e3
        assert result.step_milliseconds[i] == pytest.approx(
            result.top_milliseconds[i, 0]
            + wire
            + result.milliseconds[i].max(initial=0)
        )


def test_deep_chain():
    tree = trees.chain(5000)
    p = plan(tree, 2)
    result = p.simulate([[tree.num_classes - 1, 0, 0]])
    assert result.work.sum() + result.top_work.sum() == 2 * (5000 + 1 + 1)


@pytest.mark.parametrize("kind", ["alike", "zipf"])
@pytest.mark.parametrize("count", [2, 8, 64])
def test_drawn_batches_are_as_the_plan_expects(kind, count):
    tree = Tree.two_level(10_000)
    counts = None
    if kind == "zipf":
        counts = 1 / (1 + np.random.default_rng(0).permutation(10_000))
    p = plan(tree, count, counts=counts, batch=2000, width=4)
    result = p.simulate(counts=counts, steps=200)
    means = result.work.mean(0) / 2000
    np.testing.assert_allclose(means, [s.work for s in p.cost.shards], rtol=0.1)
    np.testing.assert_allclose(
        result.touched_rows.mean(0),
        [s.touched_rows for s in p.cost.shards],
        rtol=0.1,
    )
    assert result.top_work.mean() == pytest.approx(2000 * p.cost.top.work)
    assert result.largest_work == pytest.approx(
        p.cost.largest_by_chance, rel=0.02
    )
    assert result.wire_bytes.sum(1).mean() == pytest.approx(p.cost.wire_bytes)


def test_classes_without_counts_are_not_drawn():
    tree = Tree.two_level(100)
    counts = np.zeros(100)
    counts[[3, 77]] = 1, 3
    p = plan(tree, 10)
    result = p.simulate(counts=counts, batch=4000, steps=3)
    busy = np.flatnonzero(result.examples.sum(0))
    shards = [
        int(np.searchsorted([s.first_place for s in p.shards], place, "right"))
        - 1
        for place in p.layout.class_places[[3, 77]]
    ]
    assert busy.tolist() == sorted(shards)
    assert result.examples[:, shards[1]].sum() == pytest.approx(9000, rel=0.05)


def test_the_worst_labels():
    """All in one shard: the others wait all the time."""
    tree = Tree.two_level(10_000)
    p = plan(tree, 8, width=300)
    c = int(p.layout.place_classes[p.shards[2].first_place])
    result = p.simulate(np.full([3, 50], c))
    assert result.largest_work == 8
    assert result.waiting == pytest.approx(7 / 8)
    assert (result.examples[:, 2] == 50).all()
    assert "(8.000 times as many)" in str(result)
    assert "waits 87.5% of the time" in str(result)
    # One device has nobody to wait for.
    assert p.on(1).simulate(np.full([3, 50], c)).waiting == 0


def test_nothing_below_the_top():
    p = plan(Tree.balanced(9, 9), 2, batch=4, width=3)
    result = p.simulate(steps=2)
    assert (result.work == 0).all()
    assert result.waiting == 0
    assert result.largest_work == 1
    assert "2 steps of 4 examples on 2 devices" in str(result)


def test_forms_of_labels():
    p = plan(Tree.two_level(100), 3)
    labels = np.random.default_rng(0).integers(100, size=[2, 3, 5])
    whole = p.simulate(labels)
    for form in (
        labels.astype(np.int32),
        labels.tolist(),
        iter(labels.reshape(2, 15)),
    ):
        np.testing.assert_array_equal(p.simulate(form).work, whole.work)
    assert whole.batches.tolist() == [15, 15]
    assert whole.milliseconds is whole.wire_bytes is None
    assert whole.step_milliseconds is None
    assert "wire" not in str(whole)
    with pytest.raises(AttributeError):
        whole.work = None


def test_bad_arguments():
    p = plan(Tree.two_level(100), 3)
    for arguments, message in (
        ({}, "batch is None"),
        ({"batch": 0}, "batch is 0"),
        ({"batch": 5, "steps": 0}, "steps is 0"),
        ({"batch": 5, "counts": [1]}, "counts has 1 entries"),
        ({"batch": 5, "counts": np.zeros(100)}, "all counts are zero"),
        ({"batches": []}, "batches is empty"),
        ({"batches": [[1]], "batch": 5}, "counts, batch or shard"),
        (
            {"batches": [[0], [5, 100]]},
            r"label 100 at position 1 of batches\[1\] is not in \[0, 100\)",
        ),
        ({"batches": [[-1]]}, "label -1 at position 0"),
        ({"batches": [[0.5]]}, r"batches\[0\] must hold integers"),
    ):
        with pytest.raises(ValueError, match=message):
            p.simulate(**arguments)
