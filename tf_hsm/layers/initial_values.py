"""Random initial values of the rows of a large table."""

import math

import keras
import tensorflow as tf

# A table of more bytes is filled by blocks of rows of so many.
MOST_AT_ONCE = 256 << 20
BLOCK_BYTES = 64 << 20

# Initializers that draw each number independently.
_INDEPENDENT = (
    keras.initializers.RandomNormal,
    keras.initializers.RandomUniform,
    keras.initializers.TruncatedNormal,
    keras.initializers.VarianceScaling,
)
_SIZES = {
    "fan_in": lambda rows, width: rows,
    "fan_out": lambda rows, width: width,
    "fan_avg": lambda rows, width: (rows + width) / 2,
}


def by_blocks(initializer):
    """An initializer that fills a large table block by block.

    Keras' own have three tensors of the size of the table at a time, which is
    36 GB for 10 million classes x 300. The blocks have other values than each
    other, of the scale of the whole. An initializer whose numbers depend on
    each other, or that is not Keras', is returned as it is.
    """
    module, _, _ = type(initializer).__module__.partition(".")
    is_keras = module == "keras" and isinstance(initializer, _INDEPENDENT)
    if not is_keras or not _is_random(initializer):
        return initializer

    def fill(shape, dtype=None):
        dtype = keras.backend.standardize_dtype(dtype or keras.config.floatx())
        row_bytes = math.prod(shape[1:]) * tf.as_dtype(dtype).size
        if shape[0] * row_bytes <= MOST_AT_ONCE:
            return initializer(shape, dtype=dtype)
        table = tf.raw_ops.Empty(shape=shape, dtype=dtype)
        rows = max(BLOCK_BYTES // row_bytes, 1)
        for number, begin in enumerate(range(0, shape[0], rows)):
            end = min(begin + rows, shape[0])
            block = of_part(
                initializer, end - begin, shape[1], shape[0], number
            )
            # Writes into its argument.
            table = tf.raw_ops.InplaceUpdate(
                x=table,
                i=tf.range(begin, end),
                v=block((end - begin, *shape[1:]), dtype=dtype),
            )
        return table

    return fill


def of_pairs(initializer, rows, width):
    """An initializer for the differences of the pairs of `[2 rows, width]`.

    These are the weights of a pinned tree. A difference of two independent
    numbers has sqrt(2) times their standard deviation, and so have these, about
    the same mean. An initializer that is not random is taken as it is.
    """
    if not isinstance(initializer, _INDEPENDENT):
        return initializer
    if isinstance(initializer, keras.initializers.VarianceScaling):
        ratio = _ratio(initializer, rows, width, 2 * rows)
        return _scaled(initializer, 2 * ratio, initializer.seed)
    config = initializer.get_config()
    if isinstance(initializer, keras.initializers.RandomUniform):
        low, high = config["minval"], config["maxval"]
        reach = (high - low) / 2 * math.sqrt(2)
        middle = (high + low) / 2
        config |= {"minval": middle - reach, "maxval": middle + reach}
    else:
        config["stddev"] *= math.sqrt(2)
    return type(initializer).from_config(config)


def of_part(initializer, rows, width, total_rows, number):
    """An initializer for `[rows, width]` of `[total_rows, width]`.

    One that is not random, or more than a scale that depends on the shape, is
    taken for the part as it is.
    """
    if not _is_random(initializer):
        return initializer
    seed = initializer.seed + number
    if not isinstance(initializer, keras.initializers.VarianceScaling):
        return type(initializer).from_config(
            {**initializer.get_config(), "seed": seed}
        )
    ratio = _ratio(initializer, rows, width, total_rows)
    return _scaled(initializer, ratio, seed)


def of_number(initializer, number):
    """A copy of an initializer that draws other numbers for each `number`.

    An initializer of Keras draws the same numbers at each call. A copy of one
    that has no seed draws new numbers; with a seed, the numbers follow from the
    seed and `number`.
    """
    clone = getattr(initializer, "clone", None)
    copy = clone() if clone else initializer
    config = initializer.get_config() if _is_random(initializer) else {}
    if not number or not isinstance(config.get("seed"), int):
        return copy
    # Blocks and parts of a table take the next seeds.
    seed = (config["seed"] + (number << 20)) % 2**31
    return type(initializer).from_config({**config, "seed": seed})


def _ratio(initializer, rows, width, total_rows):
    """The variance in `[total_rows, width]` over that in `[rows, width]`."""
    size = _SIZES[initializer.mode]
    return max(1, size(rows, width)) / max(1, size(total_rows, width))


def _scaled(initializer, factor, seed):
    """A `VarianceScaling` of so many times the variance."""
    return keras.initializers.VarianceScaling(
        initializer.scale * factor,
        initializer.mode,
        initializer.distribution,
        seed,
    )


def _is_random(initializer):
    return isinstance(getattr(initializer, "seed", None), int)
