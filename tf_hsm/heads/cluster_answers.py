"""The answers of an adaptive softmax: only the tails that matter score.

The public functions are methods of `ClusterHead`, and answer as the methods of
`TreeHead` do.
"""

import tensorflow as tf

from tf_hsm.heads.allowed_places import AllowedPlaces
from tf_hsm.heads.part_calls import ask_parts, asks_other_processes, last_size
from tf_hsm.ops.allowed import AllowedClasses
from tf_hsm.ops.log_probs import check_mask_options, masked, renormalized
from tf_hsm.ops.sample import (
    draw_of_allowed,
    draw_of_best,
    draw_restricted,
    seed_pair,
)
from tf_hsm.ops.top_k import BeamTopK, TopK
from tf_hsm.partition import routing
from tf_hsm.runtime import arguments


def log_probs(head, inputs):
    """Returns log-probabilities `[..., N]` of all classes, in nats."""
    inputs, shape = _flat(head.floats(inputs))
    shortlist = head.shortlist.log_probs(inputs)
    size = head.clusters.shortlist_size
    within = ask_parts(
        head.tails,
        head.owners,
        lambda tail, inputs: tail.head.log_probs(inputs),
        [[tail.project(inputs) for tail in head.tails]],
        [
            tf.zeros([0, tail.head.num_classes], shortlist.dtype)
            for tail in head.tails
        ],
        has_gradients=True,
    )
    parts = [
        shortlist[:, row : row + 1] + of_tail
        for row, of_tail in enumerate(within, size)
    ]
    result = tf.concat([shortlist[:, :size], *parts], 1)
    ranks = head.clusters.all_ranks()
    if ranks is not None:
        result = tf.gather(result, ranks, axis=1)
    return tf.reshape(result, [*shape, head.num_classes])


def log_prob(head, classes, inputs, *, allowed=None, renormalize=False):
    """Returns log-probabilities of given classes `[..., C]`, in nats."""
    inputs = head.floats(inputs)
    check_mask_options(head.shortlist.tree, None, allowed, renormalize)
    classes = arguments.integers(classes, "classes")
    if not classes.shape[:-1].is_compatible_with(inputs.shape[:-1]):
        raise ValueError(
            f"classes, of shape {classes.shape}, must have the shape of "
            f"inputs, {inputs.shape}, but for the last dimension"
        )
    flat, shape = _flat(inputs)
    count = last_size(classes)
    result = _log_prob(head, tf.reshape(classes, [-1, count]), flat)
    result = tf.reshape(result, [*shape, count])
    if allowed is not None:
        mask = AllowedClasses.read(allowed, head.clusters, inputs)
        of_allowed = _allowed_log_probs(head, mask, flat, renormalize)
        result = masked(result, classes, mask, of_allowed)
    return tf.ensure_shape(result, classes.shape)


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
    """Returns the k best classes; equal probabilities by falling frequency.

    A tail is searched only for those inputs for which it could hold one of the
    k best classes: all of its classes together are as probable as its row in
    the shortlist.
    """
    inputs = head.floats(inputs)
    bounds = arguments.bounds_of(threshold, bounds, inputs)
    check_mask_options(head.shortlist.tree, None, allowed, renormalize)
    if tf.is_tensor(k):
        k = tf.cast(k, tf.int32)
    last = head.num_classes
    k = arguments.check_number(
        k, (k >= 1) & (k <= last), f"k = {{}} is not in [1, {last}]"
    )
    mask = None
    if allowed is not None:
        mask = _allowed_ranks(head.clusters, allowed, inputs)
    inputs, shape = _flat(inputs)
    if mask is not None and asks_other_processes(head.owners):
        mask = mask.for_each(tf.shape(inputs)[0])
    shortlist = _finite(head.shortlist.log_probs(inputs))
    least = arguments.flat_bounds(bounds, shape, shortlist.dtype)
    pruned = tf.zeros(tf.shape(inputs)[:1], tf.int64)
    size = head.clusters.shortlist_size
    found_so_far = _smaller(k, size)
    in_shortlist = shortlist[:, :size]
    if mask is not None:
        is_allowed = mask.contain(tf.range(size, dtype=tf.int64))
        in_shortlist = tf.where(is_allowed, in_shortlist, -float("inf"))
    best = tf.math.top_k(in_shortlist, found_so_far)
    values, ranks = best.values, tf.cast(best.indices, tf.int64)
    for row, tail in enumerate(head.tails, size):
        in_tail = shortlist[:, row]
        is_short = found_so_far < k
        could_matter = is_short | (in_tail > values[:, -1])
        could_matter &= in_tail >= least
        if mask is not None:
            could_matter &= mask.any_in(tail.begin, tail.end)
        route = routing.route(could_matter)
        in_list = None
        if mask is not None:
            in_list = mask.of_part(tail.begin, tail.end, route)
        narrow = tail.project(route.take(inputs))
        found = _best_of_tail(
            head,
            tail,
            narrow,
            _smaller(k, tail.end - tail.begin),
            beam_width,
            in_list,
        )
        if beam_width is not None:
            pruned = route.add(pruned, found.num_pruned)
        below = _finite(found.log_probs + tf.gather(in_tail, route.examples))
        below = tf.where(found.classes >= 0, below, -float("inf"))
        all_values = tf.concat([route.take(values), below], 1)
        all_ranks = tf.concat(
            [route.take(ranks), tail.begin + found.classes], 1
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
    is_found = values > -float("inf")
    ranks = tf.where(is_found & (values >= least[:, tf.newaxis]), ranks, -1)
    is_positive = (ranks >= 0) & (values > values.dtype.min)
    values = tf.where(is_positive, values, -float("inf"))
    if renormalize:
        values = renormalized(
            values, _allowed_log_probs(head, mask.classes, inputs)
        )
    values = tf.reshape(values, [*shape, k])
    classes = tf.reshape(head.clusters.classes(ranks), [*shape, k])
    if return_pruned:
        return BeamTopK(values, classes, tf.reshape(pruned, shape))
    return TopK(values, classes)


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
    """Draws classes `[..., num_samples]` by their probabilities.

    A draw is one in the shortlist and, if that is a tail's row, one in that
    tail. Without `top_k` and `top_p` the temperature divides the logits of the
    shortlist and of the tails.
    """
    inputs = head.floats(inputs)
    mask = None
    if allowed is not None:
        mask = AllowedClasses.read(allowed, head.clusters, inputs)
    inputs, shape = _flat(inputs)
    seed = seed_pair(seed)
    if tf.is_tensor(num_samples):
        num_samples = tf.saturate_cast(num_samples, tf.int32)

    def of_best(k):
        best = head.top_k(inputs, head.num_classes if k is None else k)
        return draw_of_best(best, num_samples, seed, temperature, top_p)

    def of_all():
        return _draw_of_all(head, inputs, num_samples, seed, temperature)

    if mask is None:
        drawn = draw_restricted(head.num_classes, top_k, top_p, of_best, of_all)
    else:
        drawn = draw_of_allowed(
            _allowed_log_probs(head, mask, inputs),
            mask,
            num_samples,
            seed=seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
    return tf.reshape(drawn, [*shape, num_samples])


def _best_of_tail(head, tail, inputs, k, beam_width, allowed):
    """The k best classes of a tail, a `BeamTopK`, for its inputs."""
    owners = head.owners
    if owners is not None:
        owners = [owners[head.tails.index(tail)]]
    dtype = arguments.accumulator(arguments.dtype_of(head.shortlist.weights))
    nothing = BeamTopK(
        tf.zeros([0, k], dtype),
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
        [[inputs], None if allowed is None else [allowed]],
        [nothing],
    )
    return found


def _log_prob(head, classes, inputs):
    """Log-probabilities of classes `[B, C]` for inputs `[B, width]`."""
    if head.owners is not None:
        classes = head.checked_on_replicas(classes, None, "classes")
    ranks = head.clusters.ranks(classes, "classes")
    tails = head.clusters.tails(ranks)
    rows = head.clusters.shortlist_rows(ranks, tails)
    result = head.shortlist.log_prob(rows, inputs)
    count = last_size(classes)
    routes = list(routing.routes(tails, len(head.tails)))
    pairs = list(zip(head.tails, routes, strict=True))
    found = ask_parts(
        head.tails,
        head.owners,
        lambda tail, inputs, classes: tail.head.log_prob(classes, inputs),
        [
            [tail.project(route.take(inputs)) for tail, route in pairs],
            [
                route.own(route.take(ranks) - tail.begin)
                for tail, route in pairs
            ],
        ],
        [tf.zeros([0, count], result.dtype)] * len(head.tails),
    )
    for route, within in zip(routes, found, strict=True):
        result = route.add(result, within)
    return result


def _allowed_ranks(clusters, allowed, inputs):
    """The `AllowedPlaces` of what users pass as `allowed`, by their ranks."""
    classes = AllowedClasses.read(allowed, clusters, inputs)
    lists = classes.lists
    is_class = lists < clusters.num_classes
    return AllowedPlaces(classes, clusters.ranks(lists, "allowed", is_class))


def _allowed_log_probs(head, mask, inputs, is_needed=True):
    """Log-probabilities `[B, M]` of the lists of a mask, for `[B, width]`."""
    if not is_needed:
        return None
    return mask.log_probs(
        lambda classes: _log_prob(head, classes, inputs), tf.shape(inputs)[0]
    )


def _draw_of_all(head, inputs, num_samples, seed, temperature):
    """Draws classes `[B, num_samples]` for inputs `[B, width]`, on paths."""
    rows = head.shortlist.sample(
        inputs, num_samples, seed=seed, temperature=temperature
    )
    ranks = rows
    size = head.clusters.shortlist_size
    routes = list(routing.routes(rows, len(head.tails), size))

    def draw(tail, inputs):
        drawn = tail.head.sample(
            inputs,
            num_samples,
            seed=tf.random.fold_in(seed, 1 + head.tails.index(tail)),
            temperature=temperature,
        )
        # A tail alone may have NaN, and no draw.
        return tf.where(drawn < 0, drawn, tail.begin + drawn)

    found = ask_parts(
        head.tails,
        head.owners,
        draw,
        [
            [
                tail.project(route.take(inputs))
                for tail, route in zip(head.tails, routes, strict=True)
            ]
        ],
        [tf.zeros([0, num_samples], tf.int64)] * len(head.tails),
    )
    for route, drawn in zip(routes, found, strict=True):
        ranks = route.replace(ranks, drawn)
    return head.clusters.classes(ranks)


def _flat(inputs):
    """Returns inputs `[B, width]`, and the dimensions before the width.

    The list of these has integers where they are known, so that results have
    shapes.
    """
    shape = [
        tf.shape(inputs)[i] if size is None else size
        for i, size in enumerate(inputs.shape[:-1])
    ]
    return tf.reshape(inputs, [-1, inputs.shape[-1]]), shape


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
