"""Malformed arguments of the raw ops: an error that names one, and no crash.

These are chosen; `tests/fuzz` has random ones, and `handles_test` variables.
"""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.random_calls import INFERENCE, ON_CODES, small_call
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import tree_tensors

INVALID = tf.errors.InvalidArgumentError
MODES = ["int8", "int4"]
TREE = tf_hsm.Tree.two_level(30)
ROWS = TREE.num_rows


def refused(call, message, **changes):
    """Asserts an error of a call with other arguments, each a list."""
    call.arguments.update(changes)
    with pytest.raises(INVALID, match=message):
        call.run()


def on_codes(op, mode="int8"):
    """A call on quantized weights."""
    return small_call(op, on_variables=True, mode=mode)


def at(index, value):
    """Changes one number of an array."""

    def change(right):
        right[index] = value
        return right

    return change


# What changes one of the arguments of an op, and what the error says.
MASK = {
    "row_spans": TREE.row_spans,
    "allowed_ranks": np.array([1, 7, 9, 29]),
    "allowed_splits": np.array([0, 4]),
}
MASKS = [
    ("row_spans", np.zeros([3, 2], int), "row_spans must have the shape"),
    ("allowed_ranks", np.zeros([4, 1], int), r"the shape \[n\]"),
    ("allowed_splits", np.array([0, 2, 4]), r"allowed_splits must .* 3 "),
    ("allowed_splits", np.array(4), "allowed_splits must have the shape"),
    ("allowed_splits", at(0, 1), r"splits\[0\] = 1 is outside"),
    ("allowed_splits", at(1, 5), r"splits\[1\] = 5 is outside"),
    (
        *("allowed_splits", np.array([0, 2, 1, 4])),
        r"splits\[2\] = 1 is outside \[2, 5\)",
    ),
    ("allowed_splits", at(1, 3), r"= 3, but there are 4 allowed"),
    ("allowed_ranks", at(2, 4), r"ranks\[2\] = 4 .* \[7, 30\), .* ascend"),
    ("allowed_ranks", at(3, 30), r"allowed_ranks\[3\] = 30 .* \[9, 30\)"),
    ("allowed_ranks", at(0, -1), r"allowed_ranks\[0\] = -1 .* \[0, 30\)"),
]


@pytest.mark.parametrize("name, change, message", MASKS)
def test_masks(name, change, message):
    """Sizes and lists are checked; what a row's span says, is not."""
    call = small_call("top_k")
    call.arguments.update({k: [v] for k, v in MASK.items()})
    call.run()
    wrong = change(MASK[name].copy()) if callable(change) else change
    refused(call, message, **{name: [wrong]})
    refused(call, "at most one", **{k: [v, v] for k, v in MASK.items()})


# A forest of `count` groups, whose roots are ascending from 0.
ROOTS = [
    (at(0, 1), r"root_groups\[0\] = 1 is outside \[0, 1\)"),
    (at(0, -1), r"root_groups\[0\] = -1 is outside \[0, 1\)"),
    (at(1, 0), r"root_groups\[1\] = 0 is outside \[1, {count}\)"),
    (lambda g: at(2, g[1])(g), r"root_groups\[2\] = \d+ is outside"),
    (at(-1, 2**62), r"root_groups\[\d+\] = 4611686018427387904 is outside"),
    (at(1, -(2**63)), r"root_groups\[1\] = -9223372036854775808 is outside"),
    (lambda g: g[:0], "root_groups must have at least 1 value"),
    (lambda g: g[np.newaxis], "root_groups must have the shape"),
    (lambda g: np.int64(0), "root_groups must have the shape"),
]
# Optional arguments of the accumulator's type and the right shape.
OPTIONAL = [
    (lambda right: right.astype(np.float64), "{name} .*(double|float64)"),
    (lambda right: right[:-1], "{name} must have the shape"),
    (lambda right: right[..., np.newaxis], "{name} must have the shape"),
]


@pytest.mark.parametrize(
    "op, name, rows",
    [
        *((op, "root_groups", ROOTS) for op in INFERENCE),
        *((op, "root_log_probs", OPTIONAL) for op in INFERENCE),
        ("top_k", "bounds", OPTIONAL),
    ],
)
def test_optional_arguments(op, name, rows):
    """At most one of each; each value of the roots is checked."""
    call = small_call(op, "forest_33")
    count = len(call.arguments["group_offsets"][0]) - 1
    assert len(call.arguments["root_groups"][0]) > 2
    right = np.zeros(3, np.float32)
    if name != "bounds":
        (right,) = call.arguments[name]
    for change, message in rows:
        message = message.replace("{name}", name)
        message = message.replace("{count}", str(count))
        refused(call, message, **{name: [change(right.copy())]})
    if name == "root_groups":
        message = rf"root_groups\[\d+\] = {count} is outside"
        refused(call, message, root_groups=[at(-1, count)(right.copy())])
    refused(call, f"{name}.* at most one", **{name: [right, right]})


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("known", lambda right: right[::-1], "must ascend, but"),
        ("known", lambda right: 0 * right, "must ascend, but 0 follows 0"),
        ("known_counts", lambda right: right[1:], "one per known key"),
        ("keys", lambda right: right[:, None], "must have the shape"),
    ],
)
def test_keys(name, change, message):
    call = small_call("count_keys", seed=1)
    refused(
        call, f"{name}.*{message}", **{name: [change(call.arguments[name][0])]}
    )


@pytest.mark.parametrize(
    "op, name, change, message",
    [
        ("split_points", "runs", np.zeros([4, 2], int), "must have the shape"),
        ("split_points", "runs", tf.zeros([2**62, 0], tf.int64), "must have"),
        ("split_points", "runs", lambda x: x[::-1], r"\[\d+\] = .* outside"),
        ("split_points", "runs", lambda x: x[:, [0, 0, 2]], r"= .* is outside"),
        ("split_points", "runs", lambda x: x + 2**40, r"= .* is outside"),
        ("split_points", "order", lambda x: x + 1, r"= .* is outside"),
        ("split_points", "order", lambda x: -x - 1, r"= .* is outside"),
        ("split_points", "points", lambda x: x[:-1], "order must have"),
        ("split_points", "points", lambda x: x[:, :0], "width of at least 1"),
        ("exchange_points", "starts", lambda x: x - x, r"= 0 is outside"),
        ("exchange_points", "sizes", lambda x: x + 2**62, r"= .* outside"),
        ("exchange_points", "sizes", lambda x: 0 * x, r"= 0 is outside"),
        (
            "exchange_points",
            "splits",
            lambda x: x[:, 1:],
            "must have the shape",
        ),
    ],
)
def test_points(op, name, change, message):
    call = small_call(op, seed=4)
    wrong = change
    if callable(change):
        wrong = change(call.arguments[name][0])
    refused(call, message, **{name: [wrong]})


@pytest.mark.parametrize("op", [*INFERENCE, "loss"])
def test_a_width_beyond_all_memory(op):
    """No rows of any width take no memory, and no product may overflow."""
    none = {
        "weights": [tf.zeros([0, 2**63 - 1])],
        "inputs": [tf.zeros([0, 2**63 - 1])],
        "biases": [np.zeros(0, np.float32)],
    }
    if op == "loss":
        arrays = tree_tensors(TREE)._asdict()
        none.update({name: [array[:0]] for name, array in arrays.items()})
        none["labels"] = [np.zeros(0, np.int64)]
        none["group_offsets"] = [np.zeros(1, np.int64)]
    else:
        none["row_below"] = [np.zeros(0, np.int64)]
        none["group_offsets"] = [np.zeros(2, np.int64)]
    refused(small_call(op), "weights", **none)
    if op not in ON_CODES:
        return
    for dtype in (np.int8, np.uint8):
        for width in (2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1):
            none["weights"] = [np.zeros([0, width], dtype)]
            none["inputs"] = [tf.zeros([0, width])]
            for shape in ((0, 1), (0, 2**31), (0, 2**57)):
                none["scales"] = [np.zeros(shape, np.float32)]
                words = "weights|scales|inputs|group_offsets"
                refused(on_codes(op), words, **none)


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
                INVALID,
                match=rf"group_parents\[{group}\] = -1 is a root's, but",
            ):
                loss(first, group_parents=parents)
    assert found == outcomes


@pytest.mark.parametrize("count", [1000, 1])
def test_too_many_roots(count):
    """As many classes as there cannot be."""
    call = small_call("loss", "forest_33")
    rows = [np.resize(call.arguments["class_rows"][0], count)]
    message = f"class_rows must have from .* but has {count} "
    refused(call, message, class_rows=rows, class_ranks=rows)


SHAPES = [
    *((), (ROWS,), (1,), (0, 1), (ROWS - 1, 1), (ROWS + 1, 1), (1, ROWS)),
    *((ROWS, 0), (ROWS, 2), (ROWS, 4), (ROWS, 1, 1), (1, ROWS, 1)),
    *((0, 2**31), (0, 2**50), (2**40, 0), (2**50, 0)),
]
TYPES = {
    "scales": [
        *(np.float64, np.float16, ml_dtypes.bfloat16, np.complex64),
        *(np.int32, np.bool_, np.int8, np.str_),
    ],
    "weights": [np.float32, np.float64, np.int16, np.int64, np.bool_],
}


@pytest.mark.parametrize("op", ON_CODES)
def test_scales_and_codes(op):
    """Other shapes and types, and one without the other, are refused."""
    for mode in MODES:
        (scales,) = on_codes(op, mode).arguments["scales"]
        assert scales.shape == (ROWS, 1)
        for shape in SHAPES:
            for zeros in (np.zeros(shape, np.float32), tf.zeros(shape)):
                refused(on_codes(op, mode), "scales", scales=[zeros])
    for name, dtypes in TYPES.items():
        (right,) = on_codes(op).arguments[name]
        for dtype in dtypes:
            wrong = np.ones(right.shape, "i1").astype(dtype)
            refused(on_codes(op), name, **{name: [wrong]})
    for dtype in (tf.float64, tf.bfloat16, tf.half):
        call = on_codes(op)
        call.attributes["T"] = dtype
        refused(call, ".")
    refused(on_codes(op), "weights", scales=[])
    refused(on_codes(op), "scales", scales=[scales, scales])
    for on_variables in (True, False):
        call = small_call(op, on_variables=on_variables)
        refused(call, "scales", scales=[tf.constant(np.asarray(scales))])


@pytest.mark.parametrize("mode", MODES)
def test_blocks_of_a_wide_row(mode):
    """One scale for a row, or one for each 64 columns, and no other number."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=[3, 130]).astype("float32")
    weights = rng.normal(size=[TREE.num_rows, 130]).astype("float32")
    rows = tf_hsm.quantize_rows(weights, mode)
    for blocks in range(6):
        some = tf_hsm.QuantizedRows(
            rows.codes, tf.Variable(tf.ones([TREE.num_rows, blocks])), 130
        )

        def ask(some=some):
            return tf_hsm.hierarchical_softmax_top_k(
                some, None, inputs, TREE, 2
            )

        if blocks in (1, 3):
            assert np.isfinite(ask().log_probs).all()
        else:
            with pytest.raises(INVALID, match="scales"):
                ask()


def test_groups_of_pinned_trees_that_are_no_pairs():
    call = small_call("log_probs", "pinned_9")
    offsets = call.arguments["group_offsets"][0].copy()
    offsets[-2] -= 1
    refused(call, "pinned tree", group_offsets=[offsets])
