"""Malformed forests in the raw ops: an error, and never a crash.

These are chosen; `tests/fuzz` has random ones.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import random_calls
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import tree_tensors


def call_of(op):
    return random_calls.small_call(op, "forest_33")


def refused(call, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call.run()


@pytest.mark.parametrize("op", random_calls.INFERENCE)
def test_root_groups(op):
    """Each value is checked: ascending from 0, and groups."""
    call = call_of(op)
    (groups,) = call.arguments["root_groups"]
    count = len(call.arguments["group_offsets"][0]) - 1
    assert len(groups) > 2
    for index, value, message in [
        (0, 1, r"root_groups\[0\] = 1 is outside \[0, 1\)"),
        (0, -1, r"root_groups\[0\] = -1 is outside \[0, 1\)"),
        (1, 0, rf"root_groups\[1\] = 0 is outside \[1, {count}\)"),
        (2, groups[1], rf"root_groups\[2\] = {groups[1]} is outside"),
        (-1, count, rf"root_groups\[\d+\] = {count} is outside"),
        (-1, 2**62, r"root_groups\[\d+\] = 4611686018427387904 is outside"),
        (1, -(2**63), r"root_groups\[1\] = -9223372036854775808 is outside"),
    ]:
        wrong = groups.copy()
        wrong[index] = value
        call.arguments["root_groups"] = [wrong]
        refused(call, message)
    for wrong, message in [
        ([groups[:0]], "root_groups must have at least 1 value"),
        ([groups[np.newaxis]], "root_groups must have the shape"),
        ([np.int64(0)], "root_groups must have the shape"),
        ([groups, groups], "root_groups.* at most one"),
    ]:
        call.arguments["root_groups"] = wrong
        refused(call, message)


def test_groups_that_are_no_roots():
    """Found where all of the forest is read; none reads past an array."""
    call = call_of("log_probs")
    (groups,) = call.arguments["root_groups"]
    below = call.arguments["row_below"][0]
    inner = np.setdiff1d(below[below >= 0], groups)
    count = len(groups)
    # A root left out, one too many, and one that is below a row.
    for wrong, message in [
        (np.delete(groups, 1), "row_below: no row has group|row_below|classes"),
        (np.sort([*groups, inner[0]]), "row_below"),
        (np.sort([*np.delete(groups, count - 1), inner[0]]), "row_below"),
    ]:
        call.arguments["root_groups"] = [wrong]
        starts = np.zeros([3, len(wrong)], np.float32)
        call.arguments["root_log_probs"] = [starts]
        refused(call, message)


@pytest.mark.parametrize("op", random_calls.INFERENCE)
def test_optional_arguments(op):
    """At most one of each, of the accumulator's type and the right shape."""
    names = ["root_log_probs"] + ["bounds"] * (op == "top_k")
    for name in names:
        call = call_of(op)
        right = np.zeros(3, np.float32)
        if name == "root_log_probs":
            right = call.arguments[name][0]
        for wrong, message in [
            ([right.astype(np.float64)], f"{name} .*(double|float64)"),
            ([right[:-1]], f"{name} must have the shape"),
            ([right[..., np.newaxis]], f"{name} must have the shape"),
            ([right, right], f"{name}.* at most one"),
        ]:
            call.arguments[name] = wrong
            refused(call, message)


def test_a_group_that_is_no_root():
    """A walk up that ends at a group which is not one of the roots."""
    call = call_of("class_log_probs")
    right = call.arguments["group_parents"][0]
    count = len(call.arguments["class_rows"][0])
    classes = np.broadcast_to(np.arange(count), [3, count])
    call.arguments["classes"] = [classes]
    inner = np.flatnonzero(right >= 0)
    # Behind the first are groups of its tree; the last could be a root.
    for group, message in [(inner[0], "a root's"), (inner[-1], "root_groups")]:
        parents = right.copy()
        parents[group] = -1
        call.arguments["group_parents"] = [parents]
        refused(call, rf"group_parents\[{group}\] = -1.*{message}")
    call = call_of("class_log_probs")
    call.arguments["classes"] = [np.full([3, 1], -2)]
    refused(call, r"classes\[0\] = -2 is outside")
    call.arguments["classes"] = [np.full([3, 1], -1)]
    assert (call.run().numpy() == -np.inf).all()


def test_parents_of_another_tree():
    """A loss whose arrays hold -1 anywhere: an error or a number."""
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(300):
        call = call_of("loss")
        parents = call.arguments["group_parents"][0].copy()
        for _ in range(rng.integers(1, 4)):
            values = [-1, -2, 0, rng.integers(40), 2**40]
            parents[rng.integers(parents.size)] = rng.choice(values)
        call.arguments["group_parents"] = [parents]
        try:
            loss = call.run().loss
            outcomes.add(bool(np.isfinite(loss).all()))
        except tf.errors.InvalidArgumentError as error:
            assert "group" in error.message or "class_ranks" in error.message
            outcomes.add("error")
    assert outcomes == {True, "error"}


@pytest.mark.parametrize(
    "tree, outcomes",
    [
        (tf_hsm.Tree.balanced(12, 2), {True, False}),
        (tf_hsm.Tree.balanced(9, 2).pin(), {True, False}),
        (tf_hsm.Tree.huffman(2.0 ** np.arange(9)), {True}),  # a chain
    ],
)
def test_roots_where_labels_are_rows(tree, outcomes):
    """No array counts them: a -1 is refused, or is the root of a forest."""
    arrays = tree_tensors(tree, nodes=True)._asdict()
    rng = np.random.default_rng(3)
    weights = rng.normal(size=[tree.num_weight_rows, 4])
    inputs = rng.normal(size=[1, 4])

    def loss(row, **forged):
        return raw_ops.tf_hsm_loss(
            weights=weights,
            biases=[],
            labels=[row],
            inputs=inputs,
            smoothing_prior=[],
            pinned=tree.pinned,
            Taccumulator=tf.float64,
            **{**arrays, **forged},
        ).loss[0]

    found = set()
    for group in range(1, tree.num_groups):
        first = tree.group_offsets[group]
        parents = tree.group_parents.copy()
        above = loss(parents[group])
        parents[group] = -1
        is_forest = (parents[group + 1 : group + 2] >= first).all()
        found.add(bool(is_forest))
        if is_forest:
            forged = loss(first, group_parents=parents)
            np.testing.assert_allclose(forged, loss(first) - above, rtol=1e-9)
        else:
            with pytest.raises(
                tf.errors.InvalidArgumentError,
                match=rf"group_parents\[{group}\] = -1 is a root's, but",
            ):
                loss(first, group_parents=parents)
    assert found == outcomes


def test_too_many_roots():
    """As many classes as there cannot be."""
    call = call_of("loss")
    rows = call.arguments["class_rows"][0]
    for name in ("class_rows", "class_ranks"):
        call.arguments[name] = [np.zeros(1000, np.int64)]
    refused(call, "class_rows must have from .* but has 1000")
    for name in ("class_rows", "class_ranks"):
        call.arguments[name] = [rows[:1]]
    refused(call, "class_rows must have from .* but has 1 ")
