"""A head of a shortlist of frequent classes, and of narrower tails."""

import dataclasses

import tensorflow as tf

from tf_hsm.heads.best_of_tails import best_classes
from tf_hsm.heads.check_labels import check_labels
from tf_hsm.heads.head_of_parts import HeadOfParts
from tf_hsm.heads.part_calls import check_here
from tf_hsm.heads.parts import Part
from tf_hsm.heads.tree_head import RowShares, TreeHead
from tf_hsm.ops.top_k import TopK
from tf_hsm.partition import routing
from tf_hsm.partition.frequency_clusters import FrequencyClusters
from tf_hsm.runtime import arguments
from tf_hsm.runtime.tree_tensors import path_tensors


@dataclasses.dataclass(frozen=True, eq=False)
class ClusterHead(HeadOfParts):
    """An adaptive softmax (Grave et al., 2016), a `TreeHead` for each cluster.

    Attributes:
      clusters: the `FrequencyClusters`.
      shortlist: the `TreeHead` of the frequent classes, with a row for each
        tail after them.
      parts: the tails; the head of a tail has no variables where another
        process has them.
      owners: where each replica of a strategy has some of the tails, the number
        of the replica of each tail; or None.
    """

    clusters: FrequencyClusters
    shortlist: TreeHead
    parts: tuple[Part, ...]
    owners: tuple[int, ...] | None = None

    sends_starts = False

    @property
    def num_classes(self):
        """N, the number of classes."""
        return self.clusters.num_classes

    def touched_of_first(self, num_replicas):
        """See `HeadOfParts`: all rows, which are one group."""
        del num_replicas
        return self.shortlist.weights.shape[0]

    def find(self, classes, name, counted=None, of_all=False):
        """See `HeadOfParts`: places are ranks."""
        if of_all:
            used = classes if counted is None else tf.where(counted, classes, 0)
            checked = check_labels(
                tf.reshape(used, [-1]), self.num_classes, name, True
            )
            classes = arguments.checked(classes, checked)
        ranks = self.clusters.ranks(classes, name, counted)
        tails = self.clusters.tails(ranks)
        return ranks, self.clusters.shortlist_rows(ranks, tails)

    def part_at(self, places):
        """See `HeadOfParts`."""
        return 1 + self.clusters.tails(places)

    def prior(self, counts):
        """See `tf_hsm.heads.head.Head`."""
        parts = self.clusters.split_classes(counts)
        return [
            # Where no class of a tail occurs, no label gets there.
            RowShares(head.tree.row_shares(of_part if of_part.any() else None))
            for head, of_part in zip(self.tree_heads(), parts, strict=True)
        ]

    def log_probs(self, inputs):
        """See `HeadOfParts`; the rows of several trees are no nodes of one."""
        return super().log_probs(inputs)

    def first_log_probs(self, inputs):
        """See `HeadOfParts`."""
        starts = self.shortlist.log_probs(inputs)
        return starts[:, : self.clusters.shortlist_size], starts

    def order(self):
        """See `HeadOfParts`."""
        return self.clusters.all_ranks()

    def row_log_prob(self, rows, inputs):
        """See `HeadOfParts`."""
        return self.shortlist.log_prob(rows, inputs), None

    search = best_classes

    def best_of_share(self, inputs, top_p):
        """See `HeadOfParts`: all classes."""
        return TopK(*self.best(inputs, self.num_classes)[:2])

    def seeds(self, seed):
        """See `HeadOfParts`."""
        return [seed]

    def first_draws(self, inputs, num_samples, seeds, temperature):
        """See `HeadOfParts`: draws rows of the shortlist."""
        (seed,) = seeds
        rows = self.shortlist.sample(
            inputs, num_samples, seed=seed, temperature=temperature
        )
        tails = rows - (self.clusters.shortlist_size - 1)
        seeds = [tf.random.fold_in(seed, tail.number) for tail in self.parts]
        return rows, tails, None, seeds

    def _draw(self, *options):
        """Draws classes: parts count by ranks."""
        return self.clusters.classes(super()._draw(*options))

    def numbered(self, part, classes):
        """See `HeadOfParts`: returns ranks."""
        return tf.where(classes < 0, classes, part.places.start + classes)

    def vectors(self, classes, look_up):
        """Returns the vectors `[..., width]` of classes `[...]`.

        The vector of a class is its row: in the shortlist as it is; in a tail,
        which is narrower, multiplied by the transposed projection (Baevski and
        Auli, 2019: Adaptive Input Representations for Neural Language
        Modeling). Only the rows of the given classes are read.

        Args:
          classes: integers.
          look_up: a function from a variable and `rows [B]` to these rows.

        Raises:
          tf.errors.InvalidArgumentError: a class is not in [0, num_classes).
          TypeError: classes are not integers.
        """
        classes = arguments.integers(classes, "classes")
        flat = tf.reshape(classes, [-1])
        ranks = self.clusters.ranks(flat, "classes")
        tails = self.clusters.tails(ranks)
        kernel = self.shortlist.weights
        dtype = arguments.accumulator(self.dtype)
        width = kernel.shape[1]
        result = tf.zeros([tf.size(flat), width], dtype)
        routes = routing.routes(tails, 1 + len(self.parts), first=-1)
        for tail, route in zip([None, *self.parts], routes, strict=True):
            own = route.take(ranks)
            if tail is None:
                found = tf.cast(look_up(kernel, own), dtype)
            else:
                own -= tail.places.start
                found = _tail_vectors(tail, own, look_up, dtype)
            result = route.add(result, found)
        return tf.reshape(result, tf.concat([tf.shape(classes), [width]], 0))

    def tree_heads(self):
        """See `tf_hsm.heads.head.Head`: the shortlist's, then the tails'."""
        return [self.shortlist, *(tail.head for tail in self.parts)]

    def on_one_device(self):
        """Returns a head whose products are made on the default device.

        Raises:
          ValueError: other processes have some of the tails.
        """
        check_here(self.tree_heads())
        tails = [dataclasses.replace(tail, device=None) for tail in self.parts]
        return dataclasses.replace(self, parts=tuple(tails), owners=None)


def _tail_vectors(tail, classes, look_up, dtype):
    """The vectors `[B, width]` of classes `[B]` of a tail."""
    class_rows = path_tensors(tail.head.tree).class_rows
    rows = look_up(tail.head.weights, tf.gather(class_rows, classes))
    with tf.device(tail.device):
        rows = tf.cast(rows, dtype)
        if tail.projection is None:
            return rows
        return tf.matmul(
            rows,
            tf.cast(arguments.parameter(tail.projection), dtype),
            transpose_b=True,
        )
