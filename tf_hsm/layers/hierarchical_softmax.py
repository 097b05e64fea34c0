"""The hierarchical softmax as a Keras layer."""

import keras

from tf_hsm import distribute
from tf_hsm.distribute.plan_devices import (
    REPLICAS,
    is_replicas,
    replicas_here,
)
from tf_hsm.heads.sharded import ShardedHead
from tf_hsm.heads.tree_head import TiedHead, TreeHead
from tf_hsm.layers import grown_layer, pruned_layer, tied_embedding
from tf_hsm.layers.head_layer import HeadLayer
from tf_hsm.layers.in_place import InPlace
from tf_hsm.layers.layer_arguments import (
    documented,
    starting_counts,
)
from tf_hsm.layers.objective import Objective
from tf_hsm.layers.replicated import check_optimizer, check_replicas
from tf_hsm.layers.row_options import RowOptions
from tf_hsm.layers.rows import RowSpec
from tf_hsm.runtime import arguments
from tf_hsm.runtime.devices import check_present
from tf_hsm.tree import Tree
from tf_hsm.tree.tree import check_one_tree


@documented
@keras.saving.register_keras_serializable("tf_hsm")
class HierarchicalSoftmax(HeadLayer):
    """A softmax over many classes whose cost is the path to the label.

    It replaces the last Dense layer and its cross-entropy. Either

    >>> head = tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(10_000))
    >>> model = keras.Sequential([body, head])
    >>> model.compile("sgd", loss=head.loss,
    ...               metrics=[tf_hsm.metrics.Perplexity(head)])
    >>> model.fit(x, y)

    or as an endpoint, with the labels as an input of the model and no loss in
    `compile`:

    >>> losses = head(hidden, labels)
    >>> keras.Model([x, labels], losses).compile("sgd")

    `head(inputs, labels)` returns a loss per label, in nats, and adds their
    mean to the model's losses. `head(inputs)` returns the inputs. So
    `model.predict(x)` returns hidden vectors `[..., width]`, for which
    `predict_class`, `top_k`, `sample`, `log_prob` and `log_probs` answer:

    >>> log_probs, classes = head.top_k(model.predict(x), 5)

    Given KerasTensors they return KerasTensors. The `predict` of this model
    returns the most probable classes, `[...]` int64:

    >>> keras.Model(model.inputs, head.predict_class(model.outputs[0]))

    The gradients of the variables are sparse: the optimizers of
    `tf_hsm.optimizers` work on the touched rows only. The weights are never
    cast nor copied, under a mixed precision policy neither.

    With an `optimizer` of its own, the layer updates its rows in the gradient
    of its losses, and no gradient of the rows is ever stored. The optimizer of
    the model trains the other layers. Each gradient of the losses of a call is
    one step, by the weights that the losses have in the total that is
    differentiated; without a gradient there is no step. The layer divides by
    the factor of a `keras.optimizers.LossScaleOptimizer`. Accumulation of
    gradients, `use_ema` and a gradient of `log_probs` raise an error. Several
    replicas need `devices="replicas"`, which spreads the rows over them.
    `trainable=False` stops the updates. One more trainable variable, the scalar
    `step`, stays 0: its gradient asks for the step of a layer whose inputs need
    no gradient.

    >>> head = tf_hsm.layers.HierarchicalSoftmax(
    ...     tree, optimizer=tf_hsm.optimizers.RowwiseAdagrad(0.05))

    Args:
      tree: a `tf_hsm.Tree`. With a pinned tree (`Tree.pin`) the layer has one
        row for each group, which stands for the difference of two rows: Keras'
        random initializers then have sqrt(2) times their standard deviation.
      counts: `[N]`, how often each class occurs; when None, the counts of the
        tree (`tree.with_counts(None)` has none). The biases begin at
        `tree.log_prior(counts)`, so that the first steps of training need not
        learn the frequencies. A `bias_initializer` other than zeros takes
        precedence over the counts of the tree. A saved layer has its biases and
        the tree, but not these counts.
      {rows}
      {labels}
      node_labels: whether labels are rows of the tree, of leaves or of inner
        nodes, instead of classes: `tree.row_of(names)` are such labels. See
        `nodes` of `tf_hsm.hierarchical_softmax_loss`. Not possible with
        devices.
      {smoothing}
      {loss}
      z_loss: of a flat tree (`tf_hsm.Tree.flat`), the factor of the square of
        log-sum-exp in each loss: see `tf_hsm.hierarchical_softmax_loss`. Not
        possible with focal_gamma.
      logit_soft_cap: of a flat tree, the bound of the logits, 30.0 for example,
        or None: see `tf_hsm.hierarchical_softmax_loss`. Not possible with
        label_smoothing.
      {in_place}
      devices: "replicas", under a `tf.distribute.MirroredStrategy` or
        `MultiWorkerMirroredStrategy`: the tree is cut into subtrees, which are
        spread over the replicas, and each replica has a copy of a small top.
        Needs an `optimizer` of the layer.
        Or a list of names of devices, as `["GPU:0", "GPU:1"]` or
        `["/job:ps/task:0", "/job:ps/task:1"]`: the subtrees are spread over
        these, and only the top stays with the body of the model. See
        `tf_hsm.distribute`.
      plan: instead of names of devices, a `tf_hsm.distribute.Plan` of the tree;
        or beside "replicas", a plan whose cut the replicas take.
      tied_to: with `tree=Tree.flat(N)`, a `keras.layers.Embedding` of N rows of
        the width of the inputs: its rows are the weights, one variable, which
        the model's optimizer trains by the sum of both gradients.
        `kernel_initializer` has no effect. See docs/flat.md.
      {row_options}

    Attributes:
      kernel: the weights, `[tree.num_weight_rows, width]`; with a plan, the
        weights of its top, `[plan.weight_rows_of().size, width]`.
      bias: the biases of the same rows, or None.
      shard_kernels: the weights on each device of the plan, or None where it
        has no subtree or is a device of another worker; empty without a plan.
      shard_biases: the biases on each device of the plan.

    Raises:
      TypeError: an argument is of a wrong type; the message names it.
      ValueError: an argument is out of its range, or two exclude each other;
        the message names them.
    """

    def __init__(
        self,
        tree,
        *,
        counts=None,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        ignore_class=None,
        several_labels=False,
        node_labels=False,
        label_smoothing=0.0,
        smoothing_prior=None,
        class_weights=None,
        focal_gamma=0.0,
        z_loss=0.0,
        logit_soft_cap=None,
        optimizer=None,
        stochastic_rounding=None,
        seed=0,
        devices=None,
        plan=None,
        tied_to=None,
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
        check_one_tree(tree)
        if tied_to is not None:
            tied_embedding.check(
                tied_to,
                tree,
                optimizer=optimizer,
                devices=devices,
                plan=plan,
                kernel_regularizer=kernel_regularizer,
                kernel_constraint=kernel_constraint,
            )
        plan = _plan_of(tree, devices, plan, counts)
        on_replicas = is_replicas(devices)
        counts = starting_counts(counts, tree, use_bias, bias_initializer)
        _check_flat(tree, plan, z_loss=z_loss, logit_soft_cap=logit_soft_cap)
        if logit_soft_cap and label_smoothing:
            raise ValueError(
                "logit_soft_cap and label_smoothing exclude each other; leave "
                "out one of them"
            )
        if plan is not None and node_labels:
            raise ValueError(
                "node_labels is not possible with devices or a plan; leave out "
                "one of them"
            )
        super().__init__(
            lambda: [self.tree],
            Objective(
                tree.num_classes,
                ignore_class=ignore_class,
                several_labels=several_labels,
                node_labels=node_labels,
                label_smoothing=label_smoothing,
                smoothing_prior=tree._by_class(
                    smoothing_prior, "smoothing_prior"
                ),
                class_weights=tree._by_class(
                    class_weights, "class_weights", missing=1
                ),
                focal_gamma=focal_gamma,
                z_loss=z_loss,
            ),
            RowSpec(use_bias, kernel_initializer, bias_initializer),
            RowOptions(
                kernel_regularizer,
                bias_regularizer,
                kernel_constraint,
                bias_constraint,
            ),
            InPlace(optimizer, stochastic_rounding, seed),
            cuts=[plan.layout.unit_rows, plan.layout.first_units]
            if plan
            else [],
            **kwargs,
        )
        if on_replicas:
            check_optimizer(self, optimizer)
        self.tree = tree
        self.plan = plan
        self._logit_soft_cap = arguments.soft_cap(logit_soft_cap) or None
        self.tied_to = tied_to
        self._on_replicas = on_replicas
        self._counts = counts
        self.kernel = self.bias = None
        self.shard_kernels, self.shard_biases = [], []

    def _make_head(self, width):
        tree, plan, prior = self.tree, self.plan, None
        if self._counts is not None:
            prior = tree.log_prior(self._counts)
        if plan is None:
            if self.tied_to is None:
                kind, pair = TreeHead, self.rows.make(self, tree, width, prior)
            else:
                kind = TiedHead
                pair = (
                    tied_embedding.table(self.tied_to, width, self.name),
                    self.rows.make_bias(self, tree, prior),
                )
            self.kernel, self.bias = pair
            return kind(
                self.kernel,
                self.bias,
                tree,
                logit_soft_cap=self._logit_soft_cap,
            )
        if self._on_replicas:
            check_replicas(self, plan.devices)
            here = replicas_here()
        else:
            check_present(plan.devices)
            here = plan.devices

        def make_part(number, rows, device=None):
            return self.rows.make_part(
                self, number, tree, width, prior, rows, device
            )

        self.kernel, self.bias = top = make_part(0, plan.weight_rows_of())
        shards = [
            make_part(i, plan.weight_rows_of(shard), shard.device)
            if shard.num_units and shard.device in here
            else (None, None)
            for i, shard in enumerate(plan.shards, 1)
        ]
        self.shard_kernels, self.shard_biases = map(
            list, zip(*shards, strict=True)
        )
        head = ShardedHead(plan, top, shards, self._on_replicas)
        for part in head.parts:
            self._add_to_checkpoints(part.head.variables())
        return head

    @property
    def logit_soft_cap(self):
        """Read-only: `logit_soft_cap` of the constructor."""
        return self._logit_soft_cap

    def grow(self, tree, counts=None, *, like=None):
        """Returns a layer with another tree that has learned what this one has.

        The new layer has the name and the arguments of this one, which stays as
        it is, as does a model with it: `tf_hsm.grow` makes a model with the new
        layer. Both layers are in memory for a while.

        A row whose old classes are the classes of a row of this layer keeps its
        weights, its bias and the slots of the layer's own optimizer, whose
        number of steps goes on. `tree.map_rows(layer.tree)` says which. In a
        group of the same rows as before all log-probabilities are the same, to
        the bit. A class whose whole path is in such groups keeps its own too.

        The other rows begin so that they take no more than their share from
        the old rows of their group, which keep their odds against each other.
        The weights are the mean of the weights of the old rows, by their
        probabilities where inputs are zero; the bias gives the row its share
        there, and for other inputs it has less. Without biases a new row takes
        at most what a mean row has. A group of new rows alone begins with
        weights of zero and the shares as biases. Slots begin as the optimizer
        makes them.

        >>> tree = head.tree.grow(["new", "words"])
        >>> head = head.grow(tree)

        With `like`, each new class begins as a copy of an old one: it has the
        weights of its row, and the two have half of its probability each. All
        other probabilities stay.

        >>> tree = head.tree.grow(2, near=[7, 30])
        >>> head = head.grow(tree, like=[7, 30])

        A layer with a pinned tree grows to one that is not: `head.grow(
        head.tree.expand())` has the same probabilities. The rows that had no
        weights begin with zeros, and their slots anew.

        Args:
          tree: from `Tree.grow` or `Tree.rebalance`, or any other whose first
            classes are the classes of the layer.
          counts: for the shares, how often each class of `tree` occurs; when
            None, the counts of the tree, or all alike if it has none.
          like: `[M]`, the old class that each new class begins like, in the
            same group of the tree, as `near` of `Tree.grow` puts it; or None.

        Raises:
          TypeError: `tree` is not a `tf_hsm.Tree`.
          ValueError: the layer is not built, or on several devices; the tree
            is pinned, or has other classes; the counts are not one for each
            class; or `like` is not one old class of its group for each new
            class, or the layer has no biases to share.
        """
        return grown_layer.grow(self, tree, counts, like=like)

    def prune(self, keep, *, merge=True, counts=None):
        """Returns a layer for fewer classes, with the rows of this one.

        The new layer has the name and the arguments of this one, which stays as
        it is, as does a model with it: `tf_hsm.prune` makes a model with the
        new layer. Its tree is `layer.tree.prune(keep, merge=merge,
        counts=counts).tree`, which says how classes are removed. Every row
        keeps its weights, its bias and the slots of the layer's own optimizer,
        whose number of steps goes on.

        `ignore_class` and `class_weights` follow the classes. A merged class
        has the mean of the class weights, and the sum of the smoothing prior.

        >>> pruned = head.prune(10_000)
        >>> head, labels = pruned.head, pruned.classes[labels]

        Args:
          keep: see `Tree.prune`.
          merge: whether a removed class falls to its parent, which keeps all
            probabilities, or vanishes.
          counts: `[N]`, how often each class occurs; when None, the counts of
            the tree.

        Returns:
          A named tuple: the layer `head`; `classes` `[N]`, the new class of
          each old class, or -1; and `rows` `[R]`, the old row that each row of
          the new tree continues.

        Raises:
          ValueError: `Tree.prune` raises it; the layer is not built, is on
            several devices, or has the rows of an `Embedding`; or
            `ignore_class` would merge with other classes.
        """
        return pruned_layer.prune(self, keep, merge, counts)

    def _saved_variables(self):
        variables = super()._saved_variables()
        if self.tied_to is None:
            return variables
        tied_embedding.check_floats(self.tied_to, self.name)
        return [v for v in variables if v is not self.kernel]

    def _own_config(self):
        return {
            "tree": self.tree.get_config(),
            "plan": self.plan and self.plan.get_config(),
            "logit_soft_cap": self._logit_soft_cap,
            "tied_to": tied_embedding.to_config(self.tied_to),
            **({"devices": REPLICAS} if self._on_replicas else {}),
        }

    @classmethod
    def _arguments_of(cls, config):
        tree, plan = Tree.from_config(config["tree"]), config.get("plan")
        plan = plan and distribute.Plan.from_config(plan, tree)
        tied_to = tied_embedding.from_config(
            config.get("tied_to"), config.get("name")
        )
        return {**config, "tree": tree, "plan": plan, "tied_to": tied_to}


def _check_flat(tree, plan, **options):
    """A ValueError if an option is set that is for flat trees."""
    for name, value in options.items():
        if not value:
            continue
        if plan is not None:
            raise ValueError(
                f"{name} is not possible with devices or a plan; leave out one "
                "of them"
            )
        if tree.num_groups > 1 or tree.num_classes < 9 or tree.pinned:
            raise ValueError(
                f"{name} is for tf_hsm.Tree.flat with at least 9 classes, but "
                f"the tree is {tree!r}"
            )


def _plan_of(tree, devices, plan, counts):
    """The plan of a layer's arguments; None for one device."""
    if plan is not None and not isinstance(plan, distribute.Plan):
        raise TypeError(
            "plan must be a tf_hsm.distribute.Plan, but is "
            f"{type(plan).__name__}"
        )
    if plan is not None and plan.tree != tree:
        raise ValueError("the plan is one of another tree than the layer's")
    if is_replicas(devices) and plan is not None:
        return plan.on(devices)
    if devices is not None:
        if plan is not None:
            raise ValueError("give devices or a plan, not both")
        return distribute.plan(tree, devices, counts=counts)
    return plan
