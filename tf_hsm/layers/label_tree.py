"""The probabilistic label tree as a Keras layer."""

import keras

from tf_hsm.heads.labels import LabelTreeHead
from tf_hsm.label_counts import LabelCounts
from tf_hsm.layers.arguments import check_tree, documented
from tf_hsm.layers.head_layer import HeadLayer
from tf_hsm.layers.label_set_objective import LabelSetObjective
from tf_hsm.tree.check import check_not_pinned


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
    ...               metrics=[tf_hsm.metrics.PrecisionAtK(5)])
    >>> model.fit(x, labels)

    Labels are `[..., M]` integers, where negative numbers stand for none, or
    ragged. An input without labels is trained on too: all its labels are wrong.
    The layer is also an endpoint, `head(hidden, labels)`, and `top_k` and
    `log_prob` take KerasTensors: see `HierarchicalSoftmax`. Trained,
    `head(inputs)` is the most probable label of each input.

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
        """See the class."""
        given = locals()
        check_tree(tree)
        check_not_pinned(tree, "a label tree")
        _check_counts(counts, tree, use_bias)
        super().__init__(
            tree.num_classes,
            lambda: [tree],
            given,
            LabelSetObjective(ignore_class),
            **kwargs,
        )
        self.tree = tree
        self.kernel = self.bias = None
        self._counts = counts

    def _make_head(self, width):
        prior = None if self._counts is None else self._counts.log_odds()
        self.kernel, self.bias = self.rows.make(self, self.tree, width, prior)
        return LabelTreeHead(self.kernel, self.bias, self.tree)

    def _own_config(self):
        return {"tree": self.tree.get_config()}


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
