"""What a trained head on several devices answers: log-probabilities, samples.

The top gives each unit its log-probability. A shard goes on from those of its
units, so that what it finds is of the whole tree.
"""

import tensorflow as tf

from tf_hsm.distribute.best_of_shards import best_classes
from tf_hsm.ops.log_probs import (
    hierarchical_softmax_log_prob,
    hierarchical_softmax_log_probs,
)
from tf_hsm.ops.sample import (
    checked_temperature,
    draw_of_best,
    draw_restricted,
    hierarchical_softmax_sample,
    seed_pair,
)
from tf_hsm.ops.top_k import TopK
from tf_hsm.partition import routing
from tf_hsm.runtime import arguments

# The classes that are looked for first where only their sum is known; then
# that many times more.
_FIRST_CLASSES = 64
_MORE_CLASSES = 4


def log_probs(rows, inputs, nodes=False):
    """As `hierarchical_softmax_log_probs`, on `ShardedRows`."""
    of_nodes = rows.top_log_probs(inputs, nodes=True)
    starts = tf.gather(of_nodes, rows.plan._layout.top.class_rows, axis=-1)
    values = [of_nodes if nodes else starts[..., rows.top.units]]
    for part in rows.shards:
        with tf.device(part.device):
            values.append(
                hierarchical_softmax_log_probs(
                    part.weights,
                    part.biases,
                    inputs,
                    part.tree,
                    nodes,
                    root_log_probs=starts[..., part.units],
                )
            )
    return tf.gather(tf.concat(values, -1), rows.order(nodes), axis=-1)


def log_prob(rows, classes, inputs):
    """As `hierarchical_softmax_log_prob`, on `ShardedRows`."""
    classes = arguments.integers(classes, "classes")
    shape = tf.shape(classes)
    classes = tf.reshape(classes, [-1, shape[-1]])
    inputs = rows.flat(inputs, shape[:-1], "classes")
    starts = rows.top_log_probs(inputs)
    places, units = rows.find(classes, "classes")
    result = tf.gather(starts, units, batch_dims=1)
    for part in rows.shards:
        begin, end = part.places.start, part.places.stop
        route = routing.route((places >= begin) & (places < end))
        local = route.own(route.take(places) - begin, -1)
        with tf.device(part.device):
            found = hierarchical_softmax_log_prob(
                part.weights,
                part.biases,
                local,
                route.take(inputs),
                part.tree,
                root_log_probs=route.take(starts[:, part.units]),
            )
        result = route.replace(result, found)
    return tf.reshape(result, shape)


def sample(
    rows,
    inputs,
    num_samples,
    seed=None,
    temperature=1.0,
    top_k=None,
    top_p=None,
):
    """As `hierarchical_softmax_sample`, on `ShardedRows`.

    Other classes are drawn for a seed than by a head on one device.
    """
    shape = tf.shape(inputs)[:-1]
    inputs = rows.flat(inputs, shape, "inputs")
    seeds = tf.unstack(tf.random.split(seed_pair(seed), len(rows.shards) + 2))
    num_samples = tf.saturate_cast(num_samples, tf.int32)

    def of_best(k):
        if k is None:
            best = _reach(rows, inputs, top_p)
        else:
            best = TopK(*best_classes(rows, inputs, k)[:2])
        return draw_of_best(best, num_samples, seeds[0], temperature, top_p)

    def of_all():
        # There may be no shard whose op checks it.
        checked = checked_temperature(temperature)
        return _draw(rows, inputs, num_samples, seeds, checked)

    classes = draw_restricted(
        rows.plan.tree.num_classes, top_k, top_p, of_best, of_all
    )
    return tf.reshape(classes, tf.concat([shape, [num_samples]], 0))


def _draw(rows, inputs, num_samples, seeds, temperature):
    """Draws a part, and then within that; `[B, num_samples]` classes."""
    starts = rows.top_log_probs(inputs, temperature=temperature)
    masses = [
        tf.reduce_logsumexp(starts[:, part.units], -1) for part in rows.parts
    ]
    chosen = _categorical(tf.stack(masses, -1), num_samples, seeds[0])
    result = tf.fill(tf.shape(chosen), tf.constant(-1, tf.int64))
    if rows.plan._layout.num_leaf_units:
        drawn = _categorical(starts[:, rows.top.units], num_samples, seeds[1])
        drawn = tf.gather(rows.classes_of(rows.top), tf.maximum(drawn, 0))
        result = tf.where(chosen == 0, drawn, result)
    routes = routing.routes(chosen, len(rows.shards), first=1)
    for part, route, seed in zip(rows.shards, routes, seeds[2:], strict=True):
        with tf.device(part.device):
            drawn = hierarchical_softmax_sample(
                part.weights,
                part.biases,
                route.take(inputs),
                part.tree,
                num_samples,
                seed,
                temperature,
                root_log_probs=route.take(starts[:, part.units]),
            )
            found = tf.gather(rows.classes_of(part), tf.maximum(drawn, 0))
            drawn = tf.where(drawn < 0, drawn, found)
        result = route.replace(result, drawn)
    return result


def _reach(rows, inputs, top_p):
    """As many of the best classes as are needed for a sum of `top_p`."""
    most = tf.constant(rows.plan.tree.num_classes, tf.int64)

    def find(k, log_probs, classes):
        del log_probs, classes
        log_probs, classes, _ = best_classes(rows, inputs, k)
        return tf.minimum(k * _MORE_CLASSES, most), log_probs, classes

    def is_short(k, log_probs, classes):
        del k
        sums = tf.reduce_sum(tf.exp(tf.cast(log_probs, tf.float64)), -1)
        reached = tf.reduce_all(~(sums < tf.cast(top_p, tf.float64)))
        return ~reached & (tf.size(classes[:1], tf.int64) < most)

    state = find(tf.minimum(tf.constant(_FIRST_CLASSES, tf.int64), most), 0, 0)
    free = tf.TensorShape([None, None])
    _, *best = tf.while_loop(
        is_short, find, state, (tf.TensorShape([]), free, free)
    )
    return TopK(*best)


def _categorical(log_probs, num_samples, seed):
    """Draws `[B, num_samples]` by log-probabilities `[B, n]` up to a constant.

    Minus infinity and NaN stand for no probability; -1 is drawn where there is
    no other.
    """
    none = tf.constant(-float("inf"), log_probs.dtype)
    log_probs = tf.where(tf.math.is_nan(log_probs), none, log_probs)
    drawn = tf.random.stateless_categorical(log_probs, num_samples, seed)
    any_ = tf.reduce_any(log_probs > none, -1, keepdims=True)
    return tf.where(any_, drawn, tf.constant(-1, tf.int64))
