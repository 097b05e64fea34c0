"""Conversion of users' arguments to what the ops take."""

import math
import numbers

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.runtime.quantized_rows import QuantizedRows
from tf_hsm.runtime.variables import handle_of, variable_of


def parameter(value, dtype=None):
    """Returns the variable behind a value, or the value as a tensor.

    A list of numbers becomes a tensor of the type `dtype`.
    """
    variable = variable_of(value)
    if variable is not None:
        return variable
    return tf.convert_to_tensor(
        value, None if hasattr(value, "dtype") else dtype
    )


def parameters(weights, biases):
    """Returns weights and biases, if not None, as the ops take them.

    Returns:
      A list: handles of variables, of which tapes are told, and tensors. And
      the `tf.DType` of the weights.
    """
    dtype = weights_dtype(weights)
    weights = parameter(weights)
    values = (
        [weights] if biases is None else [weights, parameter(biases, dtype)]
    )
    if variable_of(weights) is None:
        # Beside weights that are a tensor, biases are one too: they are small.
        return [tf.convert_to_tensor(v) for v in values], dtype
    return [handle_of(v) for v in values], dtype


def weights_dtype(weights):
    """The `tf.DType` of the numbers of weights, as users pass them."""
    if isinstance(weights, QuantizedRows):
        return weights.dtype
    return dtype_of(parameter(weights))


def dtype_of(parameter):
    """The `tf.DType` of a variable or a tensor."""
    return tf.as_dtype(parameter.dtype).base_dtype


def accumulator(dtype):
    """The type in which products of `dtype` are summed."""
    return tf.float64 if dtype == tf.float64 else tf.float32


def integers(labels, name="labels"):
    """Labels, or what `name` says, as int32 or int64.

    Those that pass the end of int64 become 2**63 - 1, which is no class.

    Raises:
      TypeError: they are not integers, or not dense.
    """
    labels = dense(name, labels)
    if labels.dtype in (tf.int32, tf.int64):
        return labels
    check_integers(labels, name)
    wide = tf.cast(labels, tf.int64)
    if labels.dtype == tf.uint64:
        # A cast makes negative numbers of them: an ignore_class, perhaps.
        wide = tf.where(wide < 0, tf.int64.max, wide)
    return wide


def check_integers(values, name):
    """Raises a TypeError unless values, which `name` says, are integers."""
    dtype = tf.as_dtype(values.dtype)
    if not dtype.is_integer:
        raise TypeError(
            f"{name} must be integers, but are {dtype.name}; as an input of a "
            'model, make them a keras.Input(..., dtype="int64")'
        )


def dense(name, values):
    """Returns values as a dense tensor.

    Args:
      name: of the argument.
      values: what users pass as an array.

    Raises:
      TypeError: they are ragged or sparse; says what to do.
    """
    if isinstance(values, tf.RaggedTensor):
        raise TypeError(
            f"{name} must be dense here, but are a tf.RaggedTensor: pad them, "
            f"{name}.to_tensor(-1), and give the head ignore_class=-1, which "
            "leaves the padding out"
            if name == "labels"
            else f"{name} must be dense, but are a tf.RaggedTensor: pad them "
            f"by {name}.to_tensor()"
        )
    if isinstance(values, tf.SparseTensor) or hasattr(values, "tocsr"):
        if name == "labels":
            instead = (
                f"for several labels of each input, tf_hsm.label_lists({name}) "
                "makes lists of a sparse multi-hot matrix"
            )
        elif isinstance(values, tf.SparseTensor):
            instead = f"give tf.sparse.to_dense({name})"
        else:
            instead = f"give {name}.toarray()"
        raise TypeError(
            f"{name} must be dense, but are a {type(values).__name__}: "
            f"{instead}"
        )
    return tf.convert_to_tensor(values)


def padded_integers(ragged, name="labels", padding=-1):
    """Ragged labels, or what `name` says, as a tensor with `padding`.

    Raises:
      TypeError: they are not integers.
    """
    # Widened first: in uint8, -1 is a class.
    ragged = ragged.with_flat_values(integers(ragged.flat_values, name))
    return ragged.to_tensor(tf.constant(padding, ragged.dtype))


def ignored_labels(ignore_class):
    """The list that an `ignore_class` stands for: an integer, several, or None.

    Raises:
      TypeError: one is no integer.
    """
    if ignore_class is None:
        return []
    if not isinstance(ignore_class, (list, tuple)):
        ignore_class = [ignore_class]
    return [_checks.as_integer("ignore_class", c) for c in ignore_class]


def counted(labels, ignore_class):
    """Returns which labels are not ignored, `[...]` bool; None for all."""
    counts = None
    for label in ignored_labels(ignore_class):
        kept = tf.not_equal(labels, label)
        counts = kept if counts is None else counts & kept
    return counts


def in_range(numbers, count, name, counted=None):
    """Returns which numbers are to be used, bool, and checks them.

    Args:
      numbers: classes or other ids, int64, of any shape.
      count: how many ids there are.
      name: of the argument, for the error.
      counted: None; or bool, of the same shape: others may be any number, and
        are not used.

    Raises:
      tf.errors.InvalidArgumentError: one is not in [0, count).
    """
    is_right = (numbers >= 0) & (numbers < count)
    wrong = ~is_right if counted is None else counted & ~is_right
    place = tf.where(tf.reshape(wrong, [-1]))[:1, 0]
    position, number = (
        tf.strings.reduce_join(tf.strings.as_string(x))
        for x in (place, tf.gather(tf.reshape(numbers, [-1]), place))
    )
    message = tf.strings.join(
        [f"{name}[", position, "] = ", number, f" is outside [0, {count})"]
    )
    asserted = tf.debugging.Assert(~tf.reduce_any(wrong), [message])
    used = is_right if counted is None else is_right & counted
    return checked(used, asserted)


def checked(value, assertion):
    """Returns a tensor whose use is an error where an assertion fails.

    Args:
      value: the tensor.
      assertion: what `tf.debugging` returns, None where it holds already; or a
        tensor that needs an assertion.
    """
    with tf.control_dependencies([] if assertion is None else [assertion]):
        return tf.identity(value)


def floats(inputs, dtype):
    """Hidden vectors as a tensor: lists of floats take the type `dtype`.

    Raises:
      TypeError: they are not floats, or not dense.
    """
    if not tf.is_tensor(inputs) and not hasattr(inputs, "dtype"):
        leaves = tf.nest.flatten(inputs)
        if not leaves or any(map(_is_float, leaves)):
            return tf.convert_to_tensor(inputs, dtype)
    inputs = dense("inputs", inputs)
    check_floats(inputs)
    return inputs


def check_floats(inputs):
    """Raises a TypeError unless hidden vectors are floats.

    A cast would let ids pass as hidden vectors.
    """
    dtype = tf.as_dtype(inputs.dtype)
    if not dtype.is_floating:
        raise TypeError(
            f"inputs must be floats, but are {dtype.name}: a head takes hidden "
            "vectors [..., width], not ids. Look ids up in an Embedding layer, "
            "or use tf_hsm.layers.EmbeddingSoftmax, whose losses take what "
            "head(ids) returns; convert numbers by tf.cast(inputs, tf.float32)"
        )


def _is_float(value):
    if hasattr(value, "dtype"):
        return tf.as_dtype(value.dtype).is_floating
    return isinstance(value, float)


def of_width(inputs, width):
    """Returns inputs `[..., width]`; an error if they are of another width.

    For where the op cannot tell: codes of 4 bits lie two in a byte, and parts
    of a head get inputs `[B, width]`.
    """
    inputs = tf.convert_to_tensor(inputs)
    if inputs.shape.rank is None:
        is_right = tf.debugging.assert_equal(
            tf.shape(inputs)[-1],
            width,
            f"inputs must have the shape [..., {width}]",
        )
        return checked(inputs, is_right)
    if inputs.shape.rank and inputs.shape[-1] not in (None, width):
        raise ValueError(
            f"inputs must have the shape [..., {width}], the width of weights "
            f"last, but have {inputs.shape}"
        )
    return tf.ensure_shape(inputs, [*inputs.shape[:-1], width])


def flat_inputs(inputs, width, shape, name):
    """Inputs `[..., width]` as `[B, width]`.

    Args:
      inputs: a tensor.
      width: an integer.
      shape: `[...]`, of an argument with one number for each input.
      name: of that argument.

    Raises:
      tf.errors.InvalidArgumentError: the inputs have another shape.
    """
    assertion = tf.debugging.assert_equal(
        shape,
        tf.shape(inputs)[:-1],
        f"{name} must have the shape of inputs but for its last dimension",
    )
    return tf.reshape(checked(inputs, assertion), [-1, width])


def scalar(name, value, dtype):
    """A number as a scalar of `dtype`: Python's floats keep all their digits.

    Raises:
      TypeError: it is no number, or no integer where `dtype` is of integers.
    """
    is_tensor = tf.is_tensor(value)
    given = tf.as_dtype(value.dtype if is_tensor else np.asarray(value).dtype)
    # TensorFlow would round the floats of NumPy and of tensors.
    if not (given.is_integer or (given.is_floating and dtype.is_floating)):
        raise TypeError(
            f"{name} must be of the type {dtype.name}, but is {value!r}"
        )
    return tf.cast(value, dtype) if is_tensor else tf.constant(value, dtype)


def broadcast(name, values, shape):
    """A tensor broadcast to a shape.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): that
        is not possible.
    """
    try:
        return tf.broadcast_to(values, shape)
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        wanted = tf.get_static_value(shape, partial=True)
        if wanted is not None:
            wanted = [None if n is None else int(n) for n in wanted]
        message = (
            f"{name} must broadcast to the shape {wanted}, but has the shape "
            f"{list(values.shape)}"
        )
        if isinstance(error, ValueError):
            raise ValueError(message) from error
        raise tf.errors.InvalidArgumentError(None, None, message) from error


def flat_bounds(bounds, shape, dtype):
    """The bounds of a top-k for inputs `[..., width]`, as `[B]`.

    Args:
      bounds: `[...]`, NaN for minus infinity; or None, for that too.
      shape: of the inputs but for the last dimension.
      dtype: of the result.

    Raises:
      tf.errors.InvalidArgumentError: `bounds` have another shape.
    """
    none = tf.constant(-float("inf"), dtype)
    shape = tf.convert_to_tensor(shape, tf.int32)
    if bounds is None:
        return tf.fill([tf.reduce_prod(shape)], none)
    bounds = tf.cast(bounds, dtype)
    assertion = tf.debugging.assert_equal(
        tf.shape(bounds),
        shape,
        "bounds must have the shape of inputs but for its last dimension",
    )
    flat = tf.reshape(checked(bounds, assertion), [-1])
    return tf.where(tf.math.is_nan(flat), none, flat)


def bounds_of(threshold, bounds, inputs):
    """The bounds of a top-k that a threshold, a probability, stands for.

    Args:
      threshold: broadcast to `[...]`; or None.
      bounds: bounds `[...]` in nats, which a caller gives instead; or None.
      inputs: `[..., width]`.

    Raises:
      ValueError: the threshold is NaN, or both are given.
    """
    if threshold is None:
        return bounds
    if bounds is not None:
        raise ValueError(
            "threshold and bounds are both given; bounds are the logarithms of "
            "thresholds, so leave out one of them"
        )
    threshold = tf.cast(tf.convert_to_tensor(threshold), tf.float64)
    threshold = check_number(
        threshold,
        ~tf.reduce_any(tf.math.is_nan(threshold)),
        "threshold = {} must not be NaN",
    )
    shape = tf.shape(tf.convert_to_tensor(inputs))[:-1]
    return broadcast("threshold", tf.math.log(threshold), shape)


def count_or_zero(name, count):
    """A positive number as an int64 scalar; None as 0, which ops take for it.

    Raises:
      ValueError: the number is below 1.
      TypeError: it is no integer.
    """
    if count is None:
        return tf.constant(0, tf.int64)
    result = scalar(name, count, tf.int64)
    if not tf.is_tensor(count) and count < 1:
        raise ValueError(f"{name} = {count} is below 1")
    return result


def share(name, value):
    """A number in [0, 1] as a float of Python.

    Raises:
      ValueError: it is not in that range.
      TypeError: it is no number.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be a number in [0, 1], but is {value!r}"
        ) from None
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must be in [0, 1], but is {number}")
    return number


def check_combiner(combiner):
    """Raises a ValueError unless bags can be combined so."""
    if combiner not in ("mean", "sum"):
        raise ValueError(
            f"combiner must be 'mean' or 'sum', but is {combiner!r}"
        )


def smoothing_prior(prior):
    """A prior of label smoothing, or None, as the ops take it."""
    return [] if prior is None else [tf.cast(prior, tf.float32)]


def soft_cap(value):
    """A soft cap of logits as the ops take it; 0 for None.

    Raises:
      ValueError: it is neither None nor a positive finite number.
    """
    if value is None:
        return 0.0
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_real or not 0 < value < math.inf:
        raise ValueError(
            f"logit_soft_cap is {value!r}; it must be a positive number or None"
        )
    return float(value)


def check_number(number, is_right, message):
    """Returns a number, or a scalar whose use is an error unless it is right.

    Args:
      number: a number of Python or NumPy, or a tensor.
      is_right: a bool, a scalar tensor if the number is a tensor.
      message: of the error, with {} for the number.

    Raises:
      ValueError: a number is wrong. (A tensor is a
        tf.errors.InvalidArgumentError, later perhaps.)
    """
    if not tf.is_tensor(number):
        if not is_right:
            raise ValueError(message.format(number))
        return number
    before, after = message.split("{}")
    asserted = tf.debugging.Assert(is_right, [before, number, after])
    return checked(number, asserted)
