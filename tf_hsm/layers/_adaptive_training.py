"""The training of an adaptive softmax."""

import tensorflow as tf

from tf_hsm.ops.loss import hierarchical_softmax_loss
from tf_hsm.runtime import arguments, row_order, row_parts


class AdaptiveTraining:
    """The losses of `AdaptiveSoftmax`, and what is saved of it."""

    def compute_losses(self, labels, inputs, ignored, loss_weights):
        """Returns the loss per label: the shortlist's, and its tail's.

        With `loss_weights`, the shortlist and the tails make one step of the
        layer's own optimizer. Labels and shapes are checked before it.
        """
        flat = tf.reshape(tf.cast(labels, tf.int64), [-1])
        inputs = arguments.flat_inputs(
            inputs, inputs.shape[-1], tf.shape(labels), "labels"
        )
        counted = arguments.counted(flat, ignored)
        ranks = self.clusters.ranks(flat, "labels", counted)
        tails = self.clusters.tails(ranks)
        rows = self.clusters.shortlist_rows(ranks, tails)
        of_cluster = self._losses_of_cluster
        steps = None
        if loss_weights is not None:
            loss_weights = tf.reshape(loss_weights, [-1])
            steps = self.part_steps()
            of_cluster = steps.losses
        losses = of_cluster(
            self.head_kernel,
            self.head_bias,
            rows,
            inputs,
            self.clusters.shortlist_tree,
            loss_weights,
            [-1],
        )
        for number, route in enumerate(self._routes(tails)):
            within = route.take(ranks) - self.cutoffs[number]
            weights, biases, narrow, tree = self._tail(
                number, route.take(inputs)
            )
            in_tail = of_cluster(
                weights,
                biases,
                within,
                narrow,
                tree,
                None if steps is None else route.take(loss_weights),
            )
            losses = route.add(losses, in_tail)
        if steps is not None:
            steps.count(losses)
        return tf.reshape(losses, tf.shape(labels))

    def _losses_of_cluster(
        self, weights, biases, classes, inputs, tree, loss_weights, ignored=()
    ):
        """The losses of examples whose gradients are asked for later."""
        del loss_weights
        losses = hierarchical_softmax_loss(
            weights, biases, classes, inputs, tree, ignored
        )
        self.add_penalties(tree, weights, biases, classes, ignored, losses)
        return losses

    def row_variables(self):
        """Returns the weights and biases of the shortlist and of the tails."""
        tails = zip(self.tail_kernels, self.tail_biases, strict=True)
        pairs = [(self.head_kernel, self.head_bias), *tails]
        return [v for pair in pairs for v in pair if v is not None]

    def row_order(self):
        """All trees; None before `build` chooses them."""
        if self.clusters is None:
            return None
        trees = [self.clusters.shortlist_tree, *self.clusters.tail_trees]
        if self.clusters.order is not None:
            trees.append(self.clusters.order)
        return [part for tree in trees for part in row_order.parts_of(tree)]

    def write_variables(self, store):
        """Writes the variables, in one order whoever trains them."""
        row_parts.save(self._saved(), store)

    def read_variables(self, store):
        """Reads the variables."""
        row_parts.load(self._saved(), store)

    def _saved(self):
        """All variables, in the order in which `build` makes them.

        That of Keras, which a subclass may have added to, has those that the
        model trains first.
        """
        variables = [*self._trainable_variables, *self._non_trainable_variables]
        if not self.built:
            return variables
        tails = zip(
            self.projections, self.tail_kernels, self.tail_biases, strict=True
        )
        own = [self.head_kernel, self.head_bias, *(v for t in tails for v in t)]
        own = [v for v in own if v is not None]
        known = {id(v) for v in own}
        return own + [v for v in variables if id(v) not in known]
