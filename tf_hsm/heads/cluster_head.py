"""A head of a shortlist of frequent classes, and of narrower tails."""

import dataclasses
import typing

import tensorflow as tf

from tf_hsm.heads import cluster_answers, part_calls
from tf_hsm.heads.check_labels import check_labels
from tf_hsm.heads.tree_head import RowShares, TreeHead
from tf_hsm.partition import routing
from tf_hsm.partition.frequency_clusters import FrequencyClusters
from tf_hsm.runtime import arguments, row_parts


@dataclasses.dataclass(frozen=True, eq=False)
class Tail:
    """One tail: a `TreeHead` on inputs that a projection makes narrower.

    Attributes:
      head: the `TreeHead`.
      projection: a variable `[width, width of the tail]`, or None.
      device: the name of the device of the rows and the products; None: the
        products are made where they are asked for.
      begin: the rank of its first class.
    """

    head: TreeHead
    projection: typing.Any
    device: str | None
    begin: int

    @property
    def end(self):
        """One past the rank of its last class."""
        return self.begin + self.head.num_classes

    def project(self, inputs):
        """Takes inputs `[..., width]` to inputs of the tail.

        The products are made in float32, for float64 weights in float64.
        """
        if self.projection is None:
            return inputs
        dtype = arguments.accumulator(arguments.dtype_of(self.projection))
        product = tf.matmul if self.device is None else _matmul_on(self.device)
        with row_parts.on(self.device):
            return product(
                tf.cast(inputs, dtype),
                tf.cast(arguments.parameter(self.projection), dtype),
            )


@dataclasses.dataclass(frozen=True, eq=False)
class ClusterHead:
    """An adaptive softmax (Grave et al., 2016), a `TreeHead` for each cluster.

    Attributes:
      clusters: the `FrequencyClusters`.
      shortlist: the `TreeHead` of the frequent classes, with a row for each
        tail after them.
      tails: the `Tail`s; the head of a tail has no variables where another
        process has them.
      owners: where each replica of a strategy has some of the tails, the number
        of the replica of each tail; or None.
    """

    clusters: FrequencyClusters
    shortlist: TreeHead
    tails: tuple[Tail, ...]
    owners: tuple[int, ...] | None = None

    @property
    def num_classes(self):
        """N, the number of classes."""
        return self.clusters.num_classes

    def losses(self, batch):
        """See `tf_hsm.heads.head.Head`: the shortlist's losses, and a tail's.

        The labels and shapes are checked before the first part makes a step.
        """
        flat = tf.reshape(tf.cast(batch.labels, tf.int64), [-1])
        shape = tf.shape(batch.labels)
        inputs = arguments.floats(
            batch.inputs, arguments.dtype_of(self.shortlist.weights)
        )
        inputs = arguments.flat_inputs(
            inputs, inputs.shape[-1], shape, "labels"
        )
        counted = arguments.counted(flat, batch.ignored)
        if self.owners is not None:
            flat = self.checked_on_replicas(flat, counted, "labels")
        ranks = self.clusters.ranks(flat, "labels", counted)
        tails = self.clusters.tails(ranks)
        batch = dataclasses.replace(batch, inputs=inputs)
        in_tails = self._losses_in_tails(batch, ranks, tails)
        of_shortlist = dataclasses.replace(
            batch,
            labels=self.clusters.shortlist_rows(ranks, tails),
            ignored=[-1],
            path=batch.path.of_part(0),
        )
        losses = part_calls.losses_on_copies(self.shortlist, of_shortlist)
        return tf.reshape(losses + in_tails, shape)

    def checked_on_replicas(self, labels, counted, name):
        """Returns labels, or fails on all replicas if one is no class.

        Args:
          labels: `[...]` integers.
          counted: which labels the check is for, bool; None: all.
          name: the name of the argument.
        """
        classes = labels if counted is None else tf.where(counted, labels, 0)
        flat = tf.reshape(classes, [-1])
        flat = check_labels(flat, self.num_classes, name, True)
        classes = tf.reshape(flat, tf.shape(labels))
        classes.set_shape(labels.shape)
        return (
            classes if counted is None else tf.where(counted, classes, labels)
        )

    def _losses_in_tails(self, batch, ranks, tails):
        """The losses `[B]` within the tails; 0 for labels in the shortlist."""
        routes = list(routing.routes(tails, len(self.tails)))
        pairs = list(zip(self.tails, routes, strict=True))
        inputs = [
            tail.project(route.take(batch.inputs)) for tail, route in pairs
        ]
        labels = [route.take(ranks) - tail.begin for tail, route in pairs]

        def losses_of(tail, inputs, labels):
            number = 1 + self.tails.index(tail)
            return tail.head.losses(
                dataclasses.replace(
                    batch,
                    labels=labels,
                    inputs=inputs,
                    ignored=[],
                    path=batch.path.of_part(number),
                )
            )

        dtype = arguments.accumulator(
            arguments.dtype_of(self.shortlist.weights)
        )
        found = part_calls.call_parts(
            self.tails,
            self.owners,
            losses_of,
            inputs,
            [labels],
            tf.zeros([0], dtype),
            batch.step,
        )
        losses = tf.zeros(tf.shape(ranks), dtype)
        for route, of_tail in zip(routes, found, strict=True):
            losses = route.add(losses, of_tail)
        return losses

    def prior(self, counts):
        """See `tf_hsm.heads.head.Head`."""
        parts = self.clusters.split_classes(counts)
        return [
            # Where no class of a tail occurs, no label gets there.
            RowShares(head.tree.row_shares(of_part if of_part.any() else None))
            for head, of_part in zip(self.tree_heads(), parts, strict=True)
        ]

    log_probs = cluster_answers.log_probs
    log_prob = cluster_answers.log_prob
    top_k = cluster_answers.top_k
    sample = cluster_answers.sample

    def best_class(self, inputs):
        """See `TreeHead.best_class`."""

        def best(inputs):
            return self.top_k(inputs, 1).classes[..., 0]

        return part_calls.call_if_used(self.owners, best, self.floats(inputs))

    def tree_heads(self):
        """See `tf_hsm.heads.head.Head`: the shortlist's, then the tails'."""
        return [self.shortlist, *(tail.head for tail in self.tails)]

    def variables(self):
        """Returns the weights and biases of the shortlist and of the tails."""
        return [v for head in self.tree_heads() for v in head.variables()]

    def on_one_device(self):
        """Returns a head whose products are made on the default device.

        Raises:
          ValueError: other processes have some of the tails.
        """
        part_calls.check_here(self.tree_heads())
        tails = [dataclasses.replace(tail, device=None) for tail in self.tails]
        return dataclasses.replace(self, tails=tuple(tails), owners=None)

    def floats(self, inputs):
        """Returns inputs of a question as floats; lists take the rows' type."""
        dtype = arguments.dtype_of(self.shortlist.weights)
        return arguments.floats(inputs, dtype)


def _matmul_on(device):
    """Returns a product whose gradients are made on a device, as it is itself.

    TensorFlow could otherwise send the matrix to the gradient's device.
    """

    @tf.custom_gradient
    def product(x, matrix):
        def gradient(grads):
            with tf.device(device):
                return (
                    tf.matmul(grads, matrix, transpose_b=True),
                    tf.matmul(x, grads, transpose_a=True),
                )

        return tf.matmul(x, matrix), gradient

    return product
