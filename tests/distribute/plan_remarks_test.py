"""Sentences of plans: what is not even, and what binds."""

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
    # So many devices are about as fast.
    there = plan(tree, enough, batch=2048, width=64).cost
    slowest = max(shard.milliseconds for shard in there.shards)
    assert slowest == pytest.approx(there.top.milliseconds, rel=0.2)
    assert text in str(many)
    # Without a batch there are no times.
    assert not any("top binds" in x for x in plan(tree, 200).cost.remarks)
