"""The texts of plans: the shards, what is not even, and what binds."""

import re

import numpy as np
import pytest

from tests.support import trees
from tf_hsm._units import digits
from tf_hsm.distribute import plan
from tf_hsm.tree import Tree


def remarks(tree, devices, counts=None):
    return " ".join(plan(tree, devices, counts=counts).cost.remarks)


def test_remarks():
    assert remarks(Tree.two_level(1000), 4) == ""
    assert "Nothing lies below the top" in remarks(Tree.balanced(9, 9), 2)
    assert remarks(Tree.balanced(16, 4), 4) == ""
    assert "5 devices, but only 4 subtrees;" in remarks(Tree.balanced(16, 4), 5)
    counts = np.ones(1024)
    counts[:32] = 1000
    assert (
        "One group of 32 rows, that below row 0, has 97% of the work below "
        "the top; it cannot be cut."
    ) in remarks(Tree.two_level(1024), 4, counts)
    named = Tree.from_paths(
        [["animals", str(i)] for i in range(900)]
        + [[f"other {i // 10}", str(i)] for i in range(100)]
    )
    assert (
        "One group of 900 rows, that below 'animals' (row 0), has 90% of the "
        "rows below the top; it cannot be cut."
    ) in remarks(named, 2, np.append(np.zeros(900), np.ones(100)))
    assert "is a chain, which cannot be spread" in remarks(trees.chain(60), 2)
    assert "The top has 100% of the work" in remarks(
        Tree.balanced(3000, [1000, 3]), 2
    )


def test_remarks_of_replicas():
    flat = plan(Tree.balanced(9, 9), replicas=2).cost.remarks
    assert "each replica has a copy of it" in " ".join(flat)
    # Each replica has a part of the examples of the top.
    wide = plan(Tree.balanced(3000, [1000, 3]), replicas=2).cost.remarks
    assert not any("The top has" in remark for remark in wide)
    cost = plan(Tree.two_level(9), replicas=5, batch=16, width=5).cost
    assert cost.remarks[0] == (
        "There are 5 replicas, but only 3 subtrees; the other replicas have "
        "none."
    )
    assert [s.bytes for s in cost.shards[3:]] == [cost.top.bytes] * 2


def test_the_top_binds():
    """Where it takes longer than the slowest shard, as it does with 200."""
    tree = Tree.two_level(1_000_000)
    few, many = (plan(tree, n, batch=2048, width=64) for n in (2, 200))
    assert not any("top binds" in x for x in few.cost.remarks)
    top, slowest = many.cost.top, many.cost.shards
    slowest = max(shard.milliseconds for shard in slowest)
    assert top.milliseconds > 2 * slowest
    (text,) = (x for x in many.cost.remarks if "top binds" in x)
    enough = int(re.search("About (.*) devices", text)[1])
    assert text == (
        f"The top binds: it takes {digits(top.milliseconds)} ms of a step, and "
        f"the slowest shard {digits(slowest)} ms. About {enough} devices would "
        "be as fast. A tree with smaller groups near the root has a faster top."
    )
    assert text in str(many)
    # So many devices are about as fast.
    there = plan(tree, enough, batch=2048, width=64).cost
    slowest = max(shard.milliseconds for shard in there.shards)
    assert slowest == pytest.approx(there.top.milliseconds, rel=0.2)
    # Without a batch there are no times.
    assert not any("top binds" in x for x in plan(tree, 200).cost.remarks)
    # Over replicas, its gradients go around a slow network.
    few, many = (
        plan(tree, replicas=n, batch=4096, width=64, network=1e8).cost
        for n in (2, 64)
    )
    assert not any("top binds" in x for x in few.remarks)
    (of_replicas,) = (x for x in many.remarks if "top binds" in x)
    assert "to exchange the gradients of the top" in of_replicas
    summing = 1e3 * many.top.sent_bytes / 1e8
    assert summing > max(s.milliseconds for s in many.shards)


def test_text():
    p = plan(Tree.two_level(10_000), 40, batch=400, width=8)
    text = str(p)
    assert "100 rows, 7.2 kB; 100.0 rows per example, 50% of the work" in text
    assert "… 24 more" in text
    assert "76 bytes per example" in text
    assert f"{p.cost.largest_by_chance:.3f} times the mean work" in text
    assert "wire" not in str(plan(Tree.two_level(10_000), 2))
    text = str(plan(Tree.two_level(10_000), replicas=8, batch=400, width=8))
    assert "100 rows, 7.2 kB, a copy on each replica; 100.0 rows" in text
    assert "if all labels are in one shard" in text
    assert repr(plan(Tree.two_level(4), 2)) == (
        "Plan(Tree(num_classes=4, num_rows=6, num_groups=3, depth=2), "
        "devices=['device:0', 'device:1'], num_units=2)"
    )
