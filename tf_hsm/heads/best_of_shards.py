"""The most probable classes of a head on several devices.

A unit is at least as probable as any class below it. Each input is first looked
up in the shard of its most probable unit. The k-th best log-probability of what
is found there, and among the classes of the top, is a bound: the input then
goes to those shards alone that have a unit of at least the bound, and these
look for nothing below it.
"""

import tensorflow as tf

from tf_hsm.heads.part_calls import ask_parts, asks_other_processes
from tf_hsm.heads.sharded_rows import Routes
from tf_hsm.ops.top_k import BeamTopK
from tf_hsm.partition import routing
from tf_hsm.runtime import arguments


def best_classes(rows, inputs, k, *, beam_width=None, least=None, mask=None):
    """Computes `hierarchical_softmax_top_k` on `ShardedRows`.

    Args:
      rows: the `ShardedRows`.
      inputs: `[B, width]`.
      k: an integer or a scalar.
      beam_width: of each shard's search; or None.
      least: `[B]`, the log-probabilities that are wanted at least; or None.
      mask: the `AllowedPlaces` of the classes that may be found; or None.

    Returns:
      A `BeamTopK`. Where fewer than k classes have a positive probability,
      class -1 may stand for the others.

    Raises:
      ValueError: k is out of range (tf.errors.InvalidArgumentError where it is
        a tensor).
    """
    last = rows.plan.tree.num_classes
    k = arguments.check_number(
        k,
        (k >= 1) & (k <= last),
        f"k = {{}} is outside [1, {last}]; the upper end is the number of "
        "classes",
    )
    if mask is not None and asks_other_processes(rows.owners):
        mask = mask.for_each(tf.shape(inputs)[0])
    starts = rows.top_log_probs(inputs)
    best = _of_top(rows, starts, k, mask)
    if not rows.shards:
        return best if least is None else _of_least(best, least)
    none = tf.constant(-float("inf"), starts.dtype)
    known = tf.where(tf.math.is_nan(starts), none, starts)
    home = tf.stack(
        [tf.reduce_max(known[:, part.units], -1) for part in rows.shards], -1
    )
    if mask is not None:
        may_have = tf.stack([mask.any_in(*_ends(p)) for p in rows.shards], -1)
        home = tf.where(may_have, home, none)
    at_home = tf.argmax(home, -1, tf.int32)
    routes = Routes(at_home + 1, len(rows.shards))
    lists = None
    if mask is not None:
        lists = [
            mask.of_part(*_ends(part), routing.route(tf.equal(at_home, i)))
            for i, part in enumerate(rows.shards)
        ]
    found = _search(
        rows,
        routes.split(inputs),
        routes.split(starts),
        k,
        beam_width,
        None if least is None else routes.split(least),
        lists,
    )
    rest = BeamTopK(-float("inf"), -1, 0)
    joined = BeamTopK(*map(routes.join, zip(*found, strict=True), rest))
    best = _merge([best, joined], k)
    bounds = best.log_probs[:, -1]
    bounds = tf.where(tf.math.is_nan(bounds), none, bounds)
    if least is not None:
        bounds = tf.maximum(bounds, least)
    routes = [
        routing.route((at_home != i) & (home[:, i] >= bounds))
        for i in range(len(rows.shards))
    ]
    if mask is not None:
        lists = [
            mask.of_part(*_ends(part), route)
            for part, route in zip(rows.shards, routes, strict=True)
        ]
    found = _search(
        rows,
        [route.take(inputs) for route in routes],
        [route.take(starts) for route in routes],
        k,
        beam_width,
        [route.take(bounds) for route in routes],
        lists,
    )
    others = [
        _spread(of_shard, route, tf.size(bounds))
        for of_shard, route in zip(found, routes, strict=True)
    ]
    best = _merge([best, *others], k)
    return best if least is None else _of_least(best, least)


def _of_least(found, least):
    """Without the classes below `least` `[B]`, which the top may have."""
    is_wanted = found.log_probs >= least[:, tf.newaxis]
    return found._replace(
        log_probs=tf.where(is_wanted, found.log_probs, -float("inf")),
        classes=tf.where(is_wanted, found.classes, -1),
    )


def _ends(part):
    """The first place of a part, and one past its last."""
    return part.places.start, part.places.stop


def _of_top(rows, starts, k, mask):
    """The best of those units that are classes; `[B, k]` and padding."""
    classes = rows.classes_of(rows.top)
    order = tf.argsort(classes, stable=True)
    log_probs = starts[:, rows.top.units]
    is_allowed = tf.ones_like(log_probs, tf.bool)
    if mask is not None:
        is_allowed &= mask.contain(tf.range(*_ends(rows.top), dtype=tf.int64))
        log_probs = tf.where(is_allowed, log_probs, -float("inf"))
    log_probs = tf.gather(log_probs, order, axis=-1)
    is_allowed = tf.gather(is_allowed, order, axis=-1)
    classes = tf.where(is_allowed, tf.gather(classes, order), -1)
    pruned = tf.zeros(tf.shape(starts)[:1], tf.int64)
    return _merge([BeamTopK(log_probs, classes, pruned)], k)


def _search(rows, inputs, starts, k, beam_width, bounds, allowed):
    """Returns the findings of each shard: `[b, k]` and padding, a list.

    Args:
      rows: the `ShardedRows`.
      inputs: `[b, width]` for each shard.
      starts: the log-probabilities of all units, `[b, units]` for each shard.
      k: see `best_classes`.
      beam_width: see `best_classes`.
      bounds: `[b]` for each shard; or None.
      allowed: for each shard what `TreeHead.top_k` takes; or None.
    """

    def search(part, inputs, starts, bounds, allowed):
        least = tf.minimum(tf.cast(k, tf.int64), part.head.num_classes)
        found = part.head.top_k(
            inputs,
            least,
            beam_width=beam_width,
            return_pruned=True,
            root_log_probs=starts,
            bounds=bounds,
            allowed=allowed,
        )
        classes = tf.gather(rows.classes_of(part), tf.maximum(found.classes, 0))
        classes = tf.where(found.classes < 0, found.classes, classes)
        return _padded(found._replace(classes=classes), k)

    nothing = BeamTopK(
        tf.zeros([0, k], starts[0].dtype),
        tf.zeros([0, k], tf.int64),
        tf.zeros([0], tf.int64),
    )
    starts = [
        of_shard[:, part.units]
        for of_shard, part in zip(starts, rows.shards, strict=True)
    ]
    return ask_parts(
        rows.shards,
        rows.owners,
        search,
        [inputs, starts, bounds, allowed],
        [nothing] * len(rows.shards),
    )


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


def _spread(found, route, count):
    """Spreads the findings for the examples of a route over all `count`."""

    def spread(values, rest):
        shape = tf.concat([[count], tf.shape(values)[1:]], 0)
        every = tf.fill(shape, tf.constant(rest, values.dtype))
        return route.replace(every, values)

    return BeamTopK(*map(spread, found, (-float("inf"), -1, 0)))


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
