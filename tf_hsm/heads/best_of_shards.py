"""The most probable classes of a head on several devices.

A unit is at least as probable as any class below it. Each input is first looked
up in the shard of its most probable unit. The k-th best log-probability of what
is found there, and among the classes of the top, is a bound: the input then
goes to those shards alone that have a unit of at least the bound, and these
look for nothing below it.
"""

import tensorflow as tf

from tf_hsm.ops.top_k import BeamTopK
from tf_hsm.partition import routing


def best_classes(head, inputs, k, mask, least, beam_width):
    """Returns what `ShardedHead.search` does."""
    starts = head.top_log_probs(inputs)
    best = _of_top(head, starts, k, mask)
    if head.parts:
        best = _of_shards(
            head, inputs, starts, best, k, mask, least, beam_width
        )
    return best if least is None else _of_least(best, least)


def _of_shards(head, inputs, starts, best, k, mask, least, beam_width):
    """The best of what the top has, and of what the shards have."""
    none = tf.constant(-float("inf"), starts.dtype)
    known = tf.where(tf.math.is_nan(starts), none, starts)
    home = tf.stack(
        [tf.reduce_max(known[:, part.units], -1) for part in head.parts], -1
    )
    if mask is not None:
        may_have = tf.stack([mask.any_in(p.places) for p in head.parts], -1)
        home = tf.where(may_have, home, none)
    at_home = tf.argmax(home, -1, tf.int32)

    def search(routes, bounds):
        return _search(
            head, routes, inputs, starts, k, mask, bounds, beam_width
        )

    routes = list(routing.routes(at_home, len(head.parts)))
    found = _joined(search(routes, least), routes, tf.size(at_home))
    best = _merge([best, found], k)
    bounds = best.log_probs[:, -1]
    bounds = tf.where(tf.math.is_nan(bounds), none, bounds)
    if least is not None:
        bounds = tf.maximum(bounds, least)
    routes = [
        routing.route((at_home != i) & (home[:, i] >= bounds))
        for i in range(len(head.parts))
    ]
    others = [
        _joined([of_shard], [route], tf.size(bounds))
        for of_shard, route in zip(search(routes, bounds), routes, strict=True)
    ]
    return _merge([best, *others], k)


def _of_least(found, least):
    """Without the classes below `least` `[B]`, which the top may have."""
    is_wanted = found.log_probs >= least[:, tf.newaxis]
    return found._replace(
        log_probs=tf.where(is_wanted, found.log_probs, -float("inf")),
        classes=tf.where(is_wanted, found.classes, -1),
    )


def _of_top(head, starts, k, mask):
    """The best of those units that are classes; `[B, k]` and padding."""
    classes = head.classes_of(head.top)
    order = tf.argsort(classes, stable=True)
    log_probs = starts[:, head.top.units]
    is_allowed = tf.ones_like(log_probs, tf.bool)
    if mask is not None:
        places = tf.range(head.top.places.stop, dtype=tf.int64)
        is_allowed &= mask.contain(places)
        log_probs = tf.where(is_allowed, log_probs, -float("inf"))
    log_probs = tf.gather(log_probs, order, axis=-1)
    is_allowed = tf.gather(is_allowed, order, axis=-1)
    is_class = is_allowed & ~tf.math.is_nan(log_probs)
    classes = tf.where(is_class, tf.gather(classes, order), -1)
    pruned = tf.zeros(tf.shape(starts)[:1], tf.int64)
    return _merge([BeamTopK(log_probs, classes, pruned)], k)


def _search(head, routes, inputs, starts, k, mask, bounds, beam_width):
    """Returns the findings of each shard for the examples of its route, a list.

    Each is `[b, k]`, with padding. The arguments are for all examples.
    """

    def search(part, inputs, starts, bounds, allowed):
        found = part.head.top_k(
            inputs,
            tf.minimum(tf.cast(k, tf.int64), part.head.num_classes),
            beam_width=beam_width,
            return_pruned=True,
            root_log_probs=starts,
            bounds=bounds,
            allowed=allowed,
        )
        classes = head.numbered(part, found.classes)
        return _padded(found._replace(classes=classes), k)

    nothing = BeamTopK(
        tf.zeros([0, k], starts.dtype),
        tf.zeros([0, k], tf.int64),
        tf.zeros([0], tf.int64),
    )
    lists = None
    if mask is not None:
        lists = [
            mask.of_part(part.places, route)
            for part, route in zip(head.parts, routes, strict=True)
        ]
    if bounds is not None:
        bounds = [route.take(bounds) for route in routes]
    return head.ask(search, routes, inputs, starts, [bounds, lists], nothing)


def _padded(found, k):
    """The classes and log-probabilities `[b, k]` of at most k found ones."""
    missing = tf.cast(k, tf.int32) - tf.shape(found.classes)[-1]
    padding = [[0, 0], [0, tf.maximum(missing, 0)]]
    log_probs = tf.pad(found.log_probs, padding, constant_values=-float("inf"))
    classes = tf.pad(found.classes, padding, constant_values=-1)
    if not tf.is_tensor(k):
        log_probs.set_shape([None, k])
        classes.set_shape([None, k])
    return found._replace(log_probs=log_probs, classes=classes)


def _joined(found, routes, count):
    """Spreads the findings for the examples of some routes over all `count`."""

    def joined(values, rest):
        shape = tf.concat([[count], tf.shape(values[0])[1:]], 0)
        result = tf.fill(shape, tf.constant(rest, values[0].dtype))
        for route, of_route in zip(routes, values, strict=True):
            result = route.replace(result, of_route)
        return result

    columns = zip(*found, strict=True)
    return BeamTopK(*map(joined, columns, (-float("inf"), -1, 0)))


def _merge(found, k):
    """The best k of several lists for each input, equal ones by class."""
    log_probs = tf.concat([f.log_probs for f in found], -1)
    classes = tf.concat([f.classes for f in found], -1)
    # What is missing comes last.
    keys = tf.where(classes < 0, tf.constant(tf.int64.max, tf.int64), classes)
    order = tf.argsort(keys, stable=True)
    log_probs = tf.gather(log_probs, order, batch_dims=1)
    classes = tf.gather(classes, order, batch_dims=1)
    none = tf.constant(-float("inf"), log_probs.dtype)
    keys = tf.where(tf.math.is_nan(log_probs), none, log_probs)
    most = tf.minimum(tf.cast(k, tf.int32), tf.shape(keys)[-1])
    order = tf.math.top_k(keys, most).indices
    best = BeamTopK(
        tf.gather(log_probs, order, batch_dims=1),
        tf.gather(classes, order, batch_dims=1),
        tf.add_n([f.num_pruned for f in found]),
    )
    return _padded(best, k)
