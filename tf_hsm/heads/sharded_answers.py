"""The answers of a head on several devices: the methods of `ShardedHead`.

The top gives each unit its log-probability. A shard goes on from the
log-probabilities of its units, so that what it finds is of the whole tree.
"""

import tensorflow as tf

from tf_hsm.heads.allowed_places import AllowedPlaces
from tf_hsm.heads.best_of_shards import best_classes
from tf_hsm.heads.part_calls import ask_parts, asks_other_processes, last_size
from tf_hsm.ops.allowed import AllowedClasses
from tf_hsm.ops.log_probs import check_mask_options, masked, renormalized
from tf_hsm.ops.sample import (
    checked_temperature,
    draw_of_allowed,
    draw_of_best,
    draw_restricted,
    seed_pair,
)
from tf_hsm.ops.top_k import BeamTopK, TopK
from tf_hsm.partition import routing
from tf_hsm.runtime import arguments

# The classes that are looked for first where only their sum is known; then
# that many times more.
_FIRST_CLASSES = 64
_MORE_CLASSES = 4


def log_probs(head, inputs, *, nodes=False):
    """See `TreeHead.log_probs`."""
    rows, inputs = head.rows, head.floats(inputs)
    flat = rows.flat(inputs, tf.shape(inputs)[:-1], "inputs")
    of_nodes = rows.top_log_probs(flat, nodes=True)
    starts = tf.gather(of_nodes, rows.plan.layout.top.class_rows, axis=-1)

    def of_part(part, inputs, starts):
        return part.head.log_probs(inputs, nodes=nodes, root_log_probs=starts)

    found = ask_parts(
        rows.shards,
        rows.owners,
        of_part,
        [
            [flat for _ in rows.shards],
            [starts[:, part.units] for part in rows.shards],
        ],
        [_no_log_probs(part, nodes, starts.dtype) for part in rows.shards],
        has_gradients=True,
    )
    found = [of_nodes if nodes else starts[:, rows.top.units], *found]
    found = tf.gather(tf.concat(found, -1), rows.order(nodes), axis=-1)
    result = _unflat(found, tf.shape(inputs)[:-1])
    result.set_shape(inputs.shape[:-1].concatenate(found.shape[1:]))
    return result


def _no_log_probs(part, nodes, dtype):
    """The log-probabilities of a part for no input."""
    tree = part.head.tree
    return tf.zeros([0, tree.num_rows if nodes else tree.num_classes], dtype)


def log_prob(head, classes, inputs, *, allowed=None, renormalize=False):
    """See `TreeHead.log_prob`."""
    rows, inputs = head.rows, head.floats(inputs)
    check_mask_options(rows.plan.tree, None, allowed, renormalize)
    classes = arguments.integers(classes, "classes")
    shape = tf.shape(classes)
    flat = rows.flat(inputs, shape[:-1], "classes")
    pairs = tf.reshape(classes, [-1, last_size(classes)])
    result = tf.reshape(_log_prob(rows, pairs, flat), shape)
    if allowed is None:
        return result
    mask = AllowedClasses.read(allowed, rows.plan.tree, inputs)
    of_allowed = None
    if renormalize:
        of_allowed = _allowed_log_probs(rows, mask, flat)
    return masked(result, classes, mask, of_allowed)


def top_k(
    head,
    inputs,
    k,
    *,
    threshold=None,
    beam_width=None,
    return_pruned=False,
    bounds=None,
    allowed=None,
    renormalize=False,
):
    """See `TreeHead.top_k`."""
    rows, inputs = head.rows, head.floats(inputs)
    check_mask_options(rows.plan.tree, None, allowed, renormalize)
    bounds = arguments.bounds_of(threshold, bounds, inputs)
    shape = tf.shape(inputs)[:-1]
    mask = None
    if allowed is not None:
        mask = _allowed_places(rows, allowed, inputs)
    flat = rows.flat(inputs, shape, "inputs")
    if bounds is not None:
        dtype = arguments.accumulator(head.dtype)
        bounds = arguments.flat_bounds(bounds, shape, dtype)
    best = best_classes(
        rows, flat, k, beam_width=beam_width, least=bounds, mask=mask
    )
    found = best.log_probs
    if renormalize:
        of_allowed = _allowed_log_probs(rows, mask.classes, flat)
        found = renormalized(found, of_allowed)
    result = TopK(_unflat(found, shape), _unflat(best.classes, shape))
    if return_pruned:
        return BeamTopK(*result, tf.reshape(best.num_pruned, shape))
    return result


def _unflat(values, shape):
    return tf.reshape(values, tf.concat([shape, tf.shape(values)[1:]], 0))


def _allowed_places(rows, allowed, inputs):
    """Returns the `AllowedPlaces` of what users pass as `allowed`."""
    mask = AllowedClasses.read(allowed, rows.plan.tree, inputs)
    lists, size = mask.lists, rows.plan.tree.num_classes
    is_class = lists < size
    places, _ = rows.find(tf.where(is_class, lists, 0), "allowed")
    places = tf.where(is_class, tf.cast(places, tf.int64), -1)
    return AllowedPlaces(mask, places)


def _allowed_log_probs(rows, mask, inputs):
    """Log-probabilities `[B, M]` of the lists of a mask, for `[B, width]`."""
    return mask.log_probs(
        lambda classes: _log_prob(rows, classes, inputs), tf.shape(inputs)[0]
    )


def _log_prob(rows, classes, inputs):
    """Log-probabilities of classes `[B, C]` for inputs `[B, width]`."""
    starts = rows.top_log_probs(inputs)
    places, units = rows.find(classes, "classes", rows.on_replicas)
    result = tf.gather(starts, units, batch_dims=1)
    routes = [
        routing.route((places >= p.places.start) & (places < p.places.stop))
        for p in rows.shards
    ]
    pairs = list(zip(rows.shards, routes, strict=True))
    found = ask_parts(
        rows.shards,
        rows.owners,
        lambda part, inputs, starts, classes: part.head.log_prob(
            classes, inputs, root_log_probs=starts
        ),
        [
            [route.take(inputs) for route in routes],
            [route.take(starts[:, part.units]) for part, route in pairs],
            [
                route.own(route.take(places) - part.places.start, -1)
                for part, route in pairs
            ],
        ],
        [tf.zeros([0, last_size(classes)], starts.dtype)] * len(rows.shards),
    )
    for route, of_part in zip(routes, found, strict=True):
        result = route.replace(result, of_part)
    return result


def sample(
    head,
    inputs,
    num_samples,
    *,
    seed=None,
    temperature=1.0,
    top_k=None,
    top_p=None,
    allowed=None,
):
    """See `TreeHead.sample`.

    A seed draws other classes than from a head on one device.
    """
    rows, inputs = head.rows, head.floats(inputs)
    shape = tf.shape(inputs)[:-1]
    mask = None
    if allowed is not None:
        mask = AllowedClasses.read(allowed, rows.plan.tree, inputs)
    inputs = rows.flat(inputs, shape, "inputs")
    seeds = tf.unstack(tf.random.split(seed_pair(seed), len(rows.shards) + 2))
    if tf.is_tensor(num_samples):
        num_samples = tf.saturate_cast(num_samples, tf.int32)
    else:
        num_samples = min(num_samples, tf.int32.max)

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

    if mask is None:
        classes = draw_restricted(
            rows.plan.tree.num_classes, top_k, top_p, of_best, of_all
        )
    else:
        classes = draw_of_allowed(
            _allowed_log_probs(rows, mask, inputs),
            mask,
            num_samples,
            seed=seeds[0],
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
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
    if rows.plan.layout.num_leaf_units:
        drawn = _categorical(starts[:, rows.top.units], num_samples, seeds[1])
        drawn = tf.gather(rows.classes_of(rows.top), tf.maximum(drawn, 0))
        result = tf.where(chosen == 0, drawn, result)
    routes = list(routing.routes(chosen, len(rows.shards), first=1))

    def draw(part, inputs, starts):
        drawn = part.head.sample(
            inputs,
            num_samples,
            seed=seeds[1 + part.number],
            temperature=temperature,
            root_log_probs=starts,
        )
        found = tf.gather(rows.classes_of(part), tf.maximum(drawn, 0))
        return tf.where(drawn < 0, drawn, found)

    found = ask_parts(
        rows.shards,
        rows.owners,
        draw,
        [
            [route.take(inputs) for route in routes],
            [
                route.take(starts[:, part.units])
                for part, route in zip(rows.shards, routes, strict=True)
            ],
        ],
        [tf.zeros([0, num_samples], tf.int64)] * len(rows.shards),
    )
    for route, drawn in zip(routes, found, strict=True):
        result = route.replace(result, drawn)
    return result


def _reach(rows, inputs, top_p):
    """Returns the fewest best classes whose probabilities sum to `top_p`.

    Raises:
      ValueError: other processes have shards. Their loops could have other
        numbers of iterations, and all replicas must exchange examples equally
        often.
    """
    if asks_other_processes(rows.owners):
        raise ValueError(
            "top_p needs top_k beside it for a head over workers: give, for "
            "example, top_k=1000"
        )
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
