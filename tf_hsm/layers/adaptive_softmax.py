"""The adaptive softmax as a Keras layer."""

import keras

from tf_hsm.converters import torch
from tf_hsm.heads import part_calls
from tf_hsm.heads.cluster_head import ClusterHead
from tf_hsm.heads.parts import Part
from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.layers import grown_layer, tied_rows
from tf_hsm.layers.answering_layer import option
from tf_hsm.layers.head_layer import HeadLayer
from tf_hsm.layers.in_place import InPlace
from tf_hsm.layers.initial_values import of_number
from tf_hsm.layers.layer_arguments import documented, width_of
from tf_hsm.layers.objective import Objective
from tf_hsm.layers.row_options import RowOptions
from tf_hsm.layers.rows import RowSpec
from tf_hsm.layers.tail_places import TailPlaces
from tf_hsm.partition.cluster_spec import ClusterSpec, unpacked
from tf_hsm.runtime import quantized_rows, row_parts

_USE_BIAS = (True, False, "head")


@documented
@keras.saving.register_keras_serializable("tf_hsm")
class AdaptiveSoftmax(HeadLayer):
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

    With an `optimizer` of its own, the layer updates its rows in the gradient
    of its losses, as `HierarchicalSoftmax` does: one step of the shortlist and
    of all tails. The projections, which are small, stay variables that the
    model trains. Rows that embed make a second step, in the gradient of their
    vectors: see docs/adaptive.md.

    Args:
      num_classes: N, the number of classes.
      cutoffs: ascending, from 1 to N - 1: tail j holds the classes from cutoff
        j on; `[]` is a flat softmax. Or how many tails there are, or "auto":
        then `build` chooses the cutoffs that take the least time by the cost
        model, for `batch` examples as frequent as the counts say.
      div_value: how much narrower each tail is than the one before; at least 1.
      counts: `[N]`, how often each class occurs, which the biases begin with;
        None: the classes are numbered by falling frequency, which follows
        Zipf's law.
      tail: "flat" if a tail is one group; "two_level", or the branching of a
        balanced tree; or a list with one of these, or a `tf_hsm.Tree`, for each
        tail, whose classes are the classes of the tail by falling frequency. A
        tree may be pinned, but not where the layer embeds.
      width: the width of the inputs, which the layer must know to embed; else
        None.
      batch: the examples in a step, for which cutoffs are chosen.
      cost_model: the `tf_hsm.CostModel` by which cutoffs are chosen; None: the
        model of a machine of two cores.
      use_bias: whether each row has a bias; "head": only the shortlist's rows.
      kernel_initializer: for the rows; None: uniform in +-1 / sqrt(their
        width).
      projection_initializer: for the projections `[width, width of the tail]`.
      bias_initializer: for the biases, where there are no counts.
      {labels}
      {smoothing}
      {loss}
      {in_place}
      devices: a list of names of devices as for `HierarchicalSoftmax`: tail j
        has its rows and its projection on device number j, or in turn where
        there are fewer devices; the shortlist stays with the body of the model.
        Or "replicas", under a `tf.distribute.MirroredStrategy` or
        `MultiWorkerMirroredStrategy`: tail j has its rows on replica number j,
        or in turn where there are fewer replicas. Each replica has a copy of
        the shortlist and of the projections. Needs an `optimizer` of the layer,
        and excludes `embed`.
      {row_options}

    Attributes:
      cutoffs: the cutoffs in use, once the layer is built.
      clusters: the trees of the shortlist and the tails, once it is built.
      head_kernel: of the shortlist, `[n + J, width]`, for its n classes and J
        tails.
      head_bias: `[n + J]`, or None.
      projections: for each tail `[width, its width]`, or None. Projections have
        no regularizers and no constraints.
      tail_kernels: for each tail `[rows, its width]`; None for a tail that
        another worker has.
      tail_biases: for each tail `[rows]`, or None.

    Raises:
      TypeError: an argument is of a wrong type; the message names it.
      ValueError: an argument is out of range; the message names it.
    """

    clusters = option("spec", "clusters")
    cutoffs = option("spec", "cutoffs")
    width = option("spec", "width")
    div_value = option("spec", "div_value")
    tail = option("spec", "tail")
    batch = option("spec", "batch")
    cost_model = option("spec", "cost_model")

    _unsupported = ("node_labels", "z_loss")

    def __init__(
        self,
        num_classes,
        *,
        cutoffs="auto",
        div_value=4.0,
        counts=None,
        tail="flat",
        width=None,
        batch=1024,
        cost_model=None,
        use_bias=True,
        kernel_initializer=None,
        projection_initializer="glorot_uniform",
        bias_initializer="zeros",
        ignore_class=None,
        several_labels=False,
        label_smoothing=0.0,
        smoothing_prior=None,
        class_weights=None,
        focal_gamma=0.0,
        optimizer=None,
        stochastic_rounding=None,
        seed=0,
        devices=None,
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
        clusters = (cutoffs, div_value, counts, tail, width, batch, cost_model)
        spec = ClusterSpec(num_classes, *clusters)
        if use_bias not in _USE_BIAS:
            raise ValueError(
                f"use_bias is {use_bias!r}; it must be one of {_USE_BIAS}"
            )
        if use_bias != "head":
            use_bias = bool(use_bias)  # NumPy's bool equals one of the values
        if kernel_initializer is None:
            kernel_initializer = keras.initializers.VarianceScaling(
                1 / 3, mode="fan_out", distribution="uniform"
            )
        super().__init__(
            lambda: self.spec.trees(),
            Objective(
                spec.num_classes,
                ignore_class=ignore_class,
                several_labels=several_labels,
                label_smoothing=label_smoothing,
                smoothing_prior=smoothing_prior,
                class_weights=class_weights,
                focal_gamma=focal_gamma,
            ),
            RowSpec(use_bias, kernel_initializer, bias_initializer),
            RowOptions(
                kernel_regularizer,
                bias_regularizer,
                kernel_constraint,
                bias_constraint,
            ),
            InPlace(optimizer, stochastic_rounding, seed),
            **kwargs,
        )
        self._places = TailPlaces(self, devices, optimizer)
        self.devices = self._places.given
        self._on_replicas = self._places.on_replicas
        self.spec = spec
        get = keras.initializers.get
        self.projection_initializer = get(projection_initializer)
        self.head_kernel = self.head_bias = None

    def _width_of(self, inputs_shape):
        return self.width or width_of(inputs_shape)

    def _make_head(self, width):
        self.spec.choose(width)
        self._row_order.check()
        self._places.check(self)
        widths = self.spec.widths_for(width, len(self.cutoffs))
        counts = [None] * len(widths)
        if self.spec.ranked_counts is not None:
            counts = self.clusters.split(self.spec.ranked_counts)
        tree, use_bias = self.clusters.shortlist_tree, bool(self.use_bias)
        shortlist = self._make_part(0, tree, width, use_bias, counts[0])
        self.head_kernel, self.head_bias = shortlist.weights, shortlist.biases
        self.tail_kernels, self.tail_biases, self.projections = [], [], []
        tails = [
            self._make_tail(number, tree, width, widths[number], counts[number])
            for number, tree in enumerate(self.clusters.tail_trees, 1)
        ]
        owners = self._places.owners(len(tails))
        return ClusterHead(self.clusters, shortlist, tuple(tails), owners)

    def _make_part(self, number, tree, width, use_bias, counts, device=None):
        """Makes the `TreeHead` of a cluster; see `RowSpec.make`."""
        prior = None if counts is None else tree.log_prior(counts)
        rows = self.rows.of_cluster(number, use_bias)
        prefix = f"tail_{number}_" if number else "head_"
        made = rows.make(self, tree, width, prior, prefix, device)
        return TreeHead(*made, tree)

    def _make_tail(self, number, tree, width, narrow, counts):
        """Makes the `Part` of a tail, numbered from 1, on its device."""
        device = self._places.of_projection(number)
        projection = None
        if narrow < width:
            with row_parts.on(device):
                projection = self.add_weight(
                    name=f"projection_{number}",
                    shape=(width, narrow),
                    initializer=of_number(self.projection_initializer, number),
                    autocast=False,
                )
            row_parts.place(projection, device)
        use_bias = self.use_bias is True
        head = self._places.make_rows(
            number,
            tree,
            lambda device: self._make_part(
                number, tree, narrow, use_bias, counts, device
            ),
        )
        self._add_to_checkpoints([projection, *head.variables()])
        self.projections.append(projection)
        self.tail_kernels.append(head.weights)
        self.tail_biases.append(head.biases)
        begin = self.cutoffs[number - 1]
        row = self.clusters.shortlist_size + number - 1
        ranks = slice(begin, begin + tree.num_classes)
        units = slice(row, row + 1)
        return Part(head, number, units, ranks, device, projection)

    def call(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        embed=False,
    ):
        """Returns hidden vectors or losses; or the vectors of classes.

        Args:
          inputs: `[..., width]`; with `embed`, classes `[...]`.
          labels: see `HierarchicalSoftmax.call`.
          sample_weight: the weights of the losses in the mean.
          inputs_mask: `[...]` bool, the inputs that count.
          embed: whether to return the vectors `[..., width]` of classes, as
            `embed` does.
        """
        if embed:
            return self.embed(inputs)
        return super().call(inputs, labels, sample_weight, inputs_mask)

    def compute_output_spec(
        self,
        inputs,
        labels=None,
        sample_weight=None,
        inputs_mask=None,
        embed=False,
    ):
        """Returns the shape and type of what `call` returns."""
        if embed:
            tied_rows.check_embeds(self)
            return keras.KerasTensor(
                (*inputs.shape, self.width), dtype=self.compute_dtype
            )
        return super().compute_output_spec(
            inputs, labels, sample_weight, inputs_mask
        )

    def embed(self, classes):
        """Returns the vectors `[..., width]` of classes `[...]`.

        The vector of a class is its row: in the shortlist as it is; in a tail,
        which is narrower, multiplied by the transposed projection. Only the
        rows of the given classes are read. With an optimizer of the layer's
        own, the gradient of the vectors makes a step of their rows:
        docs/adaptive.md.

        Raises:
          tf.errors.InvalidArgumentError: a class is not in [0, num_classes).
          TypeError: classes are not integers.
          ValueError: the layer was made without `width`, is not built, or
            trains itself and has rows that no op updates where they are.
        """
        return tied_rows.vectors(self, classes)

    def grow(self, num_classes, counts=None):
        """Returns a layer for more classes that has learned what this one has.

        The new layer has the name and the arguments of this one, which stays as
        it is, as does a model with it: `tf_hsm.grow` makes a model with the new
        layer.

        New classes have the numbers after the old ones and are the rarest: they
        join the last tail, however often they occur. Where there are no tails,
        they join the shortlist. A flat tail stays flat; the tree of another one
        grows by `Tree.grow`.

        Old rows and all projections keep their values. With tails, the classes
        of the shortlist and of the other tails keep their log-probabilities to
        the bit. The probability of the last tail as a whole stays too, and now
        includes the new classes: they take theirs from the old classes of that
        tail, which keep their odds against each other in each group. New rows
        begin as `HierarchicalSoftmax.grow` says. The slots of the layer's own
        optimizer, and its number of steps, go on. A layer that embeds has the
        vectors of new classes with these rows.

        >>> head = head.grow(head.num_classes + 100)

        Args:
          num_classes: how many classes there are now.
          counts: `[num_classes]`, how often each class occurs, for the shares
            that new rows take; all alike when None. They do not change the
            order of the classes.

        Raises:
          ValueError: the layer is not built; there are fewer classes than
            before; the tree of the last tail is pinned; or the counts are not
            one for each class.
        """
        return grown_layer.grow_clusters(self, num_classes, counts)

    @classmethod
    def from_torch(cls, module, **kwargs):
        """Makes a built layer of a `torch.nn.AdaptiveLogSoftmaxWithLoss`.

        The layer has copies of the module's weights in their type, unless
        `dtype` is given, and the same losses and log-probabilities. A tail as
        wide as the inputs has no projection, but its product with the rows.

        Args:
          module: the PyTorch module; PyTorch itself is not imported.
          **kwargs: more arguments of the layer, such as `ignore_class`.

        Raises:
          TypeError: `module` is something else.
          ValueError: `kwargs` has an argument that the module decides.
        """
        return torch.from_torch(cls, module, **kwargs)

    def to_torch(self):
        """Returns a `torch.nn.AdaptiveLogSoftmaxWithLoss` with these weights.

        Its parameters have the type of the layer's variables.

        Raises:
          ImportError: PyTorch is not installed.
          ValueError: there is no such module: classes are not numbered by
            frequency, a tail is a tree, tails have biases, or there is none;
            or other workers have some of the tails.
        """
        self._check_built()
        part_calls.check_here(self._head.tree_heads())
        return torch.to_torch(self)

    def _saved_variables(self):
        """Returns all variables in the order in which `build` makes them.

        Keras' order, which a subclass may have added to, has the variables
        first that the model trains.
        """
        variables = super()._saved_variables()
        if not self.built:
            return variables
        part_calls.check_here(self._head.tree_heads())
        tails = zip(
            self.projections, self.tail_kernels, self.tail_biases, strict=True
        )
        own = [self.head_kernel, self.head_bias, *(v for t in tails for v in t)]
        own = [v for value in own for v in quantized_rows.variables(value)]
        own = [v for v in own if v is not None]
        known = {id(v) for v in own}
        return own + [v for v in variables if id(v) not in known]

    def _device_names(self):
        """Returns the names of the devices of the tails, if any."""
        return self._places.devices

    def _own_config(self):
        return {
            **self.spec.get_config(),
            "projection_initializer": keras.initializers.serialize(
                self.projection_initializer
            ),
            "devices": list(self.devices)
            if isinstance(self.devices, tuple)
            else self.devices,
        }

    @classmethod
    def _arguments_of(cls, config):
        return unpacked(config)
