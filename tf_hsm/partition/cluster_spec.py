"""The clusters of an adaptive softmax, and their widths."""

import dataclasses
import numbers

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.cutoffs import cutoffs as best_cutoffs
from tf_hsm.cost.model import CostModel
from tf_hsm.partition.frequency_clusters import (
    FrequencyClusters,
    by_frequency,
    grown_order,
)
from tf_hsm.tree import Tree
from tf_hsm.tree.memory import check_fits

_CLASS_BYTES = 125  # The most that a class takes, by tracemalloc.


class ClusterSpec:
    """The arguments of `tf_hsm.layers.AdaptiveSoftmax` that make its clusters.

    Attributes:
      cutoffs: as given, and once `choose` was called, a list.
      clusters: the `FrequencyClusters`; None until they are known.
      ranked_counts: `[N]`, the counts in falling order; None where they are not
        known.

    Args:
      num_classes: see `AdaptiveSoftmax` for this and the other arguments.
      cutoffs: ascending, their number, or "auto".
      div_value: how much narrower each tail is than the one before.
      counts: `[N]`, or None; or a tree of one group, in which the row of a
        class is its rank, where a file has the order of counts alone.
      tail: of what the tails are.
      width: the width of inputs, for a layer that embeds; else None.
      batch: the examples in a step.
      cost_model: a `CostModel`, or None.

    Raises:
      ValueError: an argument is out of range; the message names it.
    """

    def __init__(
        self,
        num_classes,
        cutoffs="auto",
        div_value=4.0,
        counts=None,
        tail="flat",
        width=None,
        batch=1024,
        cost_model=None,
    ):
        self.num_classes = _checks.check_int("num_classes", num_classes, 1)
        self.div_value = _checks.check_real("div_value", div_value, 1)
        self.tail = tail
        self.width = width
        if width is not None:
            self.width = _checks.check_int("width", width, 1)
        self.batch = _checks.check_int("batch", batch, 1)
        self.cost_model = cost_model
        self._counts = self._order = self.ranked_counts = None
        if isinstance(counts, Tree):
            self._order = counts
        elif counts is not None:
            self._counts = _checks.check_counts(counts, self.num_classes)
            self.ranked_counts, self._order = by_frequency(self._counts)
        self.cutoffs = cutoffs
        self.clusters = None
        if isinstance(cutoffs, numbers.Integral):
            self.cutoffs = _checks.check_int("cutoffs", cutoffs, 0)
        elif not isinstance(cutoffs, str):
            self.clusters = self._make(cutoffs)
            self._keep_cutoffs()
        elif cutoffs != "auto":
            raise ValueError(
                f"cutoffs is {cutoffs!r}; it must be 'auto', how many tails "
                "there are, or a list"
            )

    def choose(self, width):
        """Chooses the cutoffs for inputs of a width, unless they are known."""
        if self.clusters is None:
            self.clusters = self.clusters_for(width)
            self._keep_cutoffs()

    def clusters_for(self, width):
        """Returns the `FrequencyClusters` for inputs of a width."""
        if self.clusters is not None:
            return self.clusters
        if isinstance(self.tail, (list, tuple, Tree)):
            raise ValueError(
                "a tail that is a list or a Tree needs a list of cutoffs: the "
                "best ones depend on how any tail would be built"
            )
        counts = self._counts
        if counts is None:
            check_fits(
                f"num_classes is {self.num_classes}",
                self.num_classes,
                _CLASS_BYTES,
            )
            counts = 1 / np.arange(1.0, self.num_classes + 1)
        try:
            cutoffs = best_cutoffs(
                np.sort(counts)[::-1],
                self.cutoffs,
                tail=self.tail,
                batch=self.batch,
                width=width,
                div_value=self.div_value,
                cost_model=self.cost_model,
            )
        except ValueError as error:
            raise ValueError(f"cutoffs = {self.cutoffs!r}: {error}") from error
        return self._make(cutoffs)

    def widths_for(self, width, num_tails):
        """Returns the widths of the shortlist and of the tails.

        Raises:
          ValueError: a tail would have none.
        """
        widths = [self._width_of(width, j) for j in range(num_tails + 1)]
        if widths[-1] < 1:
            raise ValueError(
                f"tail {widths.index(0)} has no width left: inputs are {width} "
                f"wide, and div_value is {self.div_value:g}; use fewer cutoffs "
                "or a smaller div_value"
            )
        return widths

    def _width_of(self, width, number):
        try:
            return int(width // self.div_value**number)
        except OverflowError:
            return 0

    def trees(self):
        """Returns the trees of the rows; None while they are not known."""
        if self.clusters is None:
            return None
        trees = [self.clusters.shortlist_tree, *self.clusters.tail_trees]
        order = self.clusters.order
        return trees if order is None else [*trees, order]

    def grown(self, num_classes):
        """Returns the spec for more classes, which are the rarest.

        New classes have the next ranks, so they join the last tail; where there
        are no tails, the shortlist.

        Args:
          num_classes: how many classes there are now.

        Raises:
          ValueError: there are fewer than before, or the last tail is pinned.
        """
        num_classes = _checks.check_int("num_classes", num_classes, 1)
        if num_classes < self.num_classes:
            raise ValueError(
                f"num_classes is {num_classes}, fewer than the "
                f"{self.num_classes} that there were; classes cannot go"
            )
        return ClusterSpec(
            num_classes,
            self.cutoffs,
            self.div_value,
            grown_order(self._order, num_classes),
            self._grown_tail(num_classes - self.num_classes),
            self.width,
        )

    def _grown_tail(self, num_new):
        """Returns `tail` for more classes in the last one.

        A tail of one group stays one.
        """
        if not num_new or not self.cutoffs:
            return self.tail
        kinds = self.tail
        if not isinstance(kinds, (list, tuple)):
            kinds = [kinds] * len(self.cutoffs)
        last = self.clusters.tail_trees[-1]
        if isinstance(kinds[-1], str) and kinds[-1] == "flat":
            return self.tail
        if last.pinned:
            raise ValueError(
                f"the tree of tail {len(kinds) - 1} is pinned, and its groups "
                "have no room for new classes; make the layer with "
                "tree.expand() for that tail"
            )
        near = np.zeros(num_new, np.int64) if last.num_groups == 1 else None
        return [*kinds[:-1], last.grow(num_new, near=near)]

    def get_config(self):
        """Returns the arguments, cutoffs as in use, as JSON can hold them."""
        config = {
            "num_classes": self.num_classes,
            "cutoffs": self.cutoffs,
            "div_value": self.div_value,
            "tail": _serialized(self.tail),
            "width": self.width,
        }
        if self.clusters is None:
            # The cutoffs are still to be chosen.
            config["batch"] = self.batch
            config["cost_model"] = self.cost_model and dataclasses.asdict(
                self.cost_model
            )
            if self._counts is not None:
                config["counts"] = self._counts.tolist()
        elif self._order is not None:
            config["order"] = self._order.get_config()
        return config

    def _make(self, cutoffs):
        clusters = FrequencyClusters.make(
            self.num_classes, cutoffs, self._order, self.tail
        )
        pinned = [tree.pinned for tree in clusters.tail_trees]
        if self.width is not None and any(pinned):
            raise ValueError(
                f"the tree of tail {pinned.index(True)} is pinned, and every "
                "other class has no row to embed; call expand() of the tree, "
                "or leave out width"
            )
        return clusters

    def _keep_cutoffs(self):
        # Python integers, which JSON can hold.
        self.cutoffs = list(self.clusters.cutoffs)


def unpacked(config):
    """Returns a config of `ClusterSpec.get_config` as arguments."""
    config = dict(config)
    order = config.pop("order", None)
    if order is not None:
        config["counts"] = Tree.from_config(order)
    if config.get("cost_model") is not None:
        config["cost_model"] = CostModel(**config["cost_model"])
    config["tail"] = _deserialized(config["tail"])
    return config


def _serialized(tail):
    """Returns a tail as JSON can hold it."""
    if isinstance(tail, (list, tuple)):
        return [_serialized(t) for t in tail]
    if isinstance(tail, Tree):
        return tail.get_config()
    # A branching as a Python integer, which JSON can hold.
    return tail if isinstance(tail, str) else _checks.as_integer("tail", tail)


def _deserialized(tail):
    """Returns the tail that `_serialized` was given."""
    if isinstance(tail, (list, tuple)):
        return [_deserialized(t) for t in tail]
    return Tree.from_config(tail) if isinstance(tail, dict) else tail
