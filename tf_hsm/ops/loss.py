"""The hierarchical softmax loss and its gradient."""

import functools
import operator

import tensorflow as tf

from tf_hsm.runtime import arguments as runtime_arguments
from tf_hsm.runtime import private_tensorflow
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import tree_tensors


def hierarchical_softmax_loss(
    weights, biases, labels, inputs, tree, ignore_class=None
):
    """Computes -log p(label | inputs) under a hierarchical softmax, in nats.

    Each internal node of the tree has a softmax over its children, and the
    probability of a class is the product along the path to its leaf (Morin and
    Bengio, 2005: Hierarchical Probabilistic Neural Network Language Model):

        loss = sum over the rows r of the path of lse(z over r's group) - z_r
        z_r = weights[r] . inputs + biases[r]

    The cost is that of the groups on the labels' paths, not of all classes.
    A variable is never copied: it is read in place under its shared lock. The
    gradients of `weights` and `biases` are `tf.IndexedSlices` over the rows of
    the touched groups, ascending and unique. They are those of the weights that
    the loss was made with: do not update a variable between a loss and its
    gradient (large batches read the weights again for it).

    Args:
      weights: `[rows, width]`, rows as in `tree.num_rows`: a tensor, a
        `tf.Variable` or a Keras variable; float32, bfloat16, float16 or
        float64. Sums are made in float32, for float64 in float64.
      biases: `[rows]` of the same type, or None.
      labels: `[...]`, int32 or int64, each in `[0, tree.num_classes)`.
      inputs: `[..., width]`, any of the float types.
      tree: a `tf_hsm.Tree`.
      ignore_class: a label whose loss is 0 and which gives no gradient, or
        None.

    Returns:
      `[...]`: one loss per label, in nats; float64 for float64 weights, else
      float32.

    Raises:
      tf.errors.InvalidArgumentError (ValueError where a graph is traced): a
        shape or a label does not fit; the message names the argument, the
        position, the value and the legal range.
    """
    ignored = [] if ignore_class is None else [operator.index(ignore_class)]
    return loss_ignoring(ignored, weights, biases, labels, inputs, tree)


def loss_ignoring(ignored, weights, biases, labels, inputs, tree):
    """`hierarchical_softmax_loss` that ignores any number of labels."""
    parameters = runtime_arguments.parameters(weights, biases)
    for variable in parameters.variables:
        if variable is not None:
            private_tensorflow.tell_tape(variable)
    op, type_of_handle = choose(
        parameters.on_variable,
        raw_ops.resource_tf_hsm_loss,
        raw_ops.tf_hsm_loss,
        parameters.dtype,
    )
    outputs = op(
        weights=parameters.arguments[0],
        biases=parameters.arguments[1:],
        labels=runtime_arguments.integers(labels),
        inputs=runtime_arguments.floats(inputs, parameters.dtype),
        **tree_tensors(tree)._asdict(),
        **type_of_handle,
        Taccumulator=runtime_arguments.accumulator(parameters.dtype),
        ignore_classes=ignored,
        with_gradients=(
            not tf.executing_eagerly() or private_tensorflow.is_recording()
        ),
    )
    return outputs.loss


def choose(on_variable, resource_op, tensor_op, dtype):
    """The op, and the attribute that a handle alone does not tell."""
    return (resource_op, {"T": dtype}) if on_variable else (tensor_op, {})


def where_op_ran(gradient):
    """Makes a gradient function's ops run on the device of the op itself.

    A tape runs them in the device scope of whoever asks for the gradient. But
    what an op keeps for its gradient lies in the memory of its device, and that
    of the loss is laid out by the kernel of that kind of device. Of an op that
    TensorFlow places, the gradient is left to TensorFlow too.
    """

    @functools.wraps(gradient)
    def on_device(op, *grads):
        with tf.device(op.outputs[0].device or None):
            return gradient(op, *grads)

    return on_device


@tf.RegisterGradient("TfHsmLoss")
@tf.RegisterGradient("ResourceTfHsmLoss")
@where_op_ran
def _loss_gradient(op, loss_grads, *unused_grads):
    """Gradients of (weights, biases, labels, inputs, tree arrays)."""
    _, input_grads, normalizers, probs = op.outputs
    num_biases = len(op.get_attr("BiasTypes"))
    parameters = list(op.inputs)[: 1 + num_biases]
    labels, inputs = list(op.inputs)[1 + num_biases : 3 + num_biases]
    arrays = list(op.inputs)[3 + num_biases : 8 + num_biases]
    grad_op, type_of_handle = choose(
        parameters[0].dtype == tf.resource,
        raw_ops.resource_tf_hsm_loss_grad,
        raw_ops.tf_hsm_loss_grad,
        op.get_attr("T"),
    )
    rows, weight_grads, bias_grads = grad_op(
        parameters[0],
        parameters[1:],
        labels,
        inputs,
        *arrays,
        loss_grads=loss_grads,
        normalizers=normalizers,
        probs=probs,
        **type_of_handle,
        ignore_classes=op.get_attr("ignore_classes"),
    )
    with tf.device("CPU:0"):  # where the array is
        count = tf.shape(arrays[3], out_type=tf.int64)
    width = tf.shape(inputs, out_type=tf.int64)[-1:]
    gradients = [
        tf.IndexedSlices(weight_grads, rows, tf.concat([count, width], 0)),
        tf.IndexedSlices(bias_grads, rows, count),
    ][: 1 + num_biases]
    input_gradient = tf.cast(
        loss_grads[..., tf.newaxis] * first_order_only(input_grads),
        inputs.dtype,
    )
    return [*gradients, None, input_gradient, *([None] * len(arrays))]


def first_order_only(input_grads):
    """Makes a second derivative of what an op made an error.

    It is a constant to any tape outside, which would see zero.
    """
    return tf.raw_ops.PreventGradient(
        input=input_grads,
        message="the hierarchical softmax loss has first-order gradients only",
    )


for _name in ("ResourceTfHsmLoss", "ResourceTfHsmLossGrad"):
    private_tensorflow.declare_read_only(_name)
