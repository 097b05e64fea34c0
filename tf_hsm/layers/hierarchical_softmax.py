"""The hierarchical softmax as a Keras layer."""

import contextlib
import functools

import keras
import tensorflow as tf

from tf_hsm import _checks, distribute
from tf_hsm.distribute.sharded_head import ShardedHead
from tf_hsm.distribute.sharded_rows import ShardedRows
from tf_hsm.layers._growth import HeadGrowth
from tf_hsm.layers._head_layer import HeadLayer
from tf_hsm.layers._label_smoothing import LabelSmoothing, with_prior
from tf_hsm.layers._own_optimizer import OwnOptimizer
from tf_hsm.layers._predictions import Predictions
from tf_hsm.layers._row_options import RowOptions
from tf_hsm.layers._row_variables import RowVariables
from tf_hsm.layers._training_loss import TrainingLoss, unpacked
from tf_hsm.layers._whole_head import WholeHead
from tf_hsm.runtime import row_order, row_parts
from tf_hsm.runtime.devices import check_present
from tf_hsm.runtime.tree_tensors import mask_tensors
from tf_hsm.tree import Tree


@keras.saving.register_keras_serializable("tf_hsm")
class HierarchicalSoftmax(
    HeadGrowth,
    Predictions,
    OwnOptimizer,
    RowOptions,
    LabelSmoothing,
    TrainingLoss,
    HeadLayer,
):
    """A softmax over many classes whose cost is the path to the label.

    It replaces the last Dense layer and its cross-entropy. Either

    >>> head = tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(10_000))
    >>> model = keras.Sequential([body, head])
    >>> model.compile("sgd", loss=head.loss,
    ...               metrics=[tf_hsm.metrics.Perplexity()])
    >>> model.fit(x, y)

    where the loss and the metrics find the layer and its inputs on what
    `head(inputs)` returns; or as an endpoint, with the labels as an input of
    the model and no loss in `compile`:

    >>> losses = head(hidden, labels)
    >>> keras.Model([x, labels], losses).compile("sgd")

    where `head(inputs, labels)` returns a loss per label, in nats, and adds
    their mean to the model's losses.

    Trained, `head(inputs)` is the most probable class of each input, `[...]`
    int64, and so is what `model.predict(x)` returns. `log_probs`, `log_prob`,
    `top_k` and `sample` answer more. Given KerasTensors they return such, so
    that a functional model can return their answers:

    >>> keras.Model(model.inputs[0], head.top_k(head.input, 5))

    The gradients of the variables are sparse: those of `tf_hsm.optimizers` take
    work on the touched rows only. The weights are never cast nor copied, under
    a mixed precision policy too.

    With an `optimizer` of its own the layer updates its weights itself, in the
    pass over them that makes the losses: no gradient of them is ever stored.
    Its variables are then not trainable ones of the model, whose optimizer
    trains the rest. They move whenever the layer is called for training with
    labels (in `fit`: once per step, or once for each call where a model calls
    it several times), by the gradient of the layer's own loss: loss scaling,
    accumulation of gradients, several replicas and a gradient of `log_probs`
    are refused. `trainable=False` stops that too.

    >>> head = tf_hsm.layers.HierarchicalSoftmax(
    ...     tree, optimizer=tf_hsm.optimizers.RowwiseAdagrad(0.1))

    Args:
      tree: a `tf_hsm.Tree`. Of a pinned one (`Tree.pin`) the layer has one row
        for each group.
      use_bias: whether each row has a bias.
      ignore_class: a label whose loss is 0 and does not count, or None.
      optimizer: None; or one that `tf_hsm.optimizers` says can step in place,
        or its name there, for this layer alone. See
        `tf_hsm.hierarchical_softmax_train_step`. A layer that is called twice
        in a model makes two steps, one after the other. Callbacks that set the
        learning rate of the model's optimizer do not set this one's, which
        may be a schedule.
      stochastic_rounding: with `optimizer`, whether bfloat16 weights are
        rounded at random such that the mean is kept; None: yes.
      seed: of stochastic_rounding, an integer.
      kernel_initializer: for the kernel, `[rows, width]`. A row of a pinned
        tree stands for the difference of two: random numbers of Keras'
        initializers then have sqrt(2) times the standard deviation that they
        have in a kernel of all rows.
      bias_initializer: for the bias, `[rows]`.
      counts: `[N]`, how often each class occurs; None: not known. The biases
        then begin at `tree.log_prior(counts)` instead, from where the first
        steps of training need not learn the frequencies. Not saved: a saved
        layer has its biases.
      devices: a list of names of devices, as `["GPU:0", "GPU:1"]` or
        `["/job:ps/task:0", "/job:ps/task:1"]`: the tree is cut into subtrees,
        which are spread over them, and only a small top stays with the body of
        the model. See `tf_hsm.distribute`.
      plan: instead of devices, a `tf_hsm.distribute.Plan` of the tree.
      node_labels: whether labels are rows of the tree, of leaves or of inner
        nodes, instead of classes: `tree.row_of(names)` are such labels. See
        `nodes` of `tf_hsm.hierarchical_softmax_loss`.
      label_smoothing: in training, that of `tf_hsm.hierarchical_softmax_loss`;
        in `evaluate`, losses and perplexity are those without. Not with
        devices.
      smoothing_prior: `[N]`, how often each class occurs, or any other numbers
        of at least 0: label smoothing goes towards them, by their shares in
        each group (`tree.row_shares`), instead of evenly. Saved with the layer;
        where it grows, a new class has the mean of all others.
      **kwargs: as for every Keras layer: `name`, `dtype`, `trainable`;
        `several_labels`: whether labels are `[..., M]`, or ragged, several for
        each input, whose loss is then the mean of theirs (negative numbers
        are no labels, and an input without any does not count; with
        `sample_weight` `[..., M]`, the probabilities of a teacher, say, it is
        the sum of theirs, each times its weight);
        `class_weights`: `[N]`, or a dictionary of classes, of which others
        have 1: in training, the loss of a label is times that of its class;
        `focal_gamma`: in training, that of `tf_hsm.losses.focal_loss`, not
        with label_smoothing; and `kernel_regularizer`, `bias_regularizer`,
        `kernel_constraint` and `bias_constraint`, which are for the rows that a
        batch touches: see `tf_hsm.layers`. Not possible with an `optimizer`.

    Attributes:
      kernel: the weights, `[tree.num_weight_rows, width]`; with a plan, those
        of its top, `[plan.weight_rows_of().size, width]`.
      bias: `[tree.num_weight_rows]`, or None; with a plan, likewise.
      shard_kernels: the weights on each device of the plan, or None where it
        has no subtree; empty without a plan.
      shard_biases: likewise.

    Raises:
      TypeError: `tree` is not a `tf_hsm.Tree`, `ignore_class` no integer, or
        `optimizer` not of `tf_hsm.optimizers`.
      ValueError: `optimizer` does what is not possible in place, or there is a
        regularizer or a constraint beside it.
    """

    def __init__(
        self,
        tree,
        use_bias=True,
        ignore_class=None,
        optimizer=None,
        stochastic_rounding=None,
        seed=0,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        counts=None,
        devices=None,
        plan=None,
        node_labels=False,
        label_smoothing=0.0,
        smoothing_prior=None,
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
        if not isinstance(tree, Tree):
            raise TypeError(
                f"tree must be a tf_hsm.Tree, but is {type(tree).__name__}"
            )
        self.tree = tree
        self.check_training_loss()
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.bias = None
        self._counts = counts
        if counts is not None:
            self._counts = _checks.check_counts(counts, tree.num_classes)
            if not use_bias:
                raise ValueError("counts set the biases, but use_bias is False")
        self.plan = _plan_of(tree, devices, plan, self._counts)
        self.node_labels = bool(node_labels)
        self.set_smoothing(label_smoothing, smoothing_prior)
        for name in ("node_labels", "label_smoothing"):
            if getattr(self, name) and self.plan is not None:
                raise ValueError(
                    f"{name} is not possible with devices or a plan; leave out "
                    "one of them"
                )
        if self.focal_gamma and self.label_smoothing:
            raise ValueError(
                "focal_gamma is for the probability of the label, which a loss "
                "with label_smoothing does not tell; leave out one of them"
            )
        if self.class_weights is not None and self.node_labels:
            raise ValueError(
                "class_weights are not those of inner nodes, which labels are "
                "with node_labels; give sample weights instead"
            )
        self.shard_kernels = []
        self.shard_biases = []

    @property
    def num_classes(self):
        """N."""
        return self.tree.num_classes

    def build(self, inputs_shape, labels_shape=None):
        """Makes the variables for inputs `[..., width]`."""
        del labels_shape
        prior = None
        if self._counts is not None:
            prior = self.tree.log_prior(self._counts)
        variables = RowVariables(self, self.width_of(inputs_shape), prior)
        if self.plan is None:
            self.kernel, self.bias = variables.whole()
            self._head = WholeHead(
                self.kernel, self.bias, self.tree, self.node_labels
            )
        else:
            self._build_parts(variables)
        self.build_optimizer()

    def _build_parts(self, variables):
        plan = self.plan
        check_present(plan.devices)
        self.kernel, self.bias = top = variables.part(0, plan.weight_rows_of())
        shards = [
            variables.part(i, plan.weight_rows_of(shard), shard.device)
            if shard.num_units
            else (None, None)
            for i, shard in enumerate(plan.shards, 1)
        ]
        self.shard_kernels, self.shard_biases = map(
            list, zip(*shards, strict=True)
        )
        self.add_to_checkpoints([*self.shard_kernels, *self.shard_biases])
        self._head = ShardedHead(ShardedRows(plan, top, shards))

    def row_variables(self):
        """Returns the weights and biases, part by part."""
        pairs = [
            (self.kernel, self.bias),
            *zip(self.shard_kernels, self.shard_biases, strict=True),
        ]
        return [v for pair in pairs for v in pair if v is not None]

    def compute_losses(self, labels, inputs, ignored, loss_weights, **options):
        """Returns the loss per label; with `loss_weights`, makes a step."""
        if loss_weights is None:
            visit = functools.partial(
                self.add_penalties, nodes=self.node_labels
            )
            return self._head.loss(labels, inputs, ignored, visit, **options)
        return self._head.train_step(
            labels,
            inputs,
            self.optimizer,
            loss_weights=loss_weights,
            ignore_class=ignored,
            stochastic_rounding=self.stochastic_rounding,
            seed=self.seed,
            **options,
        )

    def training_losses(self, labels, inputs, ignored, loss_weights):
        """Returns those that are minimized."""
        return self.compute_losses(
            labels, inputs, ignored, loss_weights, **self.smoothing_options()
        )

    def hits(self, classes, labels):
        """Which classes `[..., k]` are labels `[...]`, or below them, bool."""
        if not self.node_labels:
            return super().hits(classes, labels)
        class_ranks, row_spans = mask_tensors(self.tree, self.kernel)
        # Ignored labels may be anything.
        rows = tf.clip_by_value(
            tf.cast(labels, tf.int64), 0, self.tree.num_rows - 1
        )
        spans = tf.gather(row_spans, rows)[..., tf.newaxis, :]
        ranks = tf.gather(class_ranks, classes)
        return (ranks >= spans[..., 0]) & (ranks < spans[..., 1])

    @contextlib.contextmanager
    def on_one_device(self):
        """Within, a head with a plan answers from a copy on the default device.

        Raises:
          ValueError: the head is not built.
        """
        self.check_built()
        if self.plan is None:
            yield
            return
        copy = HierarchicalSoftmax(
            self.tree, self.use_bias, dtype=self.dtype_policy
        )
        copy.build([None, self.kernel.shape[1]])
        distribute.copy_weights(self, copy)
        own, self._head = self._head, copy._head
        try:
            yield
        finally:
            self._head = own

    def row_order(self):
        """The tree."""
        return row_order.parts_of(self.tree)

    def variable_order(self):
        """The tree, and what each device of the plan has of it."""
        plan = self.plan
        return row_order.parts_of(
            self.tree,
            [plan._layout.unit_rows, plan._layout.first_units] if plan else [],
        )

    def other_variables(self):
        """What is said of a `tf.train.Checkpoint` with another order."""
        if self.plan is None:
            return self.other_order()
        return (
            f"{self.name}: the checkpoint is of a head with another tree, or "
            "whose devices had other parts of it; make the head with that "
            "plan, or see tf_hsm.distribute.checkpoint"
        )

    def write_variables(self, store):
        """Writes the weights, with a plan as those of one device."""
        if self.plan is None:
            super().write_variables(store)
        else:
            row_parts.save(self._saved(), store)

    def read_variables(self, store):
        """Reads the weights, whatever devices they were on."""
        if self.plan is None:
            super().read_variables(store)
        else:
            row_parts.load(self._saved(), store)

    def _saved(self):
        # In the order of Keras, which a subclass may have added to.
        return [*self._trainable_variables, *self._non_trainable_variables]

    def get_config(self):
        """Returns the arguments, the tree in full, as JSON can hold them."""
        return {
            **super().get_config(),
            "tree": self.tree.get_config(),
            "plan": self.plan and self.plan.get_config(),
            "node_labels": self.node_labels,
            **self.smoothing_config(self.num_classes),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "bias_initializer": keras.initializers.serialize(
                self.bias_initializer
            ),
        }

    @classmethod
    def from_config(cls, config):
        """Makes the layer that `get_config` described."""
        tree = Tree.from_config(config["tree"])
        plan = config.get("plan")
        plan = plan and distribute.Plan.from_config(plan, tree)
        config = with_prior(unpacked(config))
        return cls(**{**config, "tree": tree, "plan": plan})


def _plan_of(tree, devices, plan, counts):
    """The plan of a layer's arguments; None for one device."""
    if devices is not None:
        if plan is not None:
            raise ValueError("give devices or a plan, not both")
        return distribute.plan(tree, devices, counts=counts)
    if plan is not None and not isinstance(plan, distribute.Plan):
        raise TypeError(
            "plan must be a tf_hsm.distribute.Plan, but is "
            f"{type(plan).__name__}"
        )
    if plan is not None and plan.tree != tree:
        raise ValueError("the plan is one of another tree than the layer's")
    return plan
