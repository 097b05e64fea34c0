"""Formulas of attention layers as Keras runs them: scores in memory."""

from tf_hsm.estimation.body.layer_part import (
    NO_WORK,
    Formula,
    elementwise,
    product,
)

# Tensors of the scores `[batch, heads, queries, keys]` that are kept, and that
# there are beside them for a moment; they fit
# what `//benchmarks:estimate` of commit a1d0e13d measured.
_KEPT, _MOMENT = 3, 2


def multi_head(layer, shapes, setting):
    """Vaswani et al. (2017)."""
    config = layer.get_config()
    return _attention(
        shapes,
        setting,
        heads=config["num_heads"],
        groups=config["num_heads"],
        key_width=config["key_dim"],
        value_width=config["value_dim"] or config["key_dim"],
        width=config["output_shape"] or shapes[0][-1],
        dropout=config["dropout"],
    )


def grouped_query(layer, shapes, setting):
    """Ainslie et al. (2023): heads share keys and values."""
    return _attention(
        shapes,
        setting,
        heads=layer.num_query_heads,
        groups=layer.num_key_value_heads,
        key_width=layer.head_dim,
        value_width=layer.head_dim,
        width=shapes[0][-1],
        dropout=layer.dropout,
    )


def _attention(
    shapes, setting, heads, groups, key_width, value_width, width, dropout
):
    queries, values = shapes[0], shapes[1] if len(shapes) > 1 else shapes[0]
    keys = shapes[2] if len(shapes) > 2 else values
    size, batch = setting.compute_itemsize, queries[0]
    asked, given = batch * queries[1], batch * values[1]
    if not isinstance(width, int):
        (width,) = width
    # Projections of queries, keys, values and of what comes out.
    projections = [
        (asked, heads * key_width, queries[-1]),
        (given, groups * key_width, keys[-1]),
        (given, groups * value_width, values[-1]),
        (asked, width, heads * value_width),
    ]
    forward = backward = NO_WORK
    for m, n, k in projections:
        ways = product(m, n, k, size, more=elementwise(m * n, size))
        forward, backward = forward + ways[0], backward + ways[1]
    scores = batch * heads * queries[1] * values[1]
    # All scores are computed, those that a causal mask hides too.
    soft = elementwise(scores, size, 8, 12, 8)
    for n, k in ((values[1], key_width), (value_width, values[1])):
        ways = product(queries[1], n, k, size, batch * heads)
        # One kernel takes all heads of all sequences.
        forward += ways[0]._replace(ops=1)
        backward += ways[1]._replace(ops=2)
    forward += soft._replace(softmax=scores)
    backward += soft.times(2)
    # Queries, keys, values, scaled queries; copies for heads that share; what
    # the heads give, and the output.
    copies = heads // groups > 1
    numbers = asked * (2 * heads * key_width + heads * value_width + width)
    numbers += given * groups * (key_width + value_width)
    numbers += copies * given * heads * (key_width + value_width)
    return Formula(
        (*queries[:-1], width),
        saved=size * (numbers + (_KEPT + 2 * bool(dropout)) * scores),
        tensor_bytes=size * scores,
        forward_bytes=size * _MOMENT * scores,
        backward_bytes=size * (_MOMENT * scores + 3 * asked * width),
        forward=forward,
        backward=backward,
    )
