"""The probabilistic label tree as a Keras layer."""

import keras

from tf_hsm.heads.label_tree_head import LabelTreeHead
from tf_hsm.layers import grown_layer, pruned_layer
from tf_hsm.layers.head_layer import HeadLayer
from tf_hsm.layers.in_place import InPlace
from tf_hsm.layers.label_set_objective import LabelSetObjective
from tf_hsm.layers.layer_arguments import (
    check_label_counts,
    documented,
)
from tf_hsm.layers.row_options import RowOptions
from tf_hsm.layers.rows import RowSpec
from tf_hsm.layers.start_values import LabelTreeStart
from tf_hsm.tree.check import check_not_pinned
from tf_hsm.tree.tree import check_one_tree


@documented
@keras.saving.register_keras_serializable("tf_hsm")
class LabelTree(HeadLayer):
    """Probabilities of many labels, any number of which may be right.

    Each node of the tree has a sigmoid: how probable it is that a label is at
    or below it, if one is below its parent (Jasinska et al., 2016). A step
    costs the groups on the paths of the labels, and the root's:

    >>> head = tf_hsm.layers.LabelTree(tf_hsm.Tree.balanced(500_000, 100))
    >>> model = keras.Sequential([body, head])
    >>> model.compile("sgd", loss=head.loss,
    ...               metrics=[tf_hsm.metrics.PrecisionAtK(head, 5)])
    >>> model.fit(x, labels)

    Labels are `[..., M]` integers, where negative numbers stand for none, or
    ragged. An input without labels is trained on too: all its labels are wrong.
    The layer is also an endpoint, `head(hidden, labels)`, and `top_k` and
    `log_prob` take KerasTensors: see `HierarchicalSoftmax`.
    `predict_class` returns the most probable label of each input.

    Args:
      tree: a `tf_hsm.Tree`, whose classes are the labels.
      counts: the `tf_hsm.LabelCounts` of the data; None: not known. The biases
        then begin at `counts.log_odds()` instead, where each node is as
        probable as its labels are frequent. The layer does not save them: a
        saved layer has its biases.
      {rows}
      ignore_class: another number that stands for no label; or None.
      {in_place}
      {row_options}

    Attributes:
      kernel: the weights, `[tree.num_rows, width]`.
      bias: `[tree.num_rows]`, or None.

    Raises:
      TypeError: an argument is of a wrong type; the message names it.
      ValueError: `tree` is pinned; an option is not possible in place; or
        `counts` are of another tree, or there are no biases for them.
    """

    _unsupported = (
        "several_labels",
        "node_labels",
        "label_smoothing",
        "smoothing_prior",
        "class_weights",
        "focal_gamma",
        "z_loss",
    )

    def __init__(
        self,
        tree,
        *,
        counts=None,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        ignore_class=None,
        optimizer=None,
        stochastic_rounding=None,
        seed=0,
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
        check_one_tree(tree)
        check_not_pinned(tree, "a label tree")
        check_label_counts(counts, tree, use_bias)
        super().__init__(
            lambda: [tree],
            LabelSetObjective(tree.num_classes, ignore_class),
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
        self.objective.name = self.name
        self.tree = tree
        self.kernel = self.bias = None
        self._counts = counts

    def _make_head(self, width):
        prior = None if self._counts is None else self._counts.log_odds()
        self.kernel, self.bias = self.rows.make(self, self.tree, width, prior)
        return LabelTreeHead(self.kernel, self.bias, self.tree)

    def grow(self, tree, counts=None):
        """Returns a layer with another tree that has learned what this one has.

        The new layer has the name and the arguments of this one, which stays as
        it is, as does a model with it: `tf_hsm.grow` makes a model with the new
        layer.

        A row whose old labels are the old labels of a row of this layer keeps
        its weights, its bias and the slots of the layer's own optimizer, whose
        number of steps goes on. `tree.map_rows(layer.tree, from_top=True)` says
        which. Each row is a sigmoid of its own, so new rows change no other
        row: after `Tree.grow` the probability of every old label is what it
        was.

        New rows begin as follows. Slots begin as the optimizer makes them.

        - A row without old labels below it, beside rows that are kept: with
          `counts`, weights of zero and the log-odds of the counts as bias.
          Without counts, the mean weights and the mean bias of the kept rows of
          its group, so that its log-odds are the mean of theirs.
        - A row that has all old labels of its parent below it: weights of zero
          and a bias of 7, a probability of 0.999. `Tree.grow` makes no such
          row, but another tree can put old label 5 and a new one below an inner
          node in the place of the leaf of 5. The inner row then keeps the
          leaf's weights, and the leaf of 5 below it begins so: the probability
          of label 5 is 0.999 of what it was.
        - Any other row: weights of zero and the log-odds of the counts as bias;
          without counts, the log-odds as if each label occurred once, alone.

        Without biases a row with weights of zero has the probability 1/2.

        >>> tree = head.tree.grow(["new", "labels"])
        >>> head = head.grow(tree)

        Args:
          tree: from `Tree.grow` or `Tree.rebalance`, or any other whose first
            classes are the labels of the layer.
          counts: the `tf_hsm.LabelCounts` of `tree`; None: not known.

        Raises:
          TypeError: `tree` is not a `tf_hsm.Tree`, or `counts` are not a
            `tf_hsm.LabelCounts`.
          ValueError: the layer is not built; the tree is pinned, or has other
            labels; or `counts` are of another tree, or there are no biases for
            them.
        """
        return grown_layer.grow(self, tree, counts, start=LabelTreeStart)

    def prune(self, keep, *, merge=True, counts=None):
        """Returns a layer for fewer labels, with the rows of this one.

        See `HierarchicalSoftmax.prune` for arguments, result and errors. Each
        row is a sigmoid of its own, so every kept label keeps its probability,
        to the bit, whether removed labels fall to their parents or vanish. A
        merged label has the probability that at least one label of its inner
        node is right. Without `merge`, a group of one row stays, because its
        row has a probability.
        """
        return pruned_layer.prune(self, keep, merge, counts, drop="drop")

    def _own_config(self):
        return {"tree": self.tree.get_config()}
