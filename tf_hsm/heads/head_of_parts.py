"""Losses and answers of a head that is made of parts.

All examples pass the first part: the top of a tree that is cut, or the
shortlist of an adaptive softmax. The parts below some of its rows, the shards
or the tails, get the examples that are for them.
"""

import dataclasses

import tensorflow as tf

from tf_hsm.cost.gradient_costs import copies_bytes
from tf_hsm.heads.allowed_places import AllowedPlaces
from tf_hsm.heads.part_calls import (
    ask_parts,
    asks_other_processes,
    call_parts,
    last_size,
)
from tf_hsm.heads.parts import Routes
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
from tf_hsm.runtime import arguments, call, replicas


class HeadOfParts:
    """A head of a first part, and of parts below its rows.

    The classes have places: the first ones are the first part's, and each other
    part has an interval of them.

    Attributes:
      num_classes: N.
      parts: the `Part`s but the first.
      owners: for each of `parts` the number of its replica; None where one
        process calls all of them.
      sends_starts: whether a part takes the log-probabilities of its units, and
        answers for the whole head. If not, they are added to what it answers.
    """

    def tree_heads(self):
        """See `tf_hsm.heads.head.Head`: of the first part, then of others."""

    def find(self, classes, name, counted=None, of_all=False):
        """Returns the places of classes, and their rows in the first part.

        Args:
          classes: integers of any shape.
          name: of the argument, for the error.
          counted: None; or bool, of the same shape: other classes may be any
            number, and have place and row -1.
          of_all: whether all replicas call this, so that all have the error.

        Raises:
          tf.errors.InvalidArgumentError: a class is none.
        """

    def part_at(self, places):
        """Returns the number of the part of each place `[B]`; 0: the first."""

    def touched_of_first(self, num_replicas):
        """Returns how many rows of the first part a replica's step touches.

        All replicas must expect the same, though their batches differ.
        """

    def first_log_probs(self, inputs, **options):
        """Returns the log-probabilities that the first part has for all.

        Returns:
          `[B, n]`, of its own classes, or nodes; and `starts`, `[B, units]`.
        """

    def order(self, **options):
        """Returns the place of each class, or node; None: they are in order."""

    def row_log_prob(self, rows, inputs):
        """Returns the log-probabilities of rows `[B, C]` of the first part.

        Returns:
          These; and `starts`, or None if they are not sent.
        """

    def search(self, inputs, k, mask, least, beam_width):
        """Returns the k best classes of inputs `[B, width]`, a `BeamTopK`.

        Where fewer than k classes have a positive probability, class -1 may
        stand for the others.

        Args:
          inputs: the inputs.
          k: an integer or a scalar, which is in its range.
          mask: the `AllowedPlaces` of the classes that may be found; or None.
          least: `[B]`, the log-probabilities that are wanted at least; or None.
          beam_width: of the search in each part; or None.
        """

    def best_of_share(self, inputs, top_p):
        """Returns a `TopK` with the best classes of a sum of `top_p`."""

    def seeds(self, seed):
        """Returns the seeds of a draw, first the seed for the best classes."""

    def first_draws(self, inputs, num_samples, seeds, temperature):
        """Draws `[B, num_samples]` rows of the first part.

        Returns:
          What `numbered` says of the drawn classes; the number of the part in
          which to go on, 0 for none; `starts`, or None if they are not sent;
          and the seed of each part.
        """

    def numbered(self, part, classes):
        """Returns classes as a part counts in the way that the head counts.

        Negative numbers, which are no class, stay.
        """

    def variables(self):
        """Returns the weights and biases of all parts, part by part."""
        return [v for head in self.tree_heads() for v in head.variables()]

    @property
    def dtype(self):
        """The `tf.DType` of the rows."""
        return arguments.dtype_of(self.tree_heads()[0].weights)

    def floats(self, inputs):
        """Returns inputs as floats; lists take the type of the rows."""
        return arguments.floats(inputs, self.dtype)

    def flat(self, inputs, shape, name):
        """Inputs `[..., width]` as `[B, width]`; see `arguments.flat_inputs`.

        Args:
          inputs: the inputs.
          shape: `[...]`, of an argument with one number for each input.
          name: of that argument.
        """
        weights = self.tree_heads()[0].weights
        width = getattr(weights, "width", None) or weights.shape[1]
        inputs = arguments.of_width(inputs, width)
        return arguments.flat_inputs(inputs, width, shape, name)

    def losses(self, batch):
        """See `tf_hsm.heads.head.Head`.

        Labels and shapes are checked before the first part makes a step.
        """
        labels = arguments.integers(tf.reshape(batch.labels, [-1]))
        labels, shape = tf.cast(labels, tf.int64), tf.shape(batch.labels)
        inputs = self.flat(self.floats(batch.inputs), shape, "labels")
        counted = arguments.counted(labels, batch.ignored)
        places, rows = self.find(labels, "labels", counted, self._is_spread)
        batch = dataclasses.replace(batch, inputs=inputs)
        losses = self._losses_below(batch, places)
        of_first = dataclasses.replace(
            batch,
            labels=rows,
            # A row may have the number of an ignored label.
            ignored=[-1] if batch.ignored else [],
            path=batch.path.of_part(0),
        )
        losses += self._losses_of_first(of_first)
        return tf.reshape(losses, shape)

    def _losses_of_first(self, batch):
        """The losses `[B]` in the first part, a copy of which replicas have."""
        head, step = self.tree_heads()[0], batch.step
        if step is None or replicas.context() is None:
            return head.losses(batch)
        rows, width = head.weights.shape
        _, sums_all_rows = copies_bytes(
            rows,
            self.touched_of_first(replicas.count()),
            width,
            arguments.accumulator(self.dtype).size,
            replicas.count(),
        )
        return step.losses_on_copies(
            head.variables(),
            batch.inputs,
            lambda inputs: head.losses(
                dataclasses.replace(batch, inputs=inputs, step=None)
            ),
            sums_all_rows,
        )

    def _losses_below(self, batch, places):
        """The losses `[B]` in `parts`; 0 for labels that are in none."""
        dtype = arguments.accumulator(self.dtype)
        if not self.parts:
            return tf.zeros(tf.shape(places), dtype)
        routes = Routes(self.part_at(places), len(self.parts))

        def losses(part, inputs, labels):
            return part.head.losses(
                dataclasses.replace(
                    batch,
                    labels=labels,
                    inputs=inputs,
                    ignored=[],
                    path=batch.path.of_part(part.number),
                )
            )

        pairs = zip(self.parts, routes.split(places), strict=True)
        found = call_parts(
            self.parts,
            self.owners,
            losses,
            [
                self._projected(routes.split(batch.inputs)),
                [of_part - part.places.start for part, of_part in pairs],
            ],
            [tf.zeros([0], dtype)] * len(self.parts),
            batch.step,
        )
        return routes.join(found, 0)

    @property
    def _is_spread(self):
        return self.owners is not None

    def log_probs(self, inputs, **options):
        """See `TreeHead.log_probs`."""
        inputs = self.floats(inputs)
        flat = self.flat(inputs, tf.shape(inputs)[:-1], "inputs")
        own, starts = self.first_log_probs(flat, **options)
        trees = [part.head.tree for part in self.parts]
        sizes = [
            tree.num_rows if options.get("nodes") else tree.num_classes
            for tree in trees
        ]
        below = ask_parts(
            self.parts,
            self.owners,
            lambda part, inputs, starts: part.head.log_probs(
                inputs, root_log_probs=starts, **options
            ),
            [self._projected([flat for _ in trees]), self._of_units(starts)],
            [tf.zeros([0, size], starts.dtype) for size in sizes],
            has_gradients=True,
        )
        if not self.sends_starts:
            below = [
                starts[:, part.units] + found
                for part, found in zip(self.parts, below, strict=True)
            ]
        found, order = tf.concat([own, *below], -1), self.order(**options)
        if order is not None:
            found = tf.gather(found, order, axis=-1)
        return _unflat(found, inputs)

    def log_prob(self, classes, inputs, *, allowed=None, renormalize=False):
        """See `TreeHead.log_prob`."""
        inputs = self.floats(inputs)
        self._check_options(allowed, renormalize)
        classes = arguments.integers(classes, "classes")
        if not classes.shape[:-1].is_compatible_with(inputs.shape[:-1]):
            raise ValueError(
                f"classes, of shape {classes.shape}, must have the shape of "
                f"inputs, {inputs.shape}, but for the last dimension"
            )
        shape = tf.shape(classes)
        flat = self.flat(inputs, shape[:-1], "classes")
        pairs = tf.reshape(classes, [-1, last_size(classes)])
        result = tf.reshape(self._log_prob(pairs, flat), shape)
        result.set_shape(classes.shape)
        if allowed is None:
            return result
        mask, of_allowed = AllowedClasses.read(allowed, self, inputs), None
        if renormalize:
            of_allowed = self._allowed_log_probs(mask, flat)
        return masked(result, classes, mask, of_allowed)

    def _check_options(self, allowed, renormalize):
        tree = self.tree_heads()[0].tree
        check_mask_options(tree, None, allowed, renormalize)

    def _allowed_log_probs(self, mask, inputs):
        """The log-probabilities `[B, M]` of the lists of `AllowedClasses`."""
        return mask.log_probs(
            lambda classes: self._log_prob(classes, inputs), tf.shape(inputs)[0]
        )

    def _log_prob(self, classes, inputs):
        """Log-probabilities of classes `[B, C]` for inputs `[B, width]`."""
        places, rows = self.find(classes, "classes", None, self._is_spread)
        result, starts = self.row_log_prob(rows, inputs)
        routes = [
            routing.route((places >= p.places.start) & (places < p.places.stop))
            for p in self.parts
        ]
        # Only a part that has starts takes the class -1.
        other, put = 0, routing.Route.add
        if self.sends_starts:
            other, put = -1, routing.Route.replace
        found = self.ask(
            lambda part, inputs, starts, classes: part.head.log_prob(
                classes, inputs, root_log_probs=starts
            ),
            routes,
            inputs,
            starts,
            [
                [
                    route.own(route.take(places) - part.places.start, other)
                    for part, route in zip(self.parts, routes, strict=True)
                ]
            ],
            tf.zeros([0, last_size(classes)], result.dtype),
        )
        for route, of_part in zip(routes, found, strict=True):
            result = put(route, result, of_part)
        return result

    def ask(self, function, routes, inputs, starts, values, nothing):
        """Calls a function for each part with the examples of its route.

        Args:
          function: takes a part, its inputs, `starts` and other values.
          routes: the `Route` to each part.
          inputs: `[B, width]`.
          starts: `[B, units]`, or None if they are not sent.
          values: for each other value a list: `[b, ...]` for each part; or
            None.
          nothing: the result of a part for no example.
        """
        if starts is not None:
            starts = [
                route.take(of_part)
                for route, of_part in zip(
                    routes, self._of_units(starts), strict=True
                )
            ]
        return ask_parts(
            self.parts,
            self.owners,
            function,
            [
                self._projected([route.take(inputs) for route in routes]),
                starts,
                *values,
            ],
            [nothing] * len(self.parts),
        )

    def _projected(self, inputs):
        """The inputs of each part as it takes them."""
        return [
            part.project(x) for part, x in zip(self.parts, inputs, strict=True)
        ]

    def _of_units(self, starts):
        """The log-probabilities of the units of each part, if it takes them."""
        if not self.sends_starts:
            return None
        return [starts[:, part.units] for part in self.parts]

    def top_k(
        self,
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
        inputs = self.floats(inputs)
        self._check_options(allowed, renormalize)
        bounds = arguments.bounds_of(threshold, bounds, inputs)
        shape, mask = tf.shape(inputs)[:-1], None
        if allowed is not None:
            classes = AllowedClasses.read(allowed, self, inputs)
            is_class = classes.lists < self.num_classes
            places, _ = self.find(classes.lists, "allowed", is_class)
            mask = AllowedPlaces(classes, tf.cast(places, tf.int64))
        flat = self.flat(inputs, shape, "inputs")
        if bounds is not None:
            dtype = arguments.accumulator(self.dtype)
            bounds = arguments.flat_bounds(bounds, shape, dtype)
        best = self.best(flat, k, mask, bounds, beam_width)
        found = best.log_probs
        if renormalize:
            of_allowed = self._allowed_log_probs(mask.classes, flat)
            found = renormalized(found, of_allowed)
        result = TopK(_unflat(found, inputs), _unflat(best.classes, inputs))
        if return_pruned:
            return BeamTopK(*result, _unflat(best.num_pruned, inputs))
        return result

    def best(self, inputs, k, mask=None, least=None, beam_width=None):
        """Returns what `search` does, for any k.

        Raises:
          ValueError: k is out of range (tf.errors.InvalidArgumentError where it
            is a tensor).
        """
        last = self.num_classes
        k = arguments.check_number(
            k,
            (k >= 1) & (k <= last),
            f"k = {{}} is outside [1, {last}]; the upper end is the number of "
            "classes",
        )
        if mask is not None and asks_other_processes(self.owners):
            mask = mask.for_each(tf.shape(inputs)[0])
        return self.search(inputs, k, mask, least, beam_width)

    def best_class(self, inputs):
        """See `TreeHead.best_class`."""

        def best(inputs):
            return self.top_k(inputs, 1).classes[..., 0]

        inputs = self.floats(inputs)
        if asks_other_processes(self.owners):
            # Collectives cannot be left out of the graph of a replica.
            return best(inputs)
        return call.if_used(best, inputs)

    def sample(
        self,
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

        A seed draws other classes than from a head of one part. Without `top_k`
        and `top_p` the temperature divides the logits of each part.
        """
        inputs = self.floats(inputs)
        if allowed is not None:
            allowed = AllowedClasses.read(allowed, self, inputs)
        flat = self.flat(inputs, tf.shape(inputs)[:-1], "inputs")
        seeds = self.seeds(seed_pair(seed))
        if tf.is_tensor(num_samples):
            num_samples = tf.saturate_cast(num_samples, tf.int32)
        else:
            num_samples = min(num_samples, tf.int32.max)

        def of_best(k):
            if k is None:
                best = self.best_of_share(flat, top_p)
            else:
                best = TopK(*self.best(flat, k)[:2])
            return draw_of_best(
                best,
                num_samples,
                seeds[0],
                temperature,
                top_p,
                of_all=k is None,
            )

        def of_all():
            return self._draw(flat, num_samples, seeds, temperature)

        if allowed is None:
            drawn = draw_restricted(
                self.num_classes, temperature, top_k, top_p, of_best, of_all
            )
        else:
            drawn = draw_of_allowed(
                self._allowed_log_probs(allowed, flat),
                allowed,
                num_samples,
                seed=seeds[0],
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
            )
        return _unflat(drawn, inputs)

    def _draw(self, inputs, num_samples, seeds, temperature):
        """Draws in the first part, then below; `[B, num_samples]` classes."""
        result, chosen, starts, seeds = self.first_draws(
            inputs, num_samples, seeds, temperature
        )
        routes = list(routing.routes(chosen, len(self.parts), first=1))

        def draw(part, inputs, starts):
            drawn = part.head.sample(
                inputs,
                num_samples,
                seed=seeds[part.number - 1],
                temperature=temperature,
                root_log_probs=starts,
            )
            # A part alone may have NaN, and no draw.
            return self.numbered(part, drawn)

        nothing = tf.zeros([0, num_samples], tf.int64)
        found = self.ask(draw, routes, inputs, starts, [], nothing)
        for route, drawn in zip(routes, found, strict=True):
            result = route.replace(result, drawn)
        return result


def _unflat(values, inputs):
    """Values `[B, ...]` for inputs `[..., width]` of as many dimensions."""
    shape = tf.concat([tf.shape(inputs)[:-1], tf.shape(values)[1:]], 0)
    result = tf.reshape(values, shape)
    result.set_shape(inputs.shape[:-1].concatenate(values.shape[1:]))
    return result
