"""Calls of raw ops with forged arguments, and what may come of them."""

import dataclasses
import functools

import ml_dtypes
import numpy as np
import tensorflow as tf

from tests.support import op_calls, private, random_calls

# What a caller must get, if anything. An OpError has a subclass per code.
ERRORS = (tf.errors.OpError, ValueError, TypeError, OverflowError)
# Codes that say that an op is broken, not the call.
_OURS = (tf.errors.InternalError, tf.errors.UnknownError)
_INTEGERS = [
    *(-(2**63), -(2**63) + 1, -(2**31) - 1, -(2**31), -2, -1, 0, 1, 2, 3, 7),
    *(30, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1),
]
# Some beyond all memory, were there one number in them.
_EMPTY = [
    (),
    (0,),
    (0, 0, 2),
    (0, 2**31),
    (2**40, 0),
    (0, 2**50),
    (2**31, 0, 1),
]
# Hostile calls that are made from one right one.
_VARIANTS = 16
# So many samples would take all memory, and hours; more fail at once.
_TOO_SLOW = (2**31 - 1, 2**31)
_FLOATS = [np.nan, np.inf, -np.inf, 3e38, -3e38, 0, -0.0, 1, -1, 1e-300, 1e300]
# How TensorFlow says that the type of an argument is wrong.
_NAMED_BY_TENSORFLOW = ("(zero-based)", "Taccumulator")
_DTYPES = [
    *(np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int32),
    *(np.int64, np.uint8, np.bool_, np.complex64, np.str_),
]
_FORGED = {
    "T": [tf.float32, tf.float64, tf.bfloat16, tf.half, tf.int32, tf.string],
    "Taccumulator": [tf.float32, tf.float64, tf.half, tf.int64],
    "ignore_classes": [[], [-(2**63)], [2**63 - 1, 0], [0.5], 3],
    "combiner": ["sum", "mean", "max", 3],
    "label_smoothing": [0.0, 1.0, 0.5, -1e-9, 1.1, np.nan, np.inf, "0.1"],
    "rule": [*random_calls.RULES, "none", "", 3, None],
    "with_gradients": [True, False, 2, "yes"],
    "of_nodes": [True, False, -1],
    "pinned": [True, False, "no"],
    "has_sigmoids": [True, False, "yes"],
    "stochastic_rounding": [True, False, None],
}


def _extremes(name, array):
    """Values at the ends of what the array's type can hold."""
    with np.errstate(all="ignore"):
        if array.dtype.kind not in "iu":
            return np.array(_FLOATS).astype(array.dtype)
        info = np.iinfo(array.dtype)
        values = np.clip(_INTEGERS, info.min, info.max).astype(array.dtype)
        slow = name == "num_samples" and np.isin(values, _TOO_SLOW)
        return values[~np.atleast_1d(slow)] if np.any(slow) else values


def _spoil(rng, name, array):
    """One array with other sizes, rank or type, or other values."""
    extremes = _extremes(name, array)
    kind = rng.integers(10)
    if array.ndim == 0 and kind < 6:
        return np.array(rng.choice(extremes))
    if array.size == 0:
        return np.zeros(_EMPTY[rng.integers(len(_EMPTY))], array.dtype)
    if kind == 0:
        return np.repeat(array[..., np.newaxis], rng.integers(3), -1)
    if kind == 1:
        return array.reshape(-1)[:1].reshape(()) if array.size else array
    if kind == 2:
        axis = rng.integers(max(array.ndim, 1))
        return np.repeat(np.atleast_1d(array), 2, axis=axis)
    if kind == 3:
        return np.atleast_1d(array)[: rng.integers(array.size + 1)]
    if kind == 4:
        return np.zeros([0] * int(rng.integers(1, 5)), array.dtype)
    if kind == 5 and rng.integers(3) == 0:
        dtype = _DTYPES[rng.integers(len(_DTYPES))]
        return np.ones(array.shape, np.float32).astype(dtype)
    array = array.copy()
    if kind < 8:
        at = rng.integers(array.size, size=rng.integers(1, 4))
        array.flat[at] = rng.choice(extremes)
    elif kind == 8 or array.dtype.kind not in "iu":
        # The right values in the wrong order, for arrays of a tree.
        array.flat[:] = rng.choice(array.ravel(), size=array.size)
    else:
        array.flat[:] = rng.integers(
            -array.size, array.size + 3, size=array.size
        )
    return array


@functools.cache
def _other_handles():
    """Handles that no op takes, and, to keep them alive, what they are of."""
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    odd = [np.zeros((3, 2)), np.zeros((), np.float32), np.int32([1])]
    others = [tf.Variable(each) for each in odd]
    handles = [
        table.resource_handle,
        tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[3, 2]),
        *(variable.handle for variable in others),
        tf.stack([others[0].handle] * 2),
        tf.constant([1.0]),
    ]
    return handles, (table, others)


def _empty_variant():
    proto = private.tensor_proto(dtype=tf.variant.as_datatype_enum)
    proto.tensor_shape.SetInParent()
    proto.variant_val.add()
    return tf.io.parse_tensor(proto.SerializeToString(), tf.variant)


def _forged_state(rng, state):
    """Something else in place of what a loss keeps for its gradient."""
    kind = rng.integers(10)
    if kind < 4:  # The state of another batch, tree, type or width.
        op = random_calls.OPS[rng.integers(len(random_calls.OPS))]
        other = random_calls.valid_call("loss_grad", op[1], rng)
        return other.arguments["state"][0]
    if kind == 4:
        # The second one lies where no aligned allocation begins.
        return tf.stack([state] * 3)[rng.integers(1, 3)]
    others = [
        tf.stack([state] * 2),
        tf.zeros_like(state),
        tf.zeros([], tf.int32),
        tf.constant(rng.bytes(64)),
        tf.raw_ops.TensorListFromTensor(
            tensor=tf.reshape(state, [1]), element_shape=np.zeros(0, np.int32)
        ),
        tf.raw_ops.OptionalNone(),
        tf.raw_ops.OptionalFromValue(components=[state]),
        tf.data.Dataset.range(3)._variant_tensor,
        _empty_variant(),
    ]
    return others[rng.integers(len(others))]


@functools.lru_cache(maxsize=1)
def _right_call(seed, number):
    op, on_variables = random_calls.OPS[number % len(random_calls.OPS)]
    rng = np.random.default_rng([seed, number])
    return random_calls.valid_call(op, on_variables, rng)


def hostile_call(seed, number):
    """A call with up to three things wrong; now and then with none.

    Returns:
        A Call, a generator, how many things are wrong, and lists of two
        parameters, as (name, index) each, that are to be one variable.
    """
    right = _right_call(seed, number // _VARIANTS)
    call = dataclasses.replace(
        right,
        arguments={**right.arguments},
        attributes={**right.attributes},
    )
    rng = np.random.default_rng([seed, number, 1])
    on_variables = call.on_variables
    changes = int(rng.choice([0, 1, 1, 1, 2, 3]))
    aliases = []
    for _ in range(changes):
        names = [n for n, values in call.arguments.items() if values]
        name = names[rng.integers(len(names))]
        values = call.arguments[name] = list(call.arguments[name])
        at = rng.integers(len(values))
        is_variable = on_variables and name in op_calls.PARAMETERS
        kind = rng.integers(12)
        if kind == 0:
            known = [n for n in _FORGED if n in call.attributes]
            known += ["T"] * on_variables
            known += ["ignore_classes"] * ("labels" in call.arguments)
            known += ["label_smoothing"] * (call.op in random_calls.SMOOTHED)
            if known:
                attribute = known[rng.integers(len(known))]
                forged = _FORGED[attribute]
                call.attributes[attribute] = forged[rng.integers(len(forged))]
        elif kind == 1 and is_variable:
            handles, _ = _other_handles()
            values[at] = handles[rng.integers(len(handles))]
        elif kind == 2 and is_variable:
            other = [n for n in names if n in op_calls.PARAMETERS]
            other = other[rng.integers(len(other))]
            index = rng.integers(len(call.arguments[other]))
            aliases.append(((name, at), (other, index)))
        elif kind == 3 and name in call.lists:
            # One too many or one too few, where that is possible.
            values[at : at + rng.integers(2)] = values[: rng.integers(3)]
        elif name == "state":
            values[at] = _forged_state(rng, right.arguments[name][0])
        elif isinstance(values[at], np.ndarray):
            values[at] = _spoil(rng, name, values[at])
    return call, rng, changes, aliases


def try_call(seed, number):
    """Makes a hostile call and runs it; the same for the same numbers.

    Returns:
        What came of it in a word, or "wrong: " and a sentence.
    """
    call, rng, changes, aliases = hostile_call(seed, number)
    is_valid = changes == 0
    if not is_valid and rng.integers(16) == 0:
        return _try_in_graph(call)
    held = before = None
    try:
        held = call.variables()
        for (name, at), (other, index) in aliases:
            if at < len(held[name]) and index < len(held[other]):
                held[name][at] = held[other][index]
        before = _contents(held)
        result = call.run(held)
    except ERRORS as error:
        if held is None or before is None:
            return "refused"  # by TensorFlow, before any op of ours
        if is_valid:
            return f"wrong: a right call failed: {error}"
        if isinstance(error, _OURS):
            return f"wrong: an error that blames the op: {error}"
        if _contents(held) != before:
            return f"wrong: written in spite of an error: {error}"
        return _kind(call, error)
    problem = _problem(call, result, is_valid)
    if problem:
        return problem
    if is_valid and call.op in random_calls.STEPS and not _all_finite(held):
        return "wrong: a right step made parameters that are not finite"
    return "right" if is_valid else "accepted"


def _kind(call, error):
    """Whether the error names an argument, or is TensorFlow's, in a word."""
    message = str(error)
    if not isinstance(error, tf.errors.OpError):
        return "refused"  # before any op runs
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return "no memory"
    names = (*call.arguments, *call.attributes, *_NAMED_BY_TENSORFLOW)
    if any(name in message for name in names):
        return "named"
    return f"wrong: an error that names no argument: {message}"


def _contents(held):
    values = [v for vs in held.values() for v in vs]
    values = [
        np.asarray(v.numpy()) for v in values if isinstance(v, tf.Variable)
    ]
    return [v.tolist() if v.dtype == object else v.tobytes() for v in values]


def _all_finite(held):
    values = [v for vs in held.values() for v in vs]
    return all(np.isfinite(v.numpy().astype(np.float64)).all() for v in values)


def _problem(call, result, is_valid):
    """What is wrong with the outputs of an op, or None."""
    outputs = result._asdict() if hasattr(result, "_asdict") else {"": result}
    for name, output in outputs.items():
        if not isinstance(output, tf.Tensor) or not output.shape.num_elements():
            continue
        if name == "state":
            continue  # Nobody but the gradient can look into it.
        values = output.numpy().astype(
            np.int64 if output.dtype.is_integer else np.float64
        )
        may_be_none = _may_be_none(call)
        is_right = np.isfinite(values) | (may_be_none & (values == -np.inf))
        if is_valid and not is_right.all():
            return f"wrong: a right call gave {name} = {values}"
        if name in ("classes", "best_class") or call.op == "sample":
            groups = call.arguments["group_offsets"][0].size - 1
            roots = [np.size(a) for a in call.arguments["root_groups"]] or [1]
            rows = len(call.arguments["weights"][0])
            rows *= 1 + call.attributes["pinned"]
            classes = rows - groups + roots[0]
            # Where probabilities are NaN, there is no class.
            least = 0 if is_valid and not may_be_none else -1
            if values.min() < least or values.max() >= classes:
                return f"wrong: classes that are none: {values}"
    return None


def _may_be_none(call):
    """Whether a class may be -1, of a log-probability of minus infinity."""
    if call.op == "class_log_probs":
        return bool(call.arguments["root_log_probs"])
    return any(call.arguments.get(n) for n in ("bounds", "allowed_ranks"))


def _try_in_graph(call):
    try:
        call.trace()
    except ERRORS:
        return "refused in a graph"
    return "accepted in a graph"
