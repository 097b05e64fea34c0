"""The hierarchical softmax loss and its gradient."""

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.runtime import arguments, call, gradients, private_tensorflow
from tf_hsm.runtime.tree_tensors import tree_tensors
from tf_hsm.tree import Forest, Tree


def hierarchical_softmax_loss(
    weights,
    biases,
    labels,
    inputs,
    tree: Tree | Forest,
    *,
    ignore_class=None,
    label_smoothing: float = 0.0,
    nodes: bool = False,
    smoothing_prior=None,
    logit_soft_cap: float | None = None,
    z_loss: float = 0.0,
) -> tf.Tensor:
    """Computes -log p(label | inputs) under a hierarchical softmax, in nats.

    Each internal node of the tree has a softmax over its children, and the
    probability of a class is the product along the path to its leaf (Morin and
    Bengio, 2005: Hierarchical Probabilistic Neural Network Language Model):

        loss = sum over the rows r of the path of lse(z over r's group) - z_r
        z_r = weights[r] . inputs + biases[r]

    The cost is the groups on the labels' paths, not all classes.
    A variable is never copied: it is read in place under its shared lock. The
    gradients of `weights` and `biases` are `tf.IndexedSlices` over the rows of
    the touched groups, ascending and unique. The gradients belong to the
    weights that the loss was made with: do not update a variable between a loss
    and its gradient (large batches read the weights again for it).

    Args:
      weights: `[rows, width]`, rows as in `tree.num_weight_rows`: a tensor, a
        `tf.Variable` or a Keras variable; float32, bfloat16, float16 or
        float64. Sums are made in float32, for float64 in float64. A pinned
        tree (`tf_hsm.Tree.pin`) has one row of weights for each group, for its
        first row: the second row has z_r = 0.
      biases: `[rows]` of the same type, or None.
      labels: `[...]`, int32 or int64, each in `[0, tree.num_classes)`.
      inputs: `[..., width]`, any of the float types.
      tree: a `tf_hsm.Tree`; or a `tf_hsm.Forest`, whose loss is
        -log p(label | inputs, the root above the label).
      ignore_class: a label whose loss is 0 and which gives no gradient; a list
        or tuple of such labels; or None.
      label_smoothing: s in `[0, 1]`, a number, taken as float32: the target of
        each group on the path is the label's row with 1 - s and, with s, all of
        the group's rows alike (Szegedy et al., 2016: Rethinking the Inception
        Architecture for Computer Vision; here on each softmax of the path). In
        the formula, (1 - s) z_r + s mean(z) stands for z_r, so that a bias of
        minus infinity makes the losses of its whole group infinite.
      nodes: whether labels are rows, each in `[0, tree.num_rows)`, instead of
        classes: of a leaf, `tree.class_rows[c]`, or of an inner node, where no
        more than that is known. The probability of a node is the sum over all
        classes below it, and its path ends there.
      smoothing_prior: None; or `[tree.num_rows]`, taken as float32: with
        label_smoothing, the part of s that each row of a group has, as from
        `tree.row_shares(counts)`, instead of the same for all. Mean(z) is then
        weighted by it. The numbers of a group are in `[0, 1]` and sum to 1;
        groups that are on no label's path are not looked at. With
        weights on a GPU, other numbers are not refused. Make a tensor of it
        once: other arrays are copied at each call.
      logit_soft_cap: c > 0: the logits are c tanh(z_r / c), which are between
        -c and c (Gemma Team, 2024: Gemma 2); None: they are z_r. The tree must
        be flat (`tf_hsm.Tree.flat`) with at least 9 classes, and there is no
        label_smoothing. Give the other functions the same cap.
      z_loss: v >= 0: the loss has v times the square of lse(z) more, which
        keeps the sum of exp(z) near 1 (Chowdhery et al., 2022: PaLM, with
        v = 1e-4). The tree must be flat with at least 9 classes.

    Returns:
      `[...]`: one loss per label, in nats; float64 for float64 weights, else
      float32.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape, a label or `smoothing_prior` does not fit; the message names the
        argument, the position, the value and the legal range.
      ValueError: `label_smoothing` is not in `[0, 1]`, or `logit_soft_cap` or
        `z_loss` is out of its range.
    """
    options = loss_options(
        tree, label_smoothing, smoothing_prior, logit_soft_cap, z_loss
    )
    ignored = arguments.ignored_labels(ignore_class)
    return loss_outputs(
        weights, biases, labels, inputs, tree, ignored, nodes, options
    ).loss


def loss_outputs(
    weights, biases, labels, inputs, tree, ignored, nodes, options
):
    """Calls the loss op.

    Args:
      weights: see `hierarchical_softmax_loss`, also for what is not named here.
      biases: `[rows]`, or None.
      labels: `[...]`.
      inputs: `[..., width]`.
      tree: a `Tree` or a `Forest`.
      ignored: a list of labels.
      nodes: whether labels are rows of the tree.
      options: a dictionary from `loss_options`.

    Returns:
      Its outputs: `loss` `[...]`, `input_grads` `[..., width]`, the gradient of
      each loss by its inputs, and `state`, from which `tf_hsm_loss_grad` and
      `tf_hsm_loss_step` make the gradients of the rows.
    """
    return call.forward(
        "tf_hsm_loss",
        weights,
        biases,
        inputs,
        labels=arguments.integers(labels),
        **tree_tensors(tree, weights, nodes)._asdict(),
        ignore_classes=ignored,
        **options,
        with_gradients=gradients.is_recording(),
    )


def loss_options(
    tree,
    label_smoothing=0.0,
    smoothing_prior=None,
    logit_soft_cap=None,
    z_loss=0.0,
):
    """Returns options of `hierarchical_softmax_loss` as an op's arguments.

    Raises:
      TypeError: `tree` is no tree.
      ValueError: an option is out of its range.
    """
    _checks.check_is_tree(tree)
    return {
        "label_smoothing": arguments.share("label_smoothing", label_smoothing),
        "smoothing_prior": arguments.smoothing_prior(smoothing_prior),
        "logit_soft_cap": arguments.soft_cap(logit_soft_cap),
        "z_loss": _checks.check_real("z_loss", z_loss, 0),
        "pinned": tree.pinned,
    }


@tf.RegisterGradient("TfHsmLoss")
@tf.RegisterGradient("ResourceTfHsmLoss")
@gradients.on_forward_device
def _loss_gradient(op, loss_grads, *unused_grads):
    # The array, of known shape wherever it is, that has a number for each row
    # of the weights.
    array = "group_parents" if op.get_attr("pinned") else "row_groups"
    return _gradient(op, loss_grads, array)


@tf.RegisterGradient("TfHsmLabelTreeLoss")
@tf.RegisterGradient("ResourceTfHsmLabelTreeLoss")
@gradients.on_forward_device
def _label_tree_loss_gradient(op, loss_grads, *unused_grads):
    return _gradient(op, loss_grads, "row_groups")


def _gradient(op, loss_grads, array):
    """The gradients of weights, biases and inputs."""
    _, input_grads, state = op.outputs
    given = gradients.inputs_of(op)
    rows, weight_grads, bias_grads = call.op(
        "tf_hsm_loss_grad",
        op.get_attr("T"),
        given["weights"],
        biases=given["biases"],
        loss_grads=loss_grads,
        state=state,
    )
    rows, weight_grads, bias_grads = gradients.at_least_one_row(
        rows, weight_grads, bias_grads
    )
    count = tf.constant(given[array].shape.as_list(), tf.int64)
    inputs = given["inputs"]
    width = tf.shape(inputs, out_type=tf.int64)[-1:]
    return gradients.in_order(
        op,
        weights=tf.IndexedSlices(
            weight_grads, rows, tf.concat([count, width], 0)
        ),
        biases=tf.IndexedSlices(bias_grads, rows, count),
        inputs=tf.cast(
            loss_grads[..., tf.newaxis]
            * gradients.first_order_only(input_grads),
            inputs.dtype,
        ),
    )


private_tensorflow.declare_read_only(
    "ResourceTfHsmLoss", "ResourceTfHsmLossGrad"
)
private_tensorflow.vectorize_by_loop("TfHsmLoss", "ResourceTfHsmLoss")
