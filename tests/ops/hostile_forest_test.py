"""Malformed forests in the raw ops: an error, and never a crash.

These are chosen; `tests/fuzz` has random ones.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import raw_calls


def call_of(op):
    return raw_calls.valid_call(
        op,
        False,
        np.random.default_rng(0),
        dtype=np.float32,
        tree="forest_33",
        batch=(3,),
        width=4,
    )


def refused(call, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        raw_calls.run(call)


@pytest.mark.parametrize("op", raw_calls.INFERENCE)
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


@pytest.mark.parametrize("op", raw_calls.INFERENCE)
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
    parents = call.arguments["group_parents"][0].copy()
    inner = int(np.flatnonzero(parents >= 0)[0])
    parents[inner] = -1
    call.arguments["group_parents"] = [parents]
    count = len(call.arguments["class_rows"][0])
    classes = np.broadcast_to(np.arange(count), [3, count])
    call.arguments["classes"] = [classes]
    refused(call, rf"group_parents\[{inner}\] = -1, but .* root_groups")
    call = call_of("class_log_probs")
    call.arguments["classes"] = [np.full([3, 1], -2)]
    refused(call, r"classes\[0\] = -2 is outside")
    call.arguments["classes"] = [np.full([3, 1], -1)]
    assert (raw_calls.run(call).numpy() == -np.inf).all()


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
            loss = raw_calls.run(call).loss
            outcomes.add(bool(np.isfinite(loss).all()))
        except tf.errors.InvalidArgumentError as error:
            assert "group" in error.message or "class_ranks" in error.message
            outcomes.add("error")
    assert outcomes == {True, "error"}


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
