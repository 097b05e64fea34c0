"""The adaptive softmax as a Keras layer."""

import dataclasses
import math
import numbers

import keras
import numpy as np

from tf_hsm import _checks
from tf_hsm.converters import torch
from tf_hsm.cost.model import CostModel
from tf_hsm.layers._adaptive_embedding import AdaptiveEmbedding, fresh
from tf_hsm.layers._adaptive_predictions import AdaptivePredictions
from tf_hsm.layers._adaptive_training import AdaptiveTraining
from tf_hsm.layers._head_layer import HeadLayer
from tf_hsm.layers._own_optimizer import OwnOptimizer
from tf_hsm.layers._row_options import RowOptions
from tf_hsm.layers._tail_devices import TailDevices
from tf_hsm.layers._training_loss import TrainingLoss, unpacked
from tf_hsm.partition.frequency_clusters import FrequencyClusters, by_frequency
from tf_hsm.partition.tail_options import (
    choose_cutoffs,
    deserialize_tail,
    serialize_tail,
    tail_widths,
)
from tf_hsm.runtime import row_parts
from tf_hsm.runtime.devices import check_present
from tf_hsm.tree import Tree

_USE_BIAS = (True, False, "head")


@keras.saving.register_keras_serializable("tf_hsm")
class AdaptiveSoftmax(
    AdaptivePredictions,
    AdaptiveEmbedding,
    AdaptiveTraining,
    TailDevices,
    OwnOptimizer,
    RowOptions,
    TrainingLoss,
    HeadLayer,
):
    """A softmax whose rare classes lie in clusters of narrower vectors.

    The most frequent classes are the shortlist, which also has one row for each
    tail; the other classes, in the order of their frequency, are cut into
    tails. An example is scored by the shortlist and, if its label is in a tail,
    by that tail, on inputs that a projection has made narrower (Grave et al.,
    2016: Efficient softmax approximation for GPUs):

        log p(c) = log p(row of c)                       c in the shortlist
                 = log p(tail's row) + log p(c | tail)   c in tail j
        width of tail j = width // div_value ** j,  j = 1, 2, ...

    It is used as `tf_hsm.layers.HierarchicalSoftmax` is: in `compile(loss=
    head.loss)`, or with labels as an input of the model. With the same weights
    it has the values of PyTorch's `AdaptiveLogSoftmaxWithLoss`. Classes need
    not be numbered by frequency, if their counts are given.

    >>> head = tf_hsm.layers.AdaptiveSoftmax(50_000, counts=counts)
    >>> model = keras.Sequential([body, head])
    >>> model.compile("sgd", loss=head.loss)

    A cluster as wide as the inputs has no projection: with `div_value=1` this
    is `HierarchicalSoftmax(Tree.adaptive(counts, cutoffs=...))`.

    The layer can be the input embedding too, which then shares all rows and
    projections (Baevski and Auli, 2019: Adaptive Input Representations for
    Neural Language Modeling):

    >>> head = tf_hsm.layers.AdaptiveSoftmax(50_000, counts=counts, width=512)
    >>> model = keras.Model(tokens, head(body(head(tokens, embed=True))))

    With an `optimizer` of its own it updates its rows itself, as
    `HierarchicalSoftmax` does: no gradient of them is ever stored, and a call
    with labels for training is one step of the shortlist and of all tails. The
    projections, which are small, stay variables that the model trains. Rows
    that embed make a step by that gradient too, in the backward pass: see
    `call`.

    Args:
      num_classes: N.
      cutoffs: ascending, from 1 to N - 1: tail j holds the classes from cutoff
        j on; `[]` is a flat softmax. Or how many tails there are, or "auto":
        then `build` chooses those that take the least time by the cost model,
        for `batch` examples as frequent as the counts say.
      div_value: how much narrower each tail is than the one before; at least 1.
      counts: `[N]`, how often each class occurs, which the biases begin with;
        None: the classes are numbered by falling frequency, which follows
        Zipf's law.
      tail: "flat" if a tail is one group; "two_level", or the branching of a
        balanced tree; or a list with one of these, or a `tf_hsm.Tree`, for each
        tail, whose classes are those of the tail by falling frequency. It may
        be pinned, but not where the layer embeds.
      use_bias: whether each row has a bias; "head": only the shortlist's rows.
      ignore_class: a label whose loss is 0 and does not count, or None.
      width: that of the inputs, which the layer must be told of to embed; else
        None.
      batch: the examples in a step, for which cutoffs are chosen.
      cost_model: a `tf_hsm.CostModel`, by which they are chosen; None: that of
        a machine of two cores.
      kernel_initializer: for the rows; None: uniform in +-1 / sqrt(their
        width).
      projection_initializer: for the projections `[width, width of the tail]`.
      bias_initializer: for the biases, where there are no counts.
      optimizer: None; or that of the rows, and of nothing else, as for
        `HierarchicalSoftmax`.
      stochastic_rounding: with `optimizer`, as for `HierarchicalSoftmax`.
      seed: likewise.
      **kwargs: `devices`, a list of names as for `HierarchicalSoftmax`: tail j
        has rows and projection on number j of them, or in turn where there are
        fewer, the shortlist stays with the body of the model; as for every
        Keras layer: `name`, `dtype`, `trainable`; `several_labels`,
        `class_weights` and `focal_gamma`, as for `HierarchicalSoftmax`; and
        `kernel_regularizer`, `bias_regularizer`, `kernel_constraint` and
        `bias_constraint`, which are for the rows that a batch touches: see
        `tf_hsm.layers`. Projections have none, and with an `optimizer` there
        are none.

    The shortlist is what `head_kernel`, `head_bias` and `use_bias="head"` name.

    Attributes:
      cutoffs: those in use, once the layer is built.
      clusters: the trees of the shortlist and the tails, likewise.
      head_kernel: `[n + J, width]`, for n classes in the shortlist and J tails.
      head_bias: `[n + J]`, or None.
      projections: for each tail `[width, its width]`, or None.
      tail_kernels: for each tail `[rows, its width]`.
      tail_biases: for each tail `[rows]`, or None.

    Raises:
      TypeError: `optimizer` is not of `tf_hsm.optimizers`.
      ValueError: an argument is out of range; names it. `build` raises it where
        a tail would have no width left.
    """

    def __init__(
        self,
        num_classes,
        cutoffs="auto",
        div_value=4.0,
        counts=None,
        tail="flat",
        use_bias=True,
        ignore_class=None,
        width=None,
        batch=1024,
        cost_model=None,
        kernel_initializer=None,
        projection_initializer="glorot_uniform",
        bias_initializer="zeros",
        optimizer=None,
        stochastic_rounding=None,
        seed=0,
        **kwargs,
    ):
        """See the class."""
        super().__init__(
            ignore_class,
            optimizer=optimizer,
            stochastic_rounding=stochastic_rounding,
            seed=seed,
            **kwargs,
        )
        self.num_classes = _checks.check_int("num_classes", num_classes, 1)
        self.check_training_loss()
        is_real = isinstance(div_value, numbers.Real)
        if not is_real or not 1 <= div_value < math.inf:
            raise ValueError(
                f"div_value is {div_value!r}; it must be a number of at least 1"
            )
        if use_bias not in _USE_BIAS:
            raise ValueError(
                f"use_bias is {use_bias!r}; it must be one of {_USE_BIAS}"
            )
        self.div_value = float(div_value)
        # What equals a bool, such as NumPy's, is one.
        self.use_bias = use_bias if use_bias == "head" else bool(use_bias)
        self.tail = tail
        self.width = width
        if width is not None:
            self.width = _checks.check_int("width", width, 1)
        self.batch = _checks.check_int("batch", batch, 1)
        self.cost_model = cost_model
        self.kernel_initializer = keras.initializers.get(
            kernel_initializer
            or keras.initializers.VarianceScaling(
                1 / 3, mode="fan_out", distribution="uniform"
            )
        )
        self.projection_initializer = keras.initializers.get(
            projection_initializer
        )
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self._counts = self._order = self._ranked_counts = None
        if counts is not None:
            self._counts = _checks.check_counts(counts, self.num_classes)
            self._ranked_counts, self._order = by_frequency(self._counts)
        self.cutoffs = cutoffs
        self.clusters = None
        if isinstance(cutoffs, numbers.Integral):
            self.cutoffs = _checks.check_int("cutoffs", cutoffs, 0)
        elif not isinstance(cutoffs, str):
            self._make_clusters(cutoffs)
        elif cutoffs != "auto":
            raise ValueError(
                f"cutoffs is {cutoffs!r}; it must be 'auto', how many tails "
                "there are, or a list"
            )
        self.head_bias = None

    def build(self, inputs_shape, labels_shape=None):
        """Makes the variables for inputs `[..., width]`."""
        del labels_shape
        width = self.width or self.width_of(inputs_shape)
        if self.clusters is None:
            self._make_clusters(self.cutoffs_for(width))
        check_present(self.devices or ())
        widths = self.widths_for(width, len(self.cutoffs))
        counts = self._counts_of_groups()
        self.head_kernel, self.head_bias = self._add_rows(
            "head",
            self.clusters.shortlist_tree,
            width,
            bool(self.use_bias),
            counts[0],
        )
        self.tail_kernels, self.tail_biases, self.projections = [], [], []
        for number, tree in enumerate(self.clusters.tail_trees, 1):
            narrow, projection = widths[number], None
            with row_parts.on(self.device_of(number - 1)):
                if narrow < width:
                    projection = self.add_weight(
                        name=f"projection_{number}",
                        shape=(width, narrow),
                        initializer=fresh(self.projection_initializer),
                        autocast=False,
                    )
                kernel, bias = self._add_rows(
                    f"tail_{number}",
                    tree,
                    narrow,
                    self.use_bias is True,
                    counts[number],
                )
            self.place_tail(number - 1, projection, kernel, bias)
            self.add_to_checkpoints([projection, kernel, bias])
            self.projections.append(projection)
            self.tail_kernels.append(kernel)
            self.tail_biases.append(bias)
        self.build_optimizer()

    def cutoffs_for(self, width):
        """Returns the cutoffs for inputs of a width; `build` takes them."""
        if self.clusters is not None:
            return list(self.cutoffs)
        return choose_cutoffs(
            self._counts,
            self.num_classes,
            self.cutoffs,
            self.tail,
            batch=self.batch,
            width=width,
            div_value=self.div_value,
            cost_model=self.cost_model,
        )

    def widths_for(self, width, num_tails):
        """Returns the widths of the shortlist and of the tails.

        Raises:
          ValueError: one would have none.
        """
        return tail_widths(width, self.div_value, num_tails)

    @classmethod
    def from_torch(cls, module, **kwargs):
        """Makes the layer of a `torch.nn.AdaptiveLogSoftmaxWithLoss`.

        It has copies of the module's weights, and the same losses and
        log-probabilities. A tail as wide as the inputs has no projection here:
        its product with the rows is taken instead.

        Args:
          module: the PyTorch module; PyTorch itself is not imported.
          **kwargs: more arguments of the layer, such as `ignore_class`.

        Returns:
          The layer, built.

        Raises:
          ValueError: `kwargs` has what the module decides.
        """
        return torch.from_torch(cls, module, **kwargs)

    def to_torch(self):
        """Returns a `torch.nn.AdaptiveLogSoftmaxWithLoss` with these weights.

        Raises:
          ImportError: PyTorch is not installed.
          ValueError: there is no such module: classes are not numbered by
            frequency, a tail is a tree, tails have biases, or there is none.
        """
        self.check_built()
        return torch.to_torch(self)

    def get_config(self):
        """Returns the arguments, cutoffs as in use, as JSON can hold them."""
        config = {
            **super().get_config(),
            "num_classes": self.num_classes,
            "cutoffs": self.cutoffs,
            "div_value": self.div_value,
            "tail": serialize_tail(self.tail),
            "use_bias": self.use_bias,
            "width": self.width,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "projection_initializer": keras.initializers.serialize(
                self.projection_initializer
            ),
            "bias_initializer": keras.initializers.serialize(
                self.bias_initializer
            ),
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

    @classmethod
    def from_config(cls, config):
        """Makes the layer that `get_config` described."""
        config = dict(config)
        order = config.pop("order", None)
        if order is not None:
            # Any counts that give this order.
            ranks = Tree.from_config(order).class_rows
            config["counts"] = ranks.size - ranks
        if config.get("cost_model") is not None:
            config["cost_model"] = CostModel(**config["cost_model"])
        config["tail"] = deserialize_tail(config["tail"])
        layer = cls(**unpacked(config))
        if order is not None:
            layer._ranked_counts = None
        return layer

    def _counts_of_groups(self):
        """The counts of the shortlist's rows and of each tail's; or Nones.

        Tail j is at place j.
        """
        if self._ranked_counts is None:
            return [None] * (1 + len(self.cutoffs))
        first, *tails = np.split(self._ranked_counts, self.cutoffs)
        return [np.append(first, [tail.sum() for tail in tails]), *tails]

    def _make_clusters(self, cutoffs):
        self.clusters = FrequencyClusters.make(
            self.num_classes, cutoffs, self._order, self.tail
        )
        # Python integers, which JSON can hold.
        self.cutoffs = list(self.clusters.cutoffs)
        pinned = [tree.pinned for tree in self.clusters.tail_trees]
        if self.width is not None and any(pinned):
            raise ValueError(
                f"the tree of tail {pinned.index(True)} is pinned, and every "
                "other class has no row to embed; call expand() of the tree, "
                "or leave out width"
            )
