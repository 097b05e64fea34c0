"""The shared arguments of the layers' constructors, and their texts."""

import textwrap

import keras

from tf_hsm import _checks
from tf_hsm.label_counts import LabelCounts

# The texts of arguments, by the name of a placeholder in a class's docstring.
_TEXTS = {
    "rows": """
        use_bias: whether each row has a bias.
        kernel_initializer: for the weights `[rows, width]`.
        bias_initializer: for the biases `[rows]`, where no counts set them.
        """,
    "row_options": """
        kernel_regularizer: a Keras regularizer for the weights of the rows that
          a batch touches: see `tf_hsm.layers`. Regularizers and constraints are
          not possible with an `optimizer`.
        bias_regularizer: the same for their biases.
        kernel_constraint: a Keras constraint for these weights, of each row by
          itself.
        bias_constraint: the same for the biases.
        **kwargs: as for every Keras layer: `name`, `dtype`, `trainable`.
        """,
    "in_place": """
        optimizer: None: the optimizer of the model trains the rows. Or an
          optimizer for this layer alone, which updates the rows in the gradient
          of their losses: one that `tf_hsm.optimizers` says can step in place,
          or its name there. Its learning rate may be a schedule. Callbacks that
          set the rate of the model's optimizer do not set this rate;
          `tf_hsm.callbacks.FollowLearningRate` does.
        stochastic_rounding: with `optimizer`, whether bfloat16 weights are
          rounded up or down at random such that the mean is kept; None: yes.
        seed: of stochastic_rounding, an integer.
        """,
    "labels": """
        ignore_class: a label whose loss is 0 and does not count, or None.
        several_labels: whether labels are `[..., M]`, or ragged, several for
          each input. The loss of an input is the mean of its labels' losses;
          with `sample_weight` `[..., M]`, the probabilities of a teacher for
          example, it is their weighted sum. Negative numbers are no labels, and
          an input without labels does not count. `tf_hsm.label_lists` converts
          a multi-hot matrix `[..., num_classes]`, which is an error.
        """,
    "smoothing": """
        label_smoothing: the share of the target that each group on the label's
          path spreads over all its rows, in [0, 1]: see
          `tf_hsm.hierarchical_softmax_loss`. `tf_hsm.metrics.Perplexity` is not
          smoothed.
        smoothing_prior: `[N]`, how often each class occurs, or other numbers of
          at least 0: label smoothing goes towards them, by their shares in each
          group (`tree.row_shares`), instead of evenly. It is saved with the
          layer. Where the layer grows, a new class has the mean of all others.
        """,
    "loss": """
        class_weights: `[N]`, or a mapping as `Tree.with_counts` takes it, in
          which missing classes have 1: the loss of a label is multiplied by the
          weight of its class.
        focal_gamma: the exponent of `tf_hsm.losses.focal_loss`; not possible
          with label_smoothing.
        """,
}


def documented(layer):
    """Decorates a class: writes shared texts into its docstring.

    A line `{name}` in the docstring becomes the text of that name.
    """
    lines = []
    # Python -OO has no docstrings.
    for line in (layer.__doc__ or "").split("\n"):
        name = line.strip()[1:-1]
        if line.strip() == f"{{{name}}}" and name in _TEXTS:
            indent = line[: len(line) - len(line.lstrip())]
            text = textwrap.dedent(_TEXTS[name]).strip()
            line = textwrap.indent(text, indent)
        lines.append(line)
    layer.__doc__ = "\n".join(lines)
    return layer


def width_of(inputs_shape):
    """Returns the last dimension of a shape; a ValueError if it is unknown."""
    width = inputs_shape[-1] if inputs_shape else None
    if width is None:
        raise ValueError(
            "the last dimension of inputs must be known, but their shape is "
            f"{inputs_shape and tuple(inputs_shape)}"
        )
    return width


def starting_counts(counts, tree, use_bias, bias_initializer):
    """Returns the counts `[N]` with which biases begin, or None.

    They are the given counts. Without them they are the counts of the tree,
    unless the user asks for other biases.

    Raises:
      ValueError: counts are not usable, or there are no biases for them.
    """
    if counts is None:
        zeros = keras.initializers.Zeros
        is_default = isinstance(keras.initializers.get(bias_initializer), zeros)
        return tree.counts if use_bias and is_default else None
    counts = _checks.check_counts(tree._by_class(counts), tree.num_classes)
    if not use_bias:
        raise ValueError("counts set the biases, but use_bias is False")
    return counts


def check_label_counts(counts, tree, use_bias):
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
        raise ValueError("counts belong to another tree than the layer's")
    if not use_bias:
        raise ValueError("counts set the biases, but use_bias is False")
