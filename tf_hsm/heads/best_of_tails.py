"""The most probable classes of an adaptive softmax.

A tail is searched only for those inputs for which it could hold one of the k
best classes: all of its classes together are as probable as its row in the
shortlist.
"""

import tensorflow as tf

from tf_hsm.heads.part_calls import ask_parts
from tf_hsm.ops.top_k import BeamTopK
from tf_hsm.partition import routing
from tf_hsm.runtime import arguments


def best_classes(head, inputs, k, mask, least, beam_width):
    """Returns what `ClusterHead.search` does.

    Equal probabilities stand by falling frequency.
    """
    if tf.is_tensor(k):
        k = tf.cast(k, tf.int32)
    shortlist = head.shortlist.log_probs(inputs)
    has_nan = tf.math.is_nan(shortlist[:, :1])  # or none: it is one group
    shortlist = _finite(shortlist)
    if least is None:
        shape = tf.shape(inputs)[:1]
        least = arguments.flat_bounds(None, shape, shortlist.dtype)
    pruned = tf.zeros(tf.shape(inputs)[:1], tf.int64)
    size = head.clusters.shortlist_size
    found_so_far = _smaller(k, size)
    in_shortlist = shortlist[:, :size]
    if mask is not None:
        is_allowed = mask.contain(tf.range(size, dtype=tf.int64))
        in_shortlist = tf.where(is_allowed, in_shortlist, -float("inf"))
    best = tf.math.top_k(in_shortlist, found_so_far)
    values, ranks = best.values, tf.cast(best.indices, tf.int64)
    for row, tail in enumerate(head.parts, size):
        in_tail = shortlist[:, row]
        is_short = found_so_far < k
        could_matter = is_short | (in_tail > values[:, -1])
        could_matter &= in_tail >= least
        if mask is not None:
            could_matter &= mask.any_in(tail.places)
        route = routing.route(could_matter)
        in_list = None
        if mask is not None:
            in_list = mask.of_part(tail.places, route)
        found = _best_of_tail(
            head, tail, route.take(inputs), k, beam_width, in_list
        )
        if beam_width is not None:
            pruned = route.add(pruned, found.num_pruned)
        below = _finite(found.log_probs + tf.gather(in_tail, route.examples))
        below = tf.where(found.classes >= 0, below, -float("inf"))
        all_values = tf.concat([route.take(values), below], 1)
        all_ranks = tf.concat(
            [route.take(ranks), tail.places.start + found.classes], 1
        )
        # Where there are more classes by now, the only examples that are not on
        # the route want none of them.
        more = _smaller(k, found_so_far + tail.head.num_classes)
        padding = [[0, 0], [0, more - found_so_far]]
        found_so_far = more
        # The first of equal values has the smaller rank.
        best = tf.math.top_k(all_values, found_so_far)
        best_ranks = tf.gather(all_ranks, best.indices, batch_dims=1)
        values = tf.pad(values, padding, constant_values=-float("inf"))
        values = route.replace(values, best.values)
        ranks = tf.pad(ranks, padding, constant_values=-1)
        ranks = route.replace(ranks, best_ranks)
    is_found = (values > -float("inf")) & ~has_nan
    ranks = tf.where(is_found & (values >= least[:, tf.newaxis]), ranks, -1)
    is_positive = (ranks >= 0) & (values > values.dtype.min)
    values = tf.where(is_positive, values, -float("inf"))
    return BeamTopK(values, head.clusters.classes(ranks), pruned)


def _best_of_tail(head, tail, inputs, k, beam_width, allowed):
    """The k best classes of a tail, or all, a `BeamTopK`, for its inputs."""
    k = _smaller(k, tail.head.num_classes)
    owners = head.owners
    if owners is not None:
        owners = [owners[tail.number - 1]]
    nothing = BeamTopK(
        tf.zeros([0, k], arguments.accumulator(head.dtype)),
        tf.zeros([0, k], tf.int64),
        tf.zeros([0], tf.int64),
    )
    (found,) = ask_parts(
        [tail],
        owners,
        lambda tail, inputs, allowed: tail.head.top_k(
            inputs,
            k,
            beam_width=beam_width,
            return_pruned=True,
            allowed=allowed,
        ),
        [[tail.project(inputs)], None if allowed is None else [allowed]],
        [nothing],
    )
    return found


def _smaller(a, b):
    """The smaller of two integers, a scalar tensor where `a` or `b` is one."""
    if tf.is_tensor(a) or tf.is_tensor(b):
        return tf.minimum(a, b)
    return min(a, b)


def _finite(log_probs):
    """Probabilities of zero, and NaN, as the lowest finite number.

    Classes with that number stand before minus infinity, which is no class.
    """
    lowest = tf.constant(log_probs.dtype.min, log_probs.dtype)
    return tf.where(log_probs > lowest, log_probs, lowest)
