"""What a trained adaptive softmax answers."""

import tensorflow as tf

from tf_hsm.layers._adaptive_mask import AllowedRanks
from tf_hsm.layers._head_answer import in_functional_models
from tf_hsm.layers._own_optimizer import without_gradient
from tf_hsm.ops.allowed import AllowedClasses
from tf_hsm.ops.log_probs import (
    check_mask_options,
    hierarchical_softmax_log_prob,
    hierarchical_softmax_log_probs,
    renormalized,
)
from tf_hsm.ops.sample import (
    draw_of_allowed,
    draw_of_best,
    draw_restricted,
    hierarchical_softmax_sample,
    seed_pair,
)
from tf_hsm.ops.top_k import TopK, hierarchical_softmax_top_k
from tf_hsm.partition import routing
from tf_hsm.runtime import arguments, private_tensorflow


class AdaptivePredictions:
    """Methods of `AdaptiveSoftmax`, which take inputs `[..., width]`.

    Only the examples that need a tail are scored by it.
    """

    @in_functional_models
    def log_probs(self, inputs):
        """Log-probabilities `[..., num_classes]` of all classes, in nats.

        They have gradients, and cost as much as a flat softmax, but for the
        narrower tails.
        """
        inputs, shape = self._flat(inputs)
        shortlist = hierarchical_softmax_log_probs(*self._shortlist(inputs))
        size = self.clusters.shortlist_size
        parts = [shortlist[:, :size]]
        for number in range(len(self.cutoffs)):
            row = size + number
            parts.append(
                shortlist[:, row : row + 1]
                + hierarchical_softmax_log_probs(*self._tail(number, inputs))
            )
        log_probs = tf.concat(parts, 1)
        ranks = self.clusters.all_ranks()
        if ranks is not None:
            log_probs = tf.gather(log_probs, ranks, axis=1)
        log_probs = tf.reshape(log_probs, [*shape, self.num_classes])
        return without_gradient(self, log_probs, "log_probs")

    @in_functional_models
    def log_prob(self, classes, inputs, allowed=None, renormalize=False):
        """Log-probabilities of given classes `[..., C]`, in nats.

        See `tf_hsm.hierarchical_softmax_log_prob` for `allowed` and
        `renormalize`.

        Raises:
          tf.errors.InvalidArgumentError: a class is not in [0, num_classes).
          ValueError: classes and inputs do not fit.
        """
        self._check_mask(allowed, renormalize)
        classes = arguments.integers(classes, "classes")
        inputs = arguments.floats(inputs, self.variable_dtype)
        if not classes.shape[:-1].is_compatible_with(inputs.shape[:-1]):
            raise ValueError(
                f"classes, of shape {classes.shape}, must have the shape of "
                f"inputs, {inputs.shape}, but for the last dimension"
            )
        flat, shape = self._flat(inputs)
        count = tf.shape(classes)[-1]
        log_probs = self._log_prob(tf.reshape(classes, [-1, count]), flat)
        log_probs = tf.reshape(log_probs, [*shape, count])
        if allowed is not None:
            mask = AllowedClasses.read(allowed, self.clusters, inputs)
            if renormalize:
                log_probs = renormalized(
                    log_probs, self._allowed_log_probs(mask, flat)
                )
            is_allowed = mask.contain(classes)
            log_probs = tf.where(is_allowed, log_probs, -float("inf"))
        return tf.ensure_shape(log_probs, classes.shape)

    @in_functional_models
    def top_k(self, inputs, k, bounds=None, allowed=None, renormalize=False):
        """Finds the k most probable classes, exactly.

        A tail is searched only for those inputs for which it could hold one of
        them: all of its classes together are as probable as its row in the
        shortlist. So one without an allowed class is never searched.

        Args:
          inputs: `[..., width]`.
          k: an integer or an integer scalar, in `[1, num_classes]`.
          bounds: `[...]`, the log-probabilities that are wanted at least; see
            `tf_hsm.hierarchical_softmax_top_k`.
          allowed: the only classes that may be found, or None: likewise.
          renormalize: likewise.

        Returns:
          A named tuple `(log_probs, classes)`, each `[..., k]`, in order of
          falling probability, equal ones in that of falling frequency. NaN
          counts as a probability of zero. With `bounds` or `allowed`, the
          log-probability minus infinity and the class -1 where fewer are left.

        Raises:
          ValueError: k is out of range (tf.errors.InvalidArgumentError where it
            is a tensor); or `renormalize` without `allowed`.
        """
        self._check_mask(allowed, renormalize)
        if tf.is_tensor(k):
            k = tf.cast(k, tf.int32)
        last = self.num_classes
        k = arguments.checked(
            k, (k >= 1) & (k <= last), f"k = {{}} is not in [1, {last}]"
        )
        mask = None
        if allowed is not None:
            mask = AllowedRanks(allowed, self.clusters, inputs)
        inputs, shape = self._flat(inputs)
        shortlist = hierarchical_softmax_log_probs(*self._shortlist(inputs))
        shortlist = _finite(shortlist)
        least = arguments.flat_bounds(bounds, shape, shortlist.dtype)
        size = self.clusters.shortlist_size
        found_so_far = _smaller(k, size)
        in_shortlist = shortlist[:, :size]
        if mask is not None:
            in_shortlist = tf.where(
                mask.in_shortlist(), in_shortlist, -float("inf")
            )
        best = tf.math.top_k(in_shortlist, found_so_far)
        values, ranks = best.values, tf.cast(best.indices, tf.int64)
        for number, cutoff in enumerate(self.cutoffs):
            in_tail = shortlist[:, size + number]
            is_short = found_so_far < k
            could_matter = is_short | (in_tail > values[:, -1])
            could_matter &= in_tail >= least
            if mask is not None:
                could_matter &= mask.are_in_tail(number)
            route = routing.route(could_matter)
            narrow = self._tail(number, route.take(inputs))
            found = hierarchical_softmax_top_k(
                *narrow,
                _smaller(k, narrow[-1].num_classes),
                allowed=None if mask is None else mask.of_tail(number, route),
            )
            below = _finite(
                found.log_probs + tf.gather(in_tail, route.examples)
            )
            below = tf.where(found.classes >= 0, below, -float("inf"))
            all_values = tf.concat([route.take(values), below], 1)
            all_ranks = tf.concat(
                [route.take(ranks), cutoff + found.classes], 1
            )
            # Where there are more by now, all examples are on the route but
            # those that want none of them.
            more = _smaller(k, found_so_far + narrow[-1].num_classes)
            padding = [[0, 0], [0, more - found_so_far]]
            found_so_far = more
            # The first of equal values is that of the smaller rank.
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
                values, self._allowed_log_probs(mask.classes, inputs)
            )
        shape = [*shape, k]
        return TopK(
            tf.reshape(values, shape),
            tf.reshape(self.clusters.classes(ranks), shape),
        )

    @in_functional_models
    def sample(
        self,
        inputs,
        num_samples,
        seed=None,
        temperature=1.0,
        top_k=None,
        top_p=None,
        allowed=None,
    ):
        """Draws classes `[..., num_samples]` by their probabilities.

        A draw is one in the shortlist, and if that is a tail's row, one in that
        tail; with `top_k` or `top_p`, one among the classes that these leave.
        `top_p` without `top_k` costs as much as all log-probabilities, and
        their sorting.

        Args:
          inputs: `[..., width]`.
          num_samples: draws per input.
          seed: see `tf_hsm.hierarchical_softmax_sample`.
          temperature: a positive number. With `top_k` or a `top_p` below 1
            draws are made by p ** (1 / temperature); without, it divides the
            logits of the shortlist and those of the tails.
          top_k: draw among the k most probable classes; None, or a tensor
            that is 0: among all.
          top_p: draw among the fewest most probable classes whose
            probabilities reach this sum, in (0, 1]; None: among all.
          allowed: the only classes that may be drawn, or None: see
            `tf_hsm.hierarchical_softmax_sample`.

        Returns:
          Classes, int64; -1 where the probabilities are NaN.

        Raises:
          ValueError: `top_k`, `top_p` or, with them, `temperature` is out of
            range (tf.errors.InvalidArgumentError where it is a tensor).
        """
        mask = None
        if allowed is not None:
            self.check_built()
            mask = AllowedClasses.read(allowed, self.clusters, inputs)
        inputs, shape = self._flat(inputs)
        seed = seed_pair(seed)
        if tf.is_tensor(num_samples):
            num_samples = tf.saturate_cast(num_samples, tf.int32)

        def of_best(k):
            best = self.top_k(inputs, self.num_classes if k is None else k)
            return draw_of_best(best, num_samples, seed, temperature, top_p)

        def of_all():
            return self._draw_of_all(inputs, num_samples, seed, temperature)

        if mask is None:
            drawn = draw_restricted(
                self.num_classes, top_k, top_p, of_best, of_all
            )
        else:
            drawn = draw_of_allowed(
                self._allowed_log_probs(mask, inputs),
                mask,
                num_samples,
                seed,
                temperature,
                top_k,
                top_p,
            )
        return tf.reshape(drawn, [*shape, num_samples])

    def predict_class(self, inputs):
        """The most probable class of each input, `[...]` int64."""
        inputs = arguments.floats(inputs, self.variable_dtype)
        return private_tensorflow.call_if_used(
            lambda x: self.top_k(x, 1).classes[..., 0], inputs
        )

    def _log_prob(self, classes, inputs):
        """`log_prob` of classes `[B, C]` for inputs `[B, width]`."""
        ranks = self.clusters.ranks(classes, "classes")
        tails = self.clusters.tails(ranks)
        weights, biases, _, tree = self._shortlist(inputs)
        log_probs = hierarchical_softmax_log_prob(
            weights,
            biases,
            self.clusters.shortlist_rows(ranks, tails),
            inputs,
            tree,
        )
        for number, route in enumerate(self._routes(tails)):
            weights, biases, narrow, tree = self._tail(
                number, route.take(inputs)
            )
            within = route.take(ranks) - self.cutoffs[number]
            found = hierarchical_softmax_log_prob(
                weights, biases, route.own(within), narrow, tree
            )
            log_probs = route.add(log_probs, found)
        return log_probs

    def _allowed_log_probs(self, mask, inputs):
        """Those `[B, M]` of the lists of a mask, for inputs `[B, width]`."""
        return mask.log_probs(
            lambda classes: self._log_prob(classes, inputs),
            tf.shape(inputs)[0],
        )

    def _check_mask(self, allowed, renormalize):
        self.check_built()
        tree = self.clusters.shortlist_tree
        check_mask_options(tree, None, allowed, renormalize)

    def _draw_of_all(self, inputs, num_samples, seed, temperature):
        """Draws classes `[B, num_samples]` of inputs `[B, width]`, on paths."""
        rows = hierarchical_softmax_sample(
            *self._shortlist(inputs), num_samples, seed, temperature
        )
        ranks = rows
        size = self.clusters.shortlist_size
        for number, route in enumerate(self._routes(rows, size)):
            drawn = hierarchical_softmax_sample(
                *self._tail(number, route.take(inputs)),
                num_samples,
                tf.random.fold_in(seed, number + 1),
                temperature,
            )
            # NaN in a tail alone.
            drawn = tf.where(drawn < 0, drawn, self.cutoffs[number] + drawn)
            ranks = route.replace(ranks, drawn)
        return self.clusters.classes(ranks)

    def _flat(self, inputs):
        """Returns inputs `[B, width]`, and what was before the width: a list.

        It has integers where they are known, so that results have shapes.
        """
        self.check_built()
        inputs = arguments.floats(inputs, self.variable_dtype)
        shape = [
            tf.shape(inputs)[i] if size is None else size
            for i, size in enumerate(inputs.shape[:-1])
        ]
        return tf.reshape(inputs, [-1, inputs.shape[-1]]), shape

    def _routes(self, parts, first=0):
        """The routes to the tails; see `routing.routes`."""
        return routing.routes(parts, len(self.cutoffs), first)

    def _shortlist(self, inputs):
        return (
            self.head_kernel,
            self.head_bias,
            inputs,
            self.clusters.shortlist_tree,
        )

    def _tail(self, number, inputs):
        return (
            self.tail_kernels[number],
            self.tail_biases[number],
            self.project(number, inputs),
            self.clusters.tail_trees[number],
        )


def _smaller(a, b):
    """The smaller of two integers, a scalar tensor where `a` or `b` is one."""
    if tf.is_tensor(a) or tf.is_tensor(b):
        return tf.minimum(a, b)
    return min(a, b)


def _finite(log_probs):
    """A probability of zero, and NaN, as the lowest number that is finite.

    So classes with it stand before minus infinity, which is no class.
    """
    lowest = tf.constant(log_probs.dtype.min, log_probs.dtype)
    return tf.where(log_probs > lowest, log_probs, lowest)
