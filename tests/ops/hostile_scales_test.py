"""Malformed codes and scales: an error that names them, or the right result.

These are chosen; `tests/fuzz` has random ones.
"""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import random_calls

OPS = [op for op in random_calls.INFERENCE if op != "log_probs_grad"]
ROWS = tf_hsm.Tree.two_level(30).num_rows
MODES = ["int8", "int4"]
# A handle that is no variable's is not found, or is of another type.
ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)


def small_call(op, mode):
    return random_calls.small_call(op, on_variables=True, mode=mode)


def outputs(call):
    found = call.run()
    found = found if isinstance(found, tuple) else (found,)
    return [np.asarray(each) for each in found]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", OPS)
def test_shapes_of_scales(op, mode):
    rows, blocks = small_call(op, mode).arguments["scales"][0].shape
    assert (rows, blocks) == (ROWS, 1)
    for shape in (
        (),
        (rows,),
        (blocks,),
        (0, blocks),
        (rows - 1, blocks),
        (rows + 1, blocks),
        (blocks, rows),
        (rows, 0),
        (rows, 2),
        (rows, 4),
        (rows, blocks, 1),
        (1, rows, blocks),
        (0, 2**31),
        (0, 2**50),
        (2**40, 0),
        (2**50, 0),
    ):
        call = small_call(op, mode)
        call.arguments["scales"] = [np.zeros(shape, np.float32)]
        with pytest.raises(tf.errors.InvalidArgumentError, match="scales"):
            call.run()
        call.arguments["scales"] = [tf.zeros(shape)]
        with pytest.raises(tf.errors.InvalidArgumentError, match="scales"):
            call.run()


@pytest.mark.parametrize("op", OPS)
def test_types_of_scales_and_codes(op):
    for dtype in (
        *(np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int32),
        *(np.bool_, np.complex64, np.str_),
    ):
        call = small_call(op, "int8")
        scales = call.arguments["scales"][0]
        call.arguments["scales"] = [
            np.ones(scales.shape, np.int8).astype(dtype)
        ]
        with pytest.raises(tf.errors.InvalidArgumentError, match="scales"):
            call.run()
    for dtype in (np.float32, np.float64, np.int16, np.int64, np.bool_):
        call = small_call(op, "int8")
        codes = call.arguments["weights"][0]
        call.arguments["weights"] = [
            np.ones(codes.shape, np.int8).astype(dtype)
        ]
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match="weights with scales must be int8 or uint8",
        ):
            call.run()
    for dtype in (tf.float64, tf.bfloat16, tf.half):
        call = small_call(op, "int8")
        call.attributes["T"] = dtype
        with pytest.raises(tf.errors.InvalidArgumentError):
            call.run()


@pytest.mark.parametrize("op", OPS)
def test_codes_without_scales_and_scales_without_codes(op):
    call = small_call(op, "int8")
    scales = call.arguments["scales"]
    call.arguments["scales"] = []
    with pytest.raises(tf.errors.InvalidArgumentError, match="weights"):
        call.run()
    call.arguments["scales"] = scales * 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="scales"):
        call.run()
    for on_variables in (True, False):
        floats = random_calls.small_call(op, on_variables=on_variables)
        floats.arguments["scales"] = [tf.constant(np.asarray(scales[0]))]
        with pytest.raises(tf.errors.InvalidArgumentError, match="scales"):
            floats.run()


@pytest.mark.parametrize("op", OPS)
def test_a_handle_of_something_else(op):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    double = tf.Variable(np.zeros((ROWS, 1)))
    unset = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[ROWS, 1])
    for handle in (table.resource_handle, double.handle, unset):
        call = small_call(op, "int8")
        call.arguments["scales"] = [handle]
        with pytest.raises(ERRORS, match="scales"):
            call.run()
    call = small_call(op, "int8")
    held = call.variables()
    held["scales"] = held["weights"]  # one variable for both
    with pytest.raises(ERRORS, match="scales"):
        call.run(held)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", OPS)
def test_values_of_scales(op, mode):
    """The results are the results of the numbers that codes and scales make."""
    for value in (0, -0.0, -1, 1e-45, 3e38, -3e38, np.inf, -np.inf, np.nan):
        call = small_call(op, mode)
        scales = np.array(call.arguments["scales"][0])
        codes = call.arguments["weights"][0]
        for some in (slice(3, 9), slice(None)):
            scales[some] = value
            call.arguments["scales"] = [scales]
            floats = small_call(op, mode)
            with np.errstate(over="ignore", invalid="ignore"):
                rows = tf_hsm.QuantizedRows(
                    tf.Variable(codes), tf.Variable(scales), 4
                ).numpy()
            floats.arguments.update(weights=[rows], scales=[])
            for found, expected in zip(
                outputs(call), outputs(floats), strict=True
            ):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", OPS)
def test_widths_beyond_all_memory(op):
    """No rows of any width take no memory, and no product may overflow."""
    for dtype in (np.int8, np.uint8):
        for width in (2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1):
            for shape in ((0, 1), (0, 2**31), (0, 2**57)):
                call = small_call(op, "int8")
                call.arguments.update(
                    group_offsets=[np.zeros(2, np.int64)],
                    weights=[np.zeros([0, width], dtype)],
                    scales=[np.zeros(shape, np.float32)],
                    inputs=[tf.zeros([0, width])],
                    biases=[np.zeros(0, np.float32)],
                    row_below=[np.zeros(0, np.int64)],
                )
                with pytest.raises(
                    tf.errors.InvalidArgumentError,
                    match=r"weights|scales|inputs|group_offsets",
                ):
                    call.run()


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_no_width(mode):
    tree = tf_hsm.Tree.two_level(30)
    rows = tf_hsm.quantize_rows(np.zeros([ROWS, 0], np.float32), mode)
    found = tf_hsm.hierarchical_softmax_log_probs(
        rows, None, np.zeros([2, 0], np.float32), tree
    )
    expected = tf_hsm.hierarchical_softmax_log_probs(
        np.zeros([ROWS, 0], np.float32), None, np.zeros([2, 0], "f4"), tree
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", MODES)
def test_blocks_of_a_wide_row(mode):
    """One scale for a row, or one for each 64 columns, and no other number."""
    tree = tf_hsm.Tree.two_level(30)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=[3, 130]).astype("float32")
    weights = rng.normal(size=[ROWS, 130]).astype("float32")
    rows = tf_hsm.quantize_rows(weights, mode)
    for blocks in range(6):
        some = tf_hsm.QuantizedRows(
            rows.codes, tf.Variable(tf.ones([ROWS, blocks])), 130
        )

        def ask(some=some):
            return tf_hsm.hierarchical_softmax_top_k(
                some, None, inputs, tree, 2
            )

        if blocks in (1, 3):
            assert np.isfinite(ask().log_probs).all()
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="scales"):
                ask()
