"""The probabilistic label tree as a Keras layer."""

import contextlib

import keras
import tensorflow as tf

from tf_hsm.label_counts import LabelCounts
from tf_hsm.layers._head_answer import in_functional_models
from tf_hsm.layers._head_layer import HeadLayer
from tf_hsm.layers._own_optimizer import OwnOptimizer
from tf_hsm.layers._row_options import RowOptions
from tf_hsm.layers._row_variables import RowVariables
from tf_hsm.ops.label_tree import (
    label_tree_log_prob,
    label_tree_loss,
    label_tree_top_k,
    label_tree_train_step,
)
from tf_hsm.runtime import label_sets, row_order
from tf_hsm.tree import Tree
from tf_hsm.tree.check import check_not_pinned


@keras.saving.register_keras_serializable("tf_hsm")
class LabelTree(OwnOptimizer, RowOptions, HeadLayer):
    """Probabilities of many labels, any number of which may be right.

    Each node of the tree has a sigmoid: how probable it is that a label is at
    or below it, if one is below its parent (Jasinska et al., 2016). A step
    costs the groups on the paths of the labels, and the root's:

    >>> head = tf_hsm.layers.LabelTree(tf_hsm.Tree.balanced(500_000, 100))
    >>> model = keras.Sequential([body, head])
    >>> model.compile("sgd", loss=head.loss,
    ...               metrics=[tf_hsm.metrics.PrecisionAtK(5)])
    >>> model.fit(x, labels)

    Labels are `[..., M]` integers, where negative numbers stand for none, or
    ragged. An input without labels is trained on too: all its labels are wrong.
    The layer is also an endpoint, `head(hidden, labels)`, and `top_k` and
    `log_prob` take KerasTensors: see `HierarchicalSoftmax`. Trained,
    `head(inputs)` is the most probable label of each input.

    Args:
      tree: a `tf_hsm.Tree`, whose classes are the labels.
      use_bias: whether each row has a bias.
      ignore_class: another number that stands for no label; or None.
      optimizer: None; or one that updates the weights in the pass that makes
        the losses: see `HierarchicalSoftmax`.
      stochastic_rounding: with `optimizer`, whether bfloat16 weights are
        rounded at random such that the mean is kept; None: yes.
      seed: of stochastic_rounding, an integer.
      kernel_initializer: for the kernel, `[rows, width]`.
      bias_initializer: for the bias, `[rows]`.
      counts: the `tf_hsm.LabelCounts` of the data; None: not known. The biases
        then begin at `counts.log_odds()` instead, where each node is as
        probable as its labels are frequent. Not saved: a saved layer has its
        biases.
      **kwargs: as for every Keras layer: `name`, `dtype`, `trainable`; and
        `kernel_regularizer`, `bias_regularizer`, `kernel_constraint` and
        `bias_constraint`, which are for the rows that a batch touches: see
        `tf_hsm.layers`. Not possible with an `optimizer`.

    Attributes:
      kernel: the weights, `[tree.num_rows, width]`.
      bias: `[tree.num_rows]`, or None.

    Raises:
      TypeError: `tree` is not a `tf_hsm.Tree`, `counts` no
        `tf_hsm.LabelCounts`, `ignore_class` no integer, or `optimizer` not of
        `tf_hsm.optimizers`.
      ValueError: `tree` is pinned; `optimizer` does what is not possible in
        place, or there is a regularizer or a constraint beside it; or `counts`
        are of another tree, or there are no biases for them.
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
        **kwargs,
    ):
        """See the class."""
        super().__init__(
            ignore_class,
            several_labels=True,
            optimizer=optimizer,
            stochastic_rounding=stochastic_rounding,
            seed=seed,
            **kwargs,
        )
        if not isinstance(tree, Tree):
            raise TypeError(
                f"tree must be a tf_hsm.Tree, but is {type(tree).__name__}"
            )
        check_not_pinned(tree, "a label tree")
        self.tree = tree
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel = self.bias = None
        _check_counts(counts, tree, use_bias)
        self._counts = counts

    @property
    def num_classes(self):
        """N, the number of labels."""
        return self.tree.num_classes

    def build(self, inputs_shape, labels_shape=None):
        """Makes the variables for inputs `[..., width]`."""
        del labels_shape
        width = self.width_of(inputs_shape)
        prior = None if self._counts is None else self._counts.log_odds()
        self.kernel, self.bias = RowVariables(self, width, prior).whole()
        self.build_optimizer()

    def row_order(self):
        """The tree."""
        return row_order.parts_of(self.tree)

    def row_variables(self):
        """Returns the weights and, if there are any, the biases."""
        return [v for v in (self.kernel, self.bias) if v is not None]

    def split_weights(self, sample_weight, labels):
        """Weights `[..., 1]` are those of inputs, also of one label each."""
        weights, label_weights = super().split_weights(sample_weight, labels)
        if label_weights is not None and label_weights.shape[-1] == 1:
            return label_weights, None
        return weights, label_weights

    def label_losses(
        self,
        labels,
        inputs,
        inputs_mask=None,
        reduction=None,
        training=False,
        label_weights=None,
    ):
        """Returns the loss per input, in nats, and which inputs count.

        See `HeadLayer`. What is masked is left out: it has no labels, but that
        would be a loss.

        Raises:
          ValueError: there are `label_weights`.
        """
        del training
        if label_weights is not None:
            raise ValueError(
                f"{self.name}: a label tree's loss is one of all labels of an "
                "input; sample_weight must have one number for each input"
            )
        labels = label_sets.read(labels, inputs, self.ignore_class)
        mask = None if inputs_mask is None else tf.cast(inputs_mask, tf.bool)
        loss_weights = None
        if reduction is not None and self.trainable:
            loss_weights = reduction.loss_weights(
                tf.reduce_any(labels >= 0, -1), mask, self.loss_dtype
            )
        if mask is None:
            return self.compute_losses(labels, inputs, loss_weights), None
        kept = tf.where(mask)
        if loss_weights is not None:
            loss_weights = tf.gather_nd(loss_weights, kept)
        losses = self.compute_losses(
            tf.gather_nd(labels, kept), tf.gather_nd(inputs, kept), loss_weights
        )
        shape = tf.shape(mask, out_type=kept.dtype)
        return tf.scatter_nd(kept, losses, shape), mask

    def compute_losses(self, labels, inputs, loss_weights):
        """Returns the loss per input; with `loss_weights`, makes a step."""
        if loss_weights is None:
            losses = label_tree_loss(
                self.kernel, self.bias, labels, inputs, self.tree
            )
            self.add_penalties(
                self.tree,
                self.kernel,
                self.bias,
                labels,
                [label_sets.NONE],
                losses,
            )
            return losses
        return label_tree_train_step(
            self.kernel,
            self.bias,
            labels,
            inputs,
            self.tree,
            self.optimizer,
            loss_weights=loss_weights,
            stochastic_rounding=self.stochastic_rounding,
            seed=self.seed,
        )

    @in_functional_models
    def log_prob(self, classes, inputs):
        """Log-probabilities of given labels `[..., C]`, in nats.

        See `tf_hsm.label_tree_log_prob`.
        """
        self.check_built()
        return label_tree_log_prob(
            self.kernel, self.bias, classes, inputs, self.tree
        )

    @in_functional_models
    def top_k(self, inputs, k, threshold=None, allowed=None):
        """The k best labels: `(log_probs, classes)`, each `[..., k]`.

        With a threshold, a probability, only those that are as probable; with
        `allowed`, only these labels. See `tf_hsm.label_tree_top_k`.
        """
        self.check_built()
        return label_tree_top_k(
            self.kernel, self.bias, inputs, self.tree, k, threshold, allowed
        )

    def on_one_device(self):
        """Within, the head answers from one device, as it always does."""
        return contextlib.nullcontext()

    def predict_class(self, inputs):
        """The most probable label of each input, `[...]` int64."""
        return self.top_k(inputs, 1).classes[..., 0]

    def get_config(self):
        """Returns the arguments, the tree in full, as JSON can hold them."""
        config = {
            **super().get_config(),
            "tree": self.tree.get_config(),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "bias_initializer": keras.initializers.serialize(
                self.bias_initializer
            ),
        }
        del config["several_labels"]
        return config

    @classmethod
    def from_config(cls, config):
        """Makes the layer that `get_config` described."""
        return cls(**{**config, "tree": Tree.from_config(config["tree"])})


def _check_counts(counts, tree, use_bias):
    """Raises an error unless biases of the tree can begin with the counts."""
    if counts is None:
        return
    if not isinstance(counts, LabelCounts):
        raise TypeError(
            "counts must be a tf_hsm.LabelCounts, but is "
            f"{type(counts).__name__}: LabelCounts.of(tree, labels) counts "
            "label sets, LabelCounts.expected(tree, counts, examples) takes "
            "how often each label occurs"
        )
    if counts.tree != tree:
        raise ValueError("counts are those of another tree than the layer's")
    if not use_bias:
        raise ValueError("counts set the biases, but use_bias is False")
